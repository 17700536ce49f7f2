"""The page's figures: content, style, and errors for rows that lack something."""

import math
import re

import pytest
import report_root
from report_root import Parsed

from annulus_lab.report.figures.catalogue import PLOTS, comparisons
from annulus_lab.report.figures.drawing import CSS, finish, looks, numbers, panels, svg
from annulus_lab.report.figures.gains import (
    GENERATED,
    compared_rows,
    finding,
    gains,
    run_key,
    surviving_keys,
    verdict_summary,
)
from annulus_lab.report.page.sections import figure
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.papers.tables import number

BY_NAME = {plot.name: plot for plot in PLOTS}


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    root = tmp_path_factory.mktemp("figures")
    report_root.everything(root)
    return Metrics(root)


def draw(plot, metrics):
    return plot.draw(*[metrics.rows(file) for file in plot.files])


def near(value, cell):
    """True if both are equal up to rounding, or if `value` is a share of 1 in percent."""
    if isinstance(value, str) or isinstance(cell, str):
        return value == cell
    return any(math.isclose(value, times * cell, rel_tol=1e-9) for times in (1, 100))


def image(plot, metrics):
    return svg(lambda: draw(plot, metrics), plot.name, plot.title)


def test_every_figure_is_drawn_from_its_files_with_labelled_axes(metrics):
    for plot in PLOTS:
        for axes in draw(plot, metrics).axes:
            assert all((axes.get_xlabel(), axes.get_ylabel(), axes.lines or axes.collections)), plot.name


@pytest.mark.parametrize(("label", "halves"), [("epoch", False), ("temperature", True)])
def test_ticks_of_epochs_are_whole_and_those_of_other_numbers_need_not_be(label, halves):
    _, (axes,) = panels("five epochs")
    axes.plot([1, 5], [30.0, 40.0])
    finish(axes, label, "percent")
    assert any(tick % 1 for tick in axes.get_xticks()) == halves


def half_widths(container):
    """Returns half of each error bar, by axis: 0 for x, 1 for y. Axes without bars are absent."""
    ways = [0] * container.has_xerr + [1] * container.has_yerr
    return {
        way: [abs(end[way] - start[way]) / 2 for start, end in bars.get_segments()]
        for way, bars in zip(ways, container[2], strict=True)
    }


def test_every_point_of_a_study_s_figure_is_a_row_s_beside_its_name_and_with_its_own_interval(metrics):
    for plot in (plot for plot in PLOTS if plot.section == "papers"):
        rows = [[*row.values()] for file in plot.files for row in metrics.rows(file)]
        barred = {}
        for axes in draw(plot, metrics).axes:
            names = dict(zip(axes.get_yticks(), (label.get_text() for label in axes.get_yticklabels()), strict=True))
            bar_lines = {line for bars in axes.containers for line in (bars[0], *bars[1])}
            for line in set(axes.lines) - bar_lines:
                points = line.get_xydata().tolist()
                known = any(len({*axis}) == 1 for axis in zip(*points, strict=True)) or all(x == y for x, y in points)
                assert known or all(any({*point} <= {*row} for row in rows) for point in points), plot.name
            for container in axes.containers:
                halves = half_widths(container)
                barred |= {way: any(half) or barred.get(way, False) for way, half in halves.items()}
                for place, (x, y) in enumerate(container[0].get_xydata().tolist()):
                    cells = [half[place] for half in halves.values() if half[place]]
                    cells += [x, names[round(y)]] if [*halves] == [0] else [x, y]
                    assert any(all(any(near(each, cell) for cell in row) for each in cells) for row in rows), plot.name
        assert {*barred.values()} == ({True} if plot.bars else set()), plot.name


def test_a_figure_has_the_same_bytes_whenever_it_is_drawn_and_its_colours_from_the_page(metrics):
    text, again = (image(BY_NAME["ring.fig2a"], metrics) for _ in range(2))
    assert text == again
    assert "var(--series-1)" in text
    assert "currentColor" in text
    assert not re.findall(r"#[0-9a-fA-F]{6}\b", text), "a colour that is wrong in the dark"
    assert not [sentinel for sentinel in CSS if sentinel in text]


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script> --> <img src=x onerror=alert(1)>", "$x$ \\frac", "_hidden", "a\nb\x00"]
)
def test_a_series_may_be_called_anything(tmp_path, name):
    report_root.studies(tmp_path, "*negatives/*.csv", name)
    text = image(BY_NAME["mutualinfo.fig9"], Metrics(tmp_path))
    assert not [tag for tag, _ in Parsed(text).tags if tag in ("script", "img")]
    assert "<!--" not in text
    words = re.sub(r"<[^>]*>", " ", text)
    assert name.split()[0].strip("_\x00").replace("<", "&lt;").replace(">", "&gt;") in words


def test_gains_have_intervals_verdicts_and_the_papers_gain(metrics):
    rows = metrics.rows(GENERATED)
    row = {
        "table": "none", "method": "SimCLR", "verdict": "within noise (could see 4 points)", "here_percent": 20.0,
        "here_gain_percent": -3.0, "here_gain_interval_percent": 4.0, "paper_gain_percent": "",
    }  # fmt: skip
    rows = [row, row | {"method": "SiMo", "here_gain_interval_percent": "", "verdict": "one seed"}, *rows]
    assert list(compared_rows(rows)) == ["ring.table1a", "none"], "the papers' tables first"
    for_all = verdict_summary([row | {"here_percent": float(i), "seeds": 5} for i in range(40)])
    assert "By chance alone 2 would be called better or worse on average, and 5 or more in one table of ten" in for_all
    assert "Holm's correction for all 40 leaves 0 better and 0 worse" in for_all
    for table, methods, gains_here, halves, labels in (
        ("ring.table1a", ["MoCoRing"], [0.7], [0.5], ["the paper", "here, significant"]),
        ("none", ["SimCLR", "SiMo"], [-3.0, -3.0], [4.0, 0.0], ["here, within noise"]),
    ):
        (axes,) = gains(rows, table).axes
        assert [label.get_text() for label in axes.get_yticklabels()] == methods
        assert axes.get_legend_handles_labels()[1] == labels
        dots, _, (bars,) = axes.containers[0]
        assert list(dots.get_xdata()) == gains_here
        assert [(end - start) / 2 for (start, _), (end, _) in bars.get_segments()] == pytest.approx(halves)
    with pytest.raises(ValueError, match="holds no rows"):
        gains(rows, "ring.table6")


OF_IR = {"paper_percent": 83.9, "paper_gain_percent": 2.7, "here_percent": 20.0, "here_gain_percent": -0.21}


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        ({}, "gain over IR"),  # here other seeds may be common
        ({"paper_percent": 86.1, "paper_gain_percent": 3.0}, "gain over its base"),
        ({"paper_percent": "", "paper_gain_percent": ""}, "gain over its base"),
        ({"paper_percent": "", "paper_gain_percent": "", "here_gain_percent": -2.99}, "gain over IR"),
        ({"verdict": "base"}, "gain over its base"),
    ],
)
def test_the_title_names_the_base_where_all_gains_are_over_it(changed, title):
    base = {"table": "ring.table1a", "method": "IR", "verdict": "base", "paper_percent": 81.2, "here_percent": 23.0}
    row = base | OF_IR | {"method": "IRing", "verdict": "better"}
    rows = [base | {"paper_gain_percent": 0.0, "here_gain_percent": 0.0}, row, row | {"method": "MoCoRing"} | changed]
    assert [plot.title for plot in comparisons(rows, GENERATED)] == [f"Linear probe, {title}"]


def test_what_rows_of_one_table_are_compared_with_is_told_below_the_figure(metrics):
    (plot,) = comparisons(metrics.rows(GENERATED), GENERATED)
    assert figure(plot, metrics, []).caption == "MoCoRing is compared with MoCo, CMCRing with CMC."


def test_a_row_in_two_tables_counts_once_and_rows_of_other_runs_and_one_seed_do_not_make_it_another():
    numbers = {"here_percent": 44.0, "here_gain_percent": 0.6, "here_knn_percent": 39.9, "here_knn_gain_percent": 0.2}
    numbers |= {"here_gain_interval_percent": 0.1, "seeds": 5}
    row = {"table": "a", "method": "BALL", "verdict": "better", "bound_nats": 1.0, **numbers}
    base = row | {"method": "IR", "verdict": "base", "here_percent": 43.4, "here_gain_percent": 0.0}
    rows = [base, row, row | {"table": "b"}, row | {"method": "RING", "here_knn_percent": 40.9, "bound_nats": 0.5}]
    assert verdict_summary(rows).startswith("Of 2 differences 2 are better")
    assert "Holm's correction for all 2 leaves 2 better and 0 worse" in verdict_summary(rows)
    assert surviving_keys(rows) == {run_key(row), run_key(rows[-1])}
    assert surviving_keys([one | {"here_gain_interval_percent": 0.5} for one in rows]) == set(), (
        "0.6 +- 0.5 alone stands"
    )
    single = [one | {"verdict": "one seed"} for one in rows[1:]]
    assert verdict_summary([base, *single]) == "Each has one seed, so no difference has a verdict."
    assert finding([base, *single], "CIFAR-10").startswith("On CIFAR-10 each algorithm has one seed")
    assert verdict_summary([*rows, row | {"table": "c", "verdict": "equal", "here_percent": 1.0}]).startswith(
        "Of 2 differences"
    )


def test_more_series_panels_or_methods_than_can_be_drawn_are_a_sentence(metrics):
    row = next(row for row in metrics.rows(GENERATED) if row["verdict"] != "base")
    for many, sentence in (
        (lambda: looks(map(str, range(400))), "400 series, at most 32"),
        (lambda: panels(*map(str, range(400))), "400 panels, at most 32"),
        (lambda: gains([row] * 400, "ring.table1a"), "400 methods of ring.table1a, at most 100"),
    ):
        with pytest.raises(ValueError, match=sentence):
            many()


def test_rows_that_failed_do_not_set_the_axis_and_are_arrows_with_their_value(metrics):
    row = next(row for row in metrics.rows(GENERATED) if row["verdict"] != "base")
    rows = [row | {"method": str(gain), "here_gain_percent": gain} for gain in (0.7, -45.75, 80.0)]
    (axes,) = gains(rows, "ring.table1a").axes
    assert axes.get_xlim() == (-10, 10)
    assert [text.get_text() for text in axes.texts] == [number(-45.75, 1), "80.0"]
    assert [list(line.get_xdata()) for line in axes.lines if line.get_marker() in "<>"] == [[-10], [10]]


def test_a_row_within_the_papers_gains_is_a_dot_with_its_interval_and_no_diamond_covers_an_arrow_s_value(metrics):
    row = next(row for row in metrics.rows(GENERATED) if row["verdict"] != "base")
    places = ((-17.0, -18.0), (-19.9, ""), (-50.0, -20.0), (-60.0, 5.0), (0.5, 7.0))
    rows = [
        row
        | {"method": str(here), "here_gain_percent": here, "here_gain_interval_percent": 3.0, "paper_gain_percent": of}
        for here, of in places
    ]
    (axes,) = gains(rows, "ring.table1a").axes
    dots, _, (bars,) = axes.containers[0]
    assert list(dots.get_xdata()) == [-17.0, -19.9, 0.5], "the second is within the first one's interval"
    least, _ = axes.get_xlim()
    assert least < -22.9 == pytest.approx(min(segment[0][0] for segment in bars.get_segments()))
    assert [list(line.get_xdata()) for line in axes.lines if line.get_marker() == "<"] == [[least], [least]]
    assert [text.xy[0] for text in axes.texts] == [-20.0, least]


def test_curves_show_the_mean_and_each_seed_and_estimates_stand_beside_the_truth(metrics):
    (axes,) = draw(BY_NAME["curve.accuracy"], metrics).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[10.5, 20.5, 30.5], [10, 20, 30], [11, 21, 31]]
    mean, *seeds = axes.lines
    assert all(line.get_linewidth() < mean.get_linewidth() and line.get_alpha() < 1 for line in seeds)
    one = [row for row in metrics.rows("main/pretrain_history.csv") if row["seed"] == 0]
    assert len(BY_NAME["curve.accuracy"].draw(one).axes[0].lines) == 1, "of one seed the mean is the seed"

    (axes,) = draw(BY_NAME["curve.gradient"], metrics).axes
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (min(band), max(band), *axes.lines[0].get_ydata()) == (2.5, 3.5, 3, 3, 3), "one std on each side"

    capped, free = draw(BY_NAME["estimators.ideal"], metrics).axes
    capped_names, free_names = (set(each.get_legend_handles_labels()[1]) for each in (capped, free))
    assert ("InfoNCE" in capped_names, "NWJ" in free_names) == (True, True)
    assert capped_names & free_names == {"true"}, "those without a ceiling stand apart"
    truth = next(line for line in free.lines if line.get_label() == "true")
    assert list(truth.get_xdata()) == list(truth.get_ydata())


def test_rows_that_lack_everything_or_hold_text_are_an_error_that_says_so():
    for plot in PLOTS:
        with pytest.raises(ValueError, match=r"has no column|has none of the columns"):
            plot.draw(*[[{"nothing": 1.0}] for _ in plot.files])
    with pytest.raises(ValueError, match=r"^x is 'abc' in row 2, expected a number$"):
        numbers([{"x": 1.0}, {"x": "abc"}], "x")


def test_series_keep_their_looks_from_figure_to_figure_and_differ_within_one():
    for names in (["NCE", "CNCE", "IR", *map(str, range(29))], ["ring", *map(str, range(31))]):
        assert len({str(look) for look in looks(names).values()}) == 32
    one, other = looks(["uniform", "ball", "ring", "cave"]), looks(["new", "ring", "other"])
    assert one["ring"] == other["ring"]
    assert len({look["color"] for look in one.values()}) == len({look["marker"] for look in one.values()}) == len(one)
