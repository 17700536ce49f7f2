"""The figure of methods published after the five papers: gains over IR, the largest in kNN first."""

import pytest

from annulus_lab.report.figures.drawing import GROUND
from annulus_lab.report.figures.later import later


def row(method, gain, knn_gain, verdict="better", knn_verdict="better"):
    numbers = {"here_gain_percent": gain, "here_knn_gain_percent": knn_gain}
    halves = {"here_gain_interval_percent": 0.25, "here_knn_gain_interval_percent": 0.5}
    return {"method": method, "verdict": verdict, "knn_verdict": knn_verdict} | numbers | halves


ROWS = [
    row("IR", 0.0, 0.0, "base", "base"),
    row("oracle", 0.5, 1.0, knn_verdict="within noise (could see 1 points)"),
    row("HCL", -0.25, 2.0),
    row("HCL warm", 5.0, 5.0),  # it has another base
]


def test_each_panel_has_a_mark_a_row_with_its_interval_and_those_within_noise_are_hollow():
    figure = later(ROWS)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["HCL", "oracle"]
    for axes, gains, half, filled in zip(
        figure.axes, ([-0.25, 0.5], [2.0, 1.0]), (0.25, 0.5), ([True, True], [True, False]), strict=True
    ):
        marks = [line for line in axes.get_lines() if line.get_marker() in ("o", "s")]
        assert [line.get_xdata()[0] for line in marks] == gains
        assert [line.get_marker() for line in marks] == ["o", "s"]
        assert [line.get_markerfacecolor() != GROUND for line in marks] == filled
        spans = [segment[:, 0].tolist() for bars in axes.collections for segment in bars.get_segments()]
        assert spans == [[gain - half, gain + half] for gain in gains]


def test_a_table_without_a_row_besides_the_base_is_named():
    with pytest.raises(ValueError, match="holds no rows"):
        later(ROWS[:1])
