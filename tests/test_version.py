"""Version of the installed package, else of the checkout."""

import re

import pytest
from by_path import ROOT

import annulus


@pytest.mark.parametrize("installed", [False, True])
def test_the_version_is_that_of_what_is_installed_or_else_of_the_checkout(installed, tmp_path, monkeypatch):
    expected = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    if installed:
        expected = "7.8.9"
        (tmp_path / "annulus_ssl-7.8.9.dist-info").mkdir()
        (tmp_path / "annulus_ssl-7.8.9.dist-info/METADATA").write_text("Name: annulus-ssl\nVersion: 7.8.9\n")
    assert annulus.__version__ == expected
