"""The figure in README: the rows of the estimators' files, and an SVG that needs no page around it."""

import csv
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from settings import ROOT

from annulus.report.front import GAUSSIANS, PAIRS, STAIRCASE, WEIGHTS, known_information, main
from annulus.report.metrics import Metrics


@pytest.fixture
def rows():
    return [Metrics(ROOT).rows(name) for name in (GAUSSIANS, STAIRCASE)]


def test_each_line_is_one_series_of_its_file_and_the_truth_is_the_diagonal(rows):
    left, right = known_information(*rows).axes
    for axes, shown, table, name in (
        (left, PAIRS, rows[0], lambda row: f"{row['method']}, {row['pairs']:g}"),
        (right, WEIGHTS, rows[1], lambda row: row["series"]),
    ):
        truth, *lines = axes.get_lines()
        assert list(truth.get_xdata()) == list(truth.get_ydata()) == [2.0, 4.0, 6.0, 8.0, 10.0]
        assert len(lines) == len(shown)
        for line, series in zip(lines, shown, strict=True):
            expected = [row["estimate_nats"] for row in table if name(row) == series]
            assert list(line.get_ydata()) == expected


def test_names_at_the_ends_of_lines_do_not_overlap(rows):
    for axes in known_information(*rows).axes:
        heights = sorted(text.get_position()[1] for text in axes.texts if text.get_position()[0] > 10)
        assert len(heights) == 6
        assert min(b - a for a, b in pairwise(heights)) >= 0.85 - 1e-9


def test_what_it_says_is_so(rows):
    if rows[0][0]["scale"] != "paper":
        pytest.skip("metrics/estimators is of another scale")
    gaussians = {(row["method"], row["pairs"], row["information_nats"]): row["estimate_nats"] for row in rows[0]}
    staircase = {(row["series"], row["information_nats"]): row["estimate_nats"] for row in rows[1]}
    for nats in (6.0, 8.0, 10.0):
        few, many, fewer = (
            gaussians[key] for key in (("EqCo", 64, nats), ("InfoNCE", 512, nats), ("InfoNCE", 64, nats))
        )
        assert abs(few - many) < 0.35 < many - fewer
    assert all(staircase["CPC, alpha 0.0001", nats] > nats for nats in (4.0, 6.0, 8.0, 10.0))
    assert all(value < nats for (series, nats), value in staircase.items() if series.startswith("ML-CPC"))


def test_the_file_needs_no_page_around_it(tmp_path):
    main(["--root", str(ROOT), "--svg", str(tmp_path / "figure.svg")])
    content = (tmp_path / "figure.svg").read_text()
    tree = ElementTree.fromstring(content)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert tree[0].tag.endswith("style")
    for variable in ("--ground:", "--ink:", "--series-1:"):
        assert content.count(variable) == 2  # light and dark


def test_a_missing_file_or_series_is_one_sentence(tmp_path, rows):
    with pytest.raises(SystemExit, match=r"ERROR: metrics/estimators/gaussians.csv is not there; `dvc repro"):
        main(["--root", str(tmp_path), "--svg", str(tmp_path / "figure.svg")])
    folder = tmp_path / "metrics" / "estimators"
    folder.mkdir(parents=True)
    for name in (GAUSSIANS, STAIRCASE):
        with (tmp_path / "metrics" / name).open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[name == STAIRCASE][0]))
            table.writeheader()
            table.writerows(row for row in rows[name == STAIRCASE] if row.get("method") != "EqCo")
    with pytest.raises(SystemExit, match=r"ERROR: metrics/estimators: .*has no series EqCo, 64"):
        main(["--root", str(tmp_path), "--svg", str(tmp_path / "figure.svg")])
