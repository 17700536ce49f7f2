"""What the READMEs say of the repository: links, choices, papers, and the lines of Python, which run."""

import json
import re

import pytest
import yaml
from settings import ROOT

from annulus.config import SECTION_OF

READMES = ["README.md", "stages/README.md", "data/README.md", "metrics/README.md", "src/annulus/README.md"]


def read(name):
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", READMES)
def test_every_link_leads_to_a_file_or_a_heading(name):
    links = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", read(name))
    for path, _, heading in ((one or other).partition("#") for one, other in links):
        if path.startswith("https://"):
            continue
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), path
        headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE) if heading else []
        known = ["", *(re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings)]
        assert heading in known, (path, heading)


def test_the_choices_are_those_of_params_yaml():
    params = yaml.safe_load(read("params.yaml"))
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", read("README.md"), re.MULTILINE)
    assert len(rows) == 7
    for key, choices in rows:
        assert choices.strip().split(", ") == list(params[SECTION_OF[key]]), key


def test_the_lines_of_python_run():
    (lines,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    found = {}
    exec(lines, found)
    assert len([line for line in lines.splitlines() if line]) == 6
    assert (found["loss"].ndim, found["loss"] > 0) == (0, True)


def test_the_runs_by_hand_are_told_as_measured():
    rows = re.findall(r"^\| CIFAR-10, .+ \|$", read("metrics/README.md"), re.MULTILINE)
    assert len(rows) == 5
    for row in rows:
        _, knn, nearest, linear, bound, file = (cell.strip() for cell in row.strip("|").split("|"))
        measured = json.loads((ROOT / "metrics" / file.strip("`")).read_text())
        told = [f"{measured[name]:.1f} %" for name in ("knn_top1_percent", "nn1_top1_percent", "linear_top1_percent")]
        assert [knn, nearest, linear] == told
        assert bound == f"{measured['bound_nats']:.2f} of {measured['bound_ceiling_nats']:.2f}"


def test_the_comparison_is_told_as_measured():
    """README's rows are those of the file, and the file's base is the committed main line."""
    measured = read("metrics/figures/comparison.txt").splitlines()
    (shown,) = re.findall(r"```\n(number .*?)```", read("README.md"), re.DOTALL)
    assert set(shown.splitlines()) <= set(measured)
    means = {row.split(",")[0]: row.split(",")[1] for row in read("metrics/summary.csv").splitlines()[1:]}
    base = {line.split()[0]: line.split()[1] for line in measured if line.split()[:1] and line.split()[0] in means}
    assert base == means
