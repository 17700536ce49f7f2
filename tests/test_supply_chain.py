"""Supply chain: packages by hash, actions by commit, and one job of a workflow that may write."""

import re

import pytest
from by_path import ROOT, read_yaml

LOCK = (ROOT / "requirements.lock").read_text()
WORKFLOWS = {path.name: read_yaml(path) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
JOBS = [(file, name, job) for file, flow in WORKFLOWS.items() for name, job in flow["jobs"].items()]


def test_every_pinned_package_has_hashes_and_no_registry_or_path_is_named():
    pins = re.split(r"\n(?=[^ ])", LOCK.strip())
    assert len(pins) > 200
    for pin in pins:
        assert re.match(r"[\w.-]+==[\w.+-]+( ; .*?)? \\\n    --hash=sha256:[0-9a-f]{64}", pin), pin
    assert not re.search("://|/tmp|/opt|index-url|find-links", LOCK)


def test_every_installation_looks_at_the_hashes():
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    installs = re.findall(r"pip install .*?-r \S+", makefile)
    assert len(installs) == 4
    assert all("--require-hashes" in line for line in installs)


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_an_action_is_a_commit_with_its_tag_beside_it(path):
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"(actions|pypa)/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


WRITING = {
    ("pages.yml", "publish"): {"pages": "write", "id-token": "write"},
    ("publish.yml", "publish"): {"id-token": "write"},
    ("review.yml", "comment"): {"pull-requests": "write"},
}


def test_only_a_job_that_runs_nothing_of_the_repository_may_write():
    assert all(flow["permissions"] == {"contents": "read"} for flow in WORKFLOWS.values())
    writing = {(file, name): job for file, name, job in JOBS if "permissions" in job}
    assert {place: job["permissions"] for place, job in writing.items()} == WRITING
    assert "pull_request" not in WORKFLOWS["pages.yml"][True]  # YAML reads `on` as a truth value
    for job in writing.values():
        for step in job["steps"]:
            assert "checkout" not in step.get("uses", "")
            assert "make" not in step.get("run", "")
            assert ".ci" not in step.get("run", "")
