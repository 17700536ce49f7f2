"""The papers' tables: complete, read strictly, and compared with made-up and with committed numbers."""

import copy
from collections import Counter

import pytest
from by_path import ROOT
from report_root import pipelines, written

from annulus.errors import InputError
from annulus_lab.report.papers.comparison import (
    agrees,
    compare,
    compare_table,
    load_figures,
    load_measured,
    load_tables,
)
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.papers.published import HERE, entries, read
from annulus_lab.report.papers.tables import paper_table

RESULTS = read(HERE / "published.yaml")
TABLES = {table.id: table for table in load_tables()}


def test_every_table_figure_and_stated_number_of_the_five_papers_is_there():
    counts = Counter((name.split(".")[0], table.kind) for name, table in TABLES.items())
    tables = {"mutualinfo": 9, "mlcpc": 5, "eqco": 9, "infomin": 23, "ring": 10}
    texts = {"mlcpc": 3, "eqco": 3, "infomin": 2}
    assert {name: counts[name, "table"] for name in tables} == tables
    assert {name: counts[name, "text"] for name in texts} == texts
    assert sum(counts.values()) == sum(tables.values()) + sum(texts.values())
    figures = {"mutualinfo": 10, "mlcpc": 4, "eqco": 4, "infomin": 13, "ring": 5}
    assert Counter(name.split(".")[0] for name in load_figures()) == figures


def test_numbers_are_those_that_the_papers_print():
    for table, wanted, column, number in (
        ("mutualinfo.table1", {"method": "RING+s-neigh+anneal"}, "value", (85.5, None)),
        ("mutualinfo.table3", {"method": "VINCE", "percent_closest": "5"}, "value", (1.97e-6, 4e-6)),
        ("mlcpc.table3a", {"alpha_start": "10", "alpha_end": "0.1"}, "ep200", (86.16, None)),
        ("mlcpc.text.walltime", {"method": "CPC"}, "value", (1.15, 0.06)),
        ("eqco.table9", {"method": "EqCo", "mi_true": "8"}, "K64", (5.8, None)),
        ("infomin.table2", {"method": "unsupervised"}, "YDbDr", (84.3, 0.5)),
        ("infomin.table12b", {"method": "InfoMin Aug."}, "AP_bb", (45.4, None)),
        ("ring.table5", {"method": "CNCE", "w_l": "95"}, "value", (1.97e-6, 4e-6)),
    ):
        (row,) = [row for row in TABLES[table].rows if wanted.items() <= row.labels.items()]
        assert row.numbers()[column] == number


def test_a_fault_in_the_papers_data_is_named():
    for change, fault in (
        (lambda table: table["rows"][0].pop("value"), "row 'IR' needs either value or values"),
        (lambda table: table["rows"][0].update(values={"top1": 1.0}), "row 'IR' needs either value or values"),
        (
            lambda table: table["rows"][0].update(value=float("nan")),
            r"rows\.0\.value: nan refused; .* finite number",
        ),
        (lambda table: table["rows"][0].update(views=["RGB"]), r"views: \['RGB'\] is no setting"),
        (lambda table: table.update(id="ring.table1a"), r"ring\.table1a comes twice"),
    ):
        tree = copy.deepcopy(RESULTS)
        change(tree[0])
        with pytest.raises(InputError, match=fault):
            entries(tree)


def compare_own(table, root):
    return compare_table(TABLES[table], load_measured().get(table), Metrics(root))


def gaussian(method, information, pairs, estimate):
    row = {"method": method, "information_nats": information, "pairs": pairs, "estimate_nats": estimate}
    return row | {"std_over_seeds_nats": 0.01, "scale": "paper", "seeds": 1}


def test_without_metrics_every_table_is_there_with_the_papers_numbers_and_not_run(tmp_path):
    pipelines(tmp_path, "estimators")
    comparisons = {comparison.table.id: comparison for comparison in compare(Metrics(tmp_path))}
    assert list(comparisons) == list(TABLES)
    for name, comparison in comparisons.items():
        assert comparison.status == "not run"
        assert comparison.reason
        assert len(comparison.rows) == sum(len(row.numbers()) for row in TABLES[name].rows)
    assert comparisons["eqco.table9"].command == "make study STUDY=estimators"
    assert comparisons["mlcpc.text.walltime"].command == "make bench"
    assert comparisons["infomin.table5a"].command is None


def test_our_number_stands_in_its_own_row_and_column_with_difference_and_setting(tmp_path):
    own = [gaussian("EqCo", 8.0, 64, 5.9), gaussian("InfoNCE", 2, 512, 1.85)]
    no_column = gaussian("EqCo", 8.0, 1024, 7.0)  # the paper lacks it
    written(tmp_path, "estimators/gaussians.csv", [*own, no_column])
    comparison = compare_own("eqco.table9", tmp_path)
    assert (comparison.status, len(comparison.rows)) == ("run", 40)
    one, other = [row for row in comparison.rows if row.here is not None]
    assert (one.labels["method"], one.labels["mi_true"], one.column, one.setting) == (
        "InfoNCE", "2", "K512", "drawn numbers, paper, 1 seed")  # fmt: skip
    assert (other.labels["method"], other.labels["mi_true"], other.column) == ("EqCo", "8", "K64")
    assert (one.paper, one.here, one.here_std, one.difference) == (1.9, 1.85, 0.01, -0.05)
    assert (other.paper, other.here, other.here_std, other.difference) == (5.8, 5.9, 0.01, 0.1)


def test_a_further_column_has_our_number_where_the_row_has_one(tmp_path):
    shared = {"table": "mutualinfo.table1", "here_percent": 43.0, "here_interval_percent": 1.0, "scale": "demo"}
    rows = [
        shared | {"method": "IR-nce", "here_top5_percent": 90.5, "here_top5_interval_percent": 0.5},
        shared | {"method": "BALL", "here_top5_percent": "", "here_top5_interval_percent": ""},
    ]
    written(tmp_path, "cifar10_algorithms/table.csv", rows)
    here = {
        (row.labels["method"], row.column): (row.here, row.here_std)
        for row in compare_own("mutualinfo.table5", tmp_path).rows
        if row.here is not None
    }
    assert here == {("IR-nce", "top1"): (43, 1), ("BALL", "top1"): (43, 1), ("IR-nce", "top5"): (90.5, 0.5)}


def test_the_closed_form_estimates_and_percentages_of_both_toy_tables_go_to_their_rows(tmp_path):
    percents = {"NCE": [100], "CNCE": [90, 75, 50, 25, 10, 5]}
    rows = [
        {"variant": variant, "points": points, "method": method, "percent_closest": share,
         "estimate_nats": share / 1000 + (variant != "cosine" and points == "unseen"),
         "std_over_seeds_nats": 0.001, "information_nats": 0.0204, "scale": "paper"}
        for variant in ("cosine", "cosine-slow-warm") for points in ("unseen", "trained on")
        for method, some in percents.items() for share in some
    ]  # fmt: skip
    written(tmp_path, "estimators/conditional.csv", rows)
    shares, percentiles = compare_own("mutualinfo.table3", tmp_path), compare_own("ring.table5", tmp_path)
    for table in (shares, percentiles):  # the closest variant, on points that it did not train on
        assert [row.here for row in table.rows] == [0.0204, 1.1, 1.09, 1.075, 1.05, 1.025, 1.01, 1.005]
        assert "did not train on" in paper_table(table).caption
    assert [row.labels.get("w_l") for row in percentiles.rows] == [None, None, "10", "25", "50", "75", "90", "95"]
    assert [row.here_std for row in shares.rows] == [None] + [0.001] * 7
    assert shares.rows[0].difference == pytest.approx(-0.00001)


@pytest.mark.parametrize(
    ("scale", "epochs", "dataset", "subtracted"),
    [("paper", 300, "cifar10", True), ("gpu", 300, "cifar10_images", True), ("paper", 200, "cifar10", False),
     ("cpu", 300, "cifar10", False), ("paper", 300, "shapes", False), ("demo", 5, "shapes", False)],
)  # fmt: skip
def test_no_difference_is_printed_where_data_set_or_scale_differ(tmp_path, scale, epochs, dataset, subtracted):
    row = {"table": "ring.table1a", "method": "IR", "here_percent": 64.5, "here_interval_percent": 1.0}
    written(tmp_path, "cifar10_algorithms/table.csv", [row | {"scale": scale, "epochs": epochs, "dataset": dataset}])
    comparison = compare_own("ring.table1a", tmp_path)
    assert [row.difference for row in comparison.rows if row.here is not None] == [-16.7 if subtracted else None]
    titles = [column.title for column in paper_table(comparison).columns]
    assert titles[-2 - subtracted :] == ["paper", "here", "difference"][: 2 + subtracted]


def test_json_fields_go_to_their_rows(tmp_path):
    written(tmp_path, "benchmarks/estimators.json", {"cpc_200_updates_seconds": 2, "mlcpc_200_updates_seconds": 2.1})
    seconds = [(row.labels["method"], row.here) for row in compare_own("mlcpc.text.walltime", tmp_path).rows]
    assert seconds == [("CPC", 2.0), ("ML-CPC", 2.1)]


def test_a_broken_file_is_named_and_the_papers_numbers_stay(tmp_path):
    for rows, fault in (
        ([gaussian("EqCo", 8.0, 64, "")], "estimate_nats is '', no number, in a row for eqco.table9"),
        ([{"method": "EqCo", "pairs": 64, "estimate_nats": 1}], "has no column 'std_over_seeds_nats'"),
        ([gaussian("EqCo", 8.0, 64, 1.0)] * 2, "two of its rows are method EqCo, mi_true 8"),
    ):
        written(tmp_path, "estimators/gaussians.csv", rows)
        metrics = Metrics(tmp_path)
        comparison = compare_table(TABLES["eqco.table9"], load_measured()["eqco.table9"], metrics)
        assert (comparison.status, len(comparison.rows)) == ("broken", 40)
        assert fault in comparison.reason
        assert [broken.name for broken in metrics.broken] == ["estimators/gaussians.csv"]


def test_every_pair_of_names_points_to_one_row_and_a_column_of_the_table():
    for name, ours in load_measured().items():
        table = TABLES[name]
        for pair in ours.rows or []:
            assert [agrees(row, pair.theirs) for row in table.rows].count(True) == 1, pair.theirs
        columns = {column for row in table.rows for column in row.numbers()} - {"value"}
        own_columns = {column for column in [ours.column, *(pair.column for pair in ours.rows or [])] if column}
        own_columns |= {column for names in (ours.columns or {}).values() for column in names} | {*ours.also}
        assert own_columns <= columns
        assert bool(own_columns) == bool(columns)
        assert all(any(their in row.labels for row in table.rows) for their in ours.keys.values())


def test_the_algorithms_study_copied_the_papers_numbers_rightly():
    for row in (row for row in Metrics(ROOT).rows("cifar10_algorithms/table.csv") if row["table"] != "none"):
        ours, method = load_measured()[row["table"]], {"method": row["method"]}
        wanted = next((pair.theirs for pair in ours.rows or [] if pair.here == method), None)
        theirs = [one for one in TABLES[row["table"]].rows if agrees(one, wanted or method)]
        assert [one.numbers()[ours.column or "value"][0] for one in theirs] == [row["paper_percent"]]
