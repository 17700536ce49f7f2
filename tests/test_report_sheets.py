"""Sheets of pictures in the page: small, and a damaged or a huge file is one sentence."""

import os
import re

import pytest
from PIL import Image

from annulus.report.page.sheets import SHEETS, Sheet, sheets
from annulus.report.page.shown import ANNULUS, annulus

NAME = next(iter(SHEETS))


@pytest.fixture
def path(tmp_path):
    (tmp_path / "metrics" / NAME).parent.mkdir(parents=True)
    return tmp_path / "metrics" / NAME


def of(path, root):
    return next(sheet for name, sheet in zip(SHEETS, sheets(root), strict=True) if name == NAME)


def test_a_large_picture_comes_into_the_page_as_a_small_one(path, tmp_path):
    Image.effect_noise((1500, 1000), 80).convert("RGB").save(path)
    found = of(path, tmp_path)
    assert isinstance(found, Sheet)
    assert path.stat().st_size > 1_200_000
    assert len(found.source) < 500_000


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: Image.new("1", (5_000, 5_000)).save(path), "5000 x 5000 pixels, more than the page takes"),
        (lambda path: Image.new("L", (99, 99)).save(path) or path.write_bytes(path.read_bytes()[:60]), "no PNG file"),
        (lambda path: path.write_bytes(b"text"), "no PNG file"),
        (os.mkfifo, "no PNG file that can be read: .*a pipe or a device"),
        (lambda path: None, "is not there"),
    ],
)
def test_a_damaged_sheet_is_one_sentence_and_never_a_hang(path, tmp_path, damage, sentence):
    damage(path)
    found = of(path, tmp_path)
    assert found.reason.startswith(f"metrics/{NAME} ")
    assert re.search(sentence, found.reason)


def test_a_picture_of_the_annulus_that_is_too_large_is_left_out(tmp_path):
    path = tmp_path / "metrics" / ANNULUS
    path.parent.mkdir(parents=True)
    path.write_text("<svg>" + " " * 500_000)
    assert annulus(tmp_path).reason == f"metrics/{ANNULUS} has more than 400000 bytes"
    path.write_text('<svg d="M152.3 122.9h0"/>')
    assert annulus(tmp_path) == "data:image/svg+xml,%3Csvg d=%22M152 123h0%22/%3E"
