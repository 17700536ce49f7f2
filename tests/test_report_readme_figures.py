"""Figures in README: the rows of the estimators' files, and SVGs that work without the page."""

from xml.etree import ElementTree

import pytest
from by_path import ROOT
from report_root import pipelines, written

from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.readme_figures import FIGURES, GAUSSIANS, PAIRS, STAIRCASE, WEIGHTS, known_information, main


@pytest.fixture
def rows():
    return [Metrics(ROOT).rows(name) for name in (GAUSSIANS, STAIRCASE)]


def test_each_line_is_one_series_of_its_file_and_the_truth_is_the_diagonal(rows):
    left, right = known_information(*rows).axes
    for axes, styles, table, name in (
        (left, PAIRS, rows[0], lambda row: f"{row['method']}, {row['pairs']:g}"),
        (right, WEIGHTS, rows[1], lambda row: row["series"]),
    ):
        truth, *lines = axes.get_lines()
        assert list(truth.get_xdata()) == list(truth.get_ydata()) == [2.0, 4.0, 6.0, 8.0, 10.0]
        for line, series in zip(lines, styles, strict=True):
            assert list(line.get_ydata()) == [row["estimate_nats"] for row in table if name(row) == series]


@pytest.mark.parametrize("figure", FIGURES)
def test_the_file_needs_no_page_around_it(figure, tmp_path):
    main([figure, "--root", str(ROOT), "--svg", str(tmp_path / "figure.svg")])
    content = (tmp_path / "figure.svg").read_text()
    assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    assert content.count("--series-1:") == 2  # light and dark


def test_a_missing_file_or_series_is_one_sentence(tmp_path, rows):
    pipelines(tmp_path, "estimators")
    with pytest.raises(SystemExit, match=r"ERROR: stages/estimators/metrics/gaussians.csv is not there; `make study"):
        main(["known-information", "--root", str(tmp_path), "--svg", str(tmp_path / "figure.svg")])
    for name, table in zip((GAUSSIANS, STAIRCASE), rows, strict=True):
        written(tmp_path, name, [row for row in table if row.get("method") != "EqCo"])
    with pytest.raises(SystemExit, match=r"ERROR: .*estimators/metrics/gaussians.csv.*has no series EqCo, 64"):
        main(["known-information", "--root", str(tmp_path), "--svg", str(tmp_path / "figure.svg")])
