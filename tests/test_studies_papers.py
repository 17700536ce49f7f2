"""The papers' numbers beside ours; gains in pairs of a seed and a test image."""

from pathlib import Path

import numpy as np
import pytest

from annulus.errors import InputError
from annulus.evals.families import by_chance
from annulus.files.results import write_seeds
from annulus.files.right import write_right
from annulus_lab.studies.shared.outcomes import gain
from annulus_lab.studies.shared.papers import StudyRows, as_text, compared, comparison_table, in_pairs, pairs_as_text


def bits(*right: int) -> dict[int, np.ndarray]:
    """Right images of each seed: the first `right` of 200 test images."""
    return {seed: np.arange(200) < count for seed, count in enumerate(right)}


def both(linear: dict[int, np.ndarray]) -> dict[str, dict[int, np.ndarray]]:
    """Right images of the linear probe and of kNN, which is right for every second of the probe's."""
    even = np.arange(200) % 2 == 0
    return {"linear_top1_percent": linear, "knn_top1_percent": {seed: each & even for seed, each in linear.items()}}


def write_row(folder: Path, name: str, *right: int, top5: tuple[float, ...] = ()) -> StudyRows:
    """Writes the files of a row, where kNN is right half as often, and returns the rows of the folder."""
    metrics = {"bound_nats": 2.5, "ceiling_nats": 6.25, "epochs": 20}
    by_seed = dict.fromkeys(range(len(right)), metrics)
    by_seed |= {seed: metrics | {"linear_top5_percent": value} for seed, value in enumerate(top5)}
    write_seeds(folder / f"rows/{name}.json", by_seed)
    write_right(folder / f"right/{name}.json", both(bits(*right)))
    return StudyRows(folder / "rows", folder / "right")


def test_a_row_is_beside_the_paper_s_with_gains_over_its_base(tmp_path):
    """Gains of 6, 10 and 8 of 200 images, seed by seed, though the seeds differ by 20 points."""
    write_row(tmp_path, "RING", 86, 130, 108)
    rows = write_row(tmp_path, "IR", 80, 120, 100)
    ring, ir = {"row": "RING", "top1_percent": 84.7}, {"row": "IR", "top1_percent": 81.2}
    line = compared(ring, ir, rows)
    assert line["here_percent"] == pytest.approx(54)
    assert line["here_gain_percent"] == pytest.approx(4)
    assert line["here_gain_interval_percent"] == pytest.approx(gain(bits(86, 130, 108), bits(80, 120, 100)).half)
    assert line["here_gain_interval_percent"] < line["here_interval_percent"]
    assert (line["paper_percent"], line["paper_gain_percent"]) == (84.7, pytest.approx(3.5))
    assert (line["bound_nats"], line["ceiling_nats"]) == (2.5, 6.25)
    assert (line["here_knn_percent"], line["here_knn_gain_percent"]) == (pytest.approx(27), pytest.approx(2))
    assert line["knn_verdict"] == "better"
    assert [compared(ir, ir, rows)[name] for name in ("verdict", "knn_verdict")] == ["base"] * 2
    unknown = compared(ring | {"top1_percent": None}, ir, rows)
    assert (unknown["paper_percent"], unknown["paper_gain_percent"]) == ("", "")
    over_unknown = compared(ring, ir | {"top1_percent": None}, rows)
    assert (over_unknown["paper_percent"], over_unknown["paper_gain_percent"]) == (84.7, "")


def test_top_5_has_an_interval_over_seeds_and_is_empty_where_a_seed_ran_without_it(tmp_path):
    write_row(tmp_path, "RING", 86, 130, top5=(90.0, 92.0))
    write_row(tmp_path, "BALL", 86, 130, top5=(90.0,))
    rows = write_row(tmp_path, "IR", 80, 120)
    ring, ball, ir = ({"row": row, "top1_percent": None} for row in ("RING", "BALL", "IR"))
    line = compared(ring, ir, rows)
    assert line["here_top5_percent"] == 91
    assert line["here_top5_interval_percent"] == pytest.approx(
        12.706, abs=0.001
    )  # Student's t of two seeds, std sqrt(2)
    for row in (ball, ir):
        cells = compared(row, ir, rows)
        assert (cells["here_top5_percent"], cells["here_top5_interval_percent"]) == ("", "")


def test_further_pairs_are_each_row_over_each_of_its_bases(tmp_path):
    for name, right in (("a", (20, 20)), ("b", (100, 100))):
        write_row(tmp_path, name, *right)
    rows = write_row(tmp_path, "c", 180, 180)
    lines = in_pairs({"b": ["a", "c"]}, rows, "demo")
    assert [(row["row"], row["base"], row["gain_percent"], row["verdict"]) for row in lines] == [
        ("b", "a", 40, "better"),
        ("b", "c", -40, "worse"),
    ]
    assert [(row["knn_gain_percent"], row["knn_verdict"]) for row in lines] == [(20, "better"), (-20, "worse")]
    assert [(row["scale"], row["epochs"], row["seeds"]) for row in lines] == [("demo", 20, 2)] * 2


def test_of_a_study_of_days_only_rows_that_have_run_with_their_base_are_compared(tmp_path):
    write_row(tmp_path, "IR", 80, 100)
    rows = write_row(tmp_path, "RING", 100, 110)
    methods = {row: {"row": row, "top1_percent": 80.0} for row in ("IR", "RING", "BALL")}
    methods["MoCoRing"] = {"row": "RING", "top1_percent": 80.0, "base": "BALL"}
    lines = comparison_table({"a": {"base": "IR", "methods": methods}}, rows, "cpu")
    assert [row["method"] for row in lines] == ["IR", "RING"]
    assert [row["base"] for row in in_pairs({"RING": ["BALL", "IR"], "BALL": ["IR"]}, rows, "cpu")] == ["IR"]


def test_a_row_without_its_right_images_is_in_no_table_and_told_once(tmp_path, caplog):
    write_row(tmp_path, "IR", 80, 100)
    rows = write_row(tmp_path, "RING", 100, 110)
    (tmp_path / "right/RING.json").unlink()
    methods = {row: {"row": row, "top1_percent": 80.0} for row in ("IR", "RING")}
    for _ in range(2):
        lines = comparison_table({"a": {"base": "IR", "methods": methods}}, rows, "demo")
        assert [row["method"] for row in lines] == ["IR"]
    assert caplog.text.count("RING is left out of the tables: its stage") == 1


def test_rows_whose_seeds_ran_on_several_days_are_compared_by_the_seeds_that_both_have(tmp_path):
    for name, counts in (("IR", {0: 80, 1: 100, 2: 120}), ("RING", {1: 110, 2: 130}), ("BALL", {2: 150})):
        for seed, count in counts.items():
            metrics = {"knn_top1_percent": 40.0, "bound_nats": 2.5, "ceiling_nats": 6.25, "epochs": 20}
            write_seeds(tmp_path / f"rows/{name}/{seed}.json", {seed: metrics})
            write_right(tmp_path / f"right/{name}/{seed}.json", both({seed: np.arange(200) < count}))
    rows = StudyRows(tmp_path / "rows", tmp_path / "right", least=2)
    lines = in_pairs({"RING": ["IR"], "BALL": ["IR"], "IR": ["BALL", "RING"]}, rows, "cpu")
    assert [(line["row"], line["gain_percent"], line["seeds"]) for line in lines] == [("RING", 5, 2), ("IR", -5, 2)]
    methods = {name: {"row": row, "top1_percent": None} for name, row in (("IRing", "RING"), ("IR", "IR"))}
    lines = comparison_table({"a": {"base": "IRing", "methods": methods}}, rows, "cpu")
    assert [(line["here_gain_percent"], line["seeds"], line["gain_seeds"]) for line in lines] == [(0, 2, 2), (-5, 3, 2)]


def test_the_text_reads_all_comparisons_together():
    """Among 40 differences the one of 9 half-widths survives 40 tests. A comparison in two tables counts once."""
    names = ["paper_percent", "paper_gain_percent", "here_interval_percent", "here_gain_interval_percent"]
    row = {"table": "a", "method": "b", "gain_seeds": 5} | dict.fromkeys(names, 1.0)
    gains = [("base", 0.0), ("better", 1.1), ("better", 1.2), ("better", 9.0), ("worse", -1.1)]
    gains += [("within noise (could see 1 points)", n / 100) for n in range(36)] + [("one seed", 3.0), ("equal", 0.0)]
    rows = [row | {"verdict": verdict, "here_percent": 1.0, "here_gain_percent": gain} for verdict, gain in gains]
    text = as_text([*rows, rows[3] | {"table": "c", "paper_percent": ""}])
    assert [line.rstrip()[-16:] for line in text.splitlines() if "survives" in line] == ["better, survives"] * 2
    assert text.splitlines()[-1] == (
        "4 of 40 comparisons differ, 1 survive Holm's correction for all; by chance alone 2.0 would differ on "
        f"average, {by_chance(40, 5).one_of_ten} or more in one table of ten, and one at least in "
        f"{by_chance(40, 5).any_percent:.0f} % of tables"
    )
    alone = as_text([rows[-2] | {"here_gain_interval_percent": ""}])
    assert alone.splitlines()[-1].startswith("0 of 0 comparisons differ, 0 survive")


def test_the_text_of_one_seed_has_no_intervals_and_the_same_columns(tmp_path):
    lines = []
    for right, ring in (((86,), (88,)), ((86, 90), (88, 86))):
        write_row(tmp_path, "IR", *right)
        rows = write_row(tmp_path, "RING", *ring)
        methods = {row: {"row": row, "top1_percent": 81.2} for row in ("IR", "RING")}
        table = as_text(comparison_table({"a": {"base": "IR", "methods": methods}}, rows, "demo"))
        lines.append([table.splitlines()[2], pairs_as_text(in_pairs({"RING": ["IR"]}, rows, "demo")).splitlines()[1]])
    for alone, both_seeds in zip(*lines, strict=True):
        assert "±" not in alone
        assert "±" in both_seeds
        assert alone.index("one seed") == both_seeds.index("within noise")


def test_seeds_that_trained_for_other_epochs_are_refused(tmp_path):
    for seed, epochs in enumerate((200, 60)):
        write_seeds(tmp_path / f"rows/IR/{seed}.json", {seed: {"knn_top1_percent": 40.0, "epochs": epochs}})
        write_right(tmp_path / f"right/IR/{seed}.json", both({seed: np.arange(200) < 80}))
    with pytest.raises(InputError, match=r"IR: its seeds trained for \[60, 200\] epochs; run the older ones again, or"):
        StudyRows(tmp_path / "rows", tmp_path / "right")["IR"]


def test_files_of_other_seeds_are_refused(tmp_path):
    write_row(tmp_path, "IR", 80, 100)
    write_right(tmp_path / "right/IR.json", both({0: bits(80)[0], 2: bits(100)[0]}))
    with pytest.raises(InputError, match="IR: metrics and right test images are of other seeds; run `dvc repro` again"):
        StudyRows(tmp_path / "rows", tmp_path / "right")["IR"]
