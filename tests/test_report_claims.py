"""The list of claims, and each verdict on made-up metrics."""

import csv
import math
import re
import shutil

import pytest
import yaml
from by_path import ROOT, read_yaml
from report_root import written
from stated import stated_params

from annulus.report.claims.selectors import Differences, spread
from annulus.report.claims.truth import Estimate, Truth
from annulus.report.claims.verdicts import CLAIMS as EVERY
from annulus.report.claims.verdicts import shown, verdicts
from annulus.report.papers.comparison import load_figures, load_measured, load_tables
from annulus.report.papers.metrics import Metrics, Missing
from annulus.report.papers.setting import read_setting

CLAIMS = {claim.id: claim for claim in EVERY}


def test_every_table_number_and_figure_of_the_papers_is_named_by_a_claim():
    figures = {figure.id for figure in load_figures().values() if not figure.finding.startswith("illustration only")}
    named = {where for claim in CLAIMS.values() for where in claim.where}
    assert ({table.id for table in load_tables()} | figures) - named == set()


def test_a_claim_is_one_sentence_of_its_paper_with_one_command_and_tests_that_exist():
    metrics, places = Metrics(ROOT), {table.id for table in load_tables()} | set(load_figures())
    assert len({claim.id for claim in EVERY}) == len({claim.claim for claim in EVERY}) == len(EVERY)
    for claim in EVERY:
        assert claim.paper in {place.partition(".")[0] for place in places}, claim.id
        assert set(claim.where) <= places, claim.id
        assert claim.claim.endswith("."), claim.id
        assert not claim.claim[0].islower(), claim.id
        assert claim.scale in ("paper", "gpu") or not claim.dataset, f"{claim.id}: of a data set at the papers' scale"
        commands = {metrics.command(selector.file) for selector in claim.values.values()}
        assert None not in commands, claim.id
        assert len(commands) <= 1, claim.id
        for file, name in (named.split("::") for named in claim.tested):
            assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(), (claim.id, name)


def test_every_rule_takes_the_numbers_of_its_claim_and_says_something_of_them():
    for claim in EVERY:
        assert list(claim.values) in ([], claim.names), claim.id
        assert set(re.findall(r"\b[a-z]\w*\b(?!\()", claim.text)) - {"and", "or", "not"} == set(claim.names), claim.id
        several = {name for name, where in claim.values.items() if isinstance(where, Differences) or where.by}
        if claim.values:
            made_up = {name: [1.0, 2.0, 3.0] if name in several else 2.0 for name in claim.names}
            assert isinstance(claim.truth(made_up), Truth), claim.id


def test_every_selector_finds_its_rows_in_the_committed_files():
    metrics = Metrics(ROOT)
    for claim, selector in ((each, selector) for each in CLAIMS.values() for selector in each.values.values()):
        if isinstance(selector, Differences):
            assert selector.table in load_measured()
        if isinstance(selector, Differences) or not (ROOT / "metrics" / selector.file).exists():
            continue
        study, shorter = selector.file.split("/")[0], read_setting(metrics, selector.file).scale not in ("paper", "gpu")
        # A shorter run has fewer rows; targets that need no file, one method and one pair have other rows.
        others = ("cifar10_transfer", "detection", "distillation", "distance", "strength")
        lacks = study in others or claim.id == "ring.hard-middle"  # of epoch 50
        if shorter and (study == "estimators" or (claim.scale == "paper" and lacks)):
            continue
        if selector.file.endswith(".json"):
            metrics.number(selector.file, selector.column)
            continue
        metrics.column(selector.file, selector.where, selector.column, selector.by)
        names, keys = selector.keys(metrics, {})
        assert len(set(keys)) == len(keys), f"{claim.id}: rows that {names} does not tell apart"


def test_a_claim_of_cifar10_reads_numbers_of_cifar10_where_there_are_some():
    """As the figure does that it is about."""
    metrics, elsewhere = Metrics(ROOT), []
    for claim in EVERY:
        for selector in claim.values.values():
            if "CIFAR10" not in claim.dataset or selector.file.startswith("cifar10"):
                continue
            try:
                metrics.column(f"cifar10_{selector.file}", selector.where, selector.column, selector.by)
            except Missing:
                continue
            elsewhere.append(claim.id)
    assert elsewhere == []


EXAMPLES = {
    name: examples
    for names, examples in read_yaml(ROOT / "tests/claim_examples.yaml").items()
    for name in names.split()
}


def test_every_rule_of_numbers_has_examples():
    assert {claim.id for claim in EVERY if claim.values} <= EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_holds_of_numbers_as_the_claim_says_and_of_no_change_of_them(name):
    numbers, *changes = EXAMPLES[name]
    assert CLAIMS[name].truth(numbers) == Truth(True)
    assert [change for change in changes if CLAIMS[name].truth(numbers | change) != Truth(False)] == []


@pytest.mark.parametrize(
    "study", ["cifar10_augmentations", "colour", "distance", "frequency", "strength", "view_learning"]
)
def test_a_claim_of_a_data_set_is_decided_by_its_study_at_the_papers_scale(study, tmp_path):
    """Such a study has the paper's data set there."""
    params = read_yaml(ROOT / f"stages/{study}/params.yaml")
    for name in {study, params.get("of", study)}:  # and the study whose form it has
        own = read_yaml(ROOT / f"stages/{name}/params.yaml") | {"scale": "paper"}
        (tmp_path / "stages" / name).mkdir(parents=True)
        (tmp_path / f"stages/{name}/params.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    written(tmp_path, f"{study}/any.csv", [{"seeds": 3}])
    setting = read_setting(Metrics(tmp_path), f"{study}/any.csv")
    of_study = [
        claim
        for claim in CLAIMS.values()
        if claim.dataset and any(one.file.startswith(f"{study}/") for one in claim.values.values())
    ]
    decided = [claim.id for claim in of_study if claim.decided_by(setting)]
    assert decided
    # Augmentations are of CIFAR-10 there; claims of ImageNet alone wait for it.
    assert study == "cifar10_augmentations" or len(decided) == len(of_study), setting


def test_committed_metrics_break_no_claim():
    metrics = Metrics(ROOT)
    assert [(v.id, v.reason) for v in verdicts(metrics) if v.verdict == "broken"] == []
    assert metrics.broken == []


def found(root, name):
    return next(verdict for verdict in verdicts(Metrics(root)) if verdict.id == name)


def test_without_metrics_nothing_was_run_and_each_command_or_test_that_asserts_the_claim_is_named(tmp_path):
    metrics = Metrics(tmp_path)
    every = {verdict.id: verdict for verdict in verdicts(metrics)}
    assert list(every) == list(CLAIMS)
    for verdict in every.values():
        theorem = CLAIMS[verdict.id].tested and not CLAIMS[verdict.id].values
        expected = "asserted by a test" if theorem else "not run"
        assert (verdict.verdict, verdict.numbers, verdict.holds) == (expected, {}, None)
        assert verdict.reason
    assert metrics.broken == []
    assert every["mlcpc.walltime"].command == "make bench"
    assert every["mlcpc.walltime"].reason == "metrics/benchmarks/estimators.json is not there; `make bench` writes it"
    assert every["infomin.imagenet"].reason == "no study here measures it yet"
    assert every["mutualinfo.la-without-neighbours"].reason == (
        "`make test-all` asserts it: "
        "`tests/test_bounds_theorems.py::test_la_with_only_itself_as_neighbour_is_infonce_on_the_same_background`"
    )


def test_a_claim_of_any_scale_is_decided_by_its_rule(tmp_path):
    for ratio, verdict in ((1.05, "held"), (1.0501, "did not hold")):
        written(tmp_path, "benchmarks/estimators.json", {"mlcpc_over_cpc": ratio, "processor": "AMD EPYC"})
        walltime = found(tmp_path, "mlcpc.walltime")
        assert (walltime.verdict, walltime.reason) == (verdict, None)
        assert (walltime.numbers, walltime.setting, walltime.rule) == ({"ratio": ratio}, "AMD EPYC", "ratio <= 1.05")


def algorithms(root, gain, half, dataset, scale):
    row = {"table": "ring.table1a", "method": "IRing", "here_gain_percent": gain, "scale": scale, "seeds": 2}
    written(root, "cifar10_algorithms/table.csv", [row | {"here_gain_interval_percent": half}])
    params = {"scale": scale, "seeds": [0, 1], "defaults": {"dataset": dataset}}
    (root / "stages" / "cifar10_algorithms").mkdir(parents=True)
    (root / "stages" / "cifar10_algorithms" / "params.yaml").write_text(yaml.safe_dump(params))


def test_a_claim_of_a_data_set_is_decided_there_and_elsewhere_says_what_it_would(tmp_path):
    elsewhere = "not run at this scale"
    for gain, half, dataset, scale, verdict in (
        (2.7, 0.5, "cifar10", "paper", "held"),
        (2.7, 2.7, "cifar10", "paper", "undecided"),  # the interval ends at 0
        (2.7, "", "cifar10", "paper", "undecided"),  # of one seed
        (-1.0, 0.5, "cifar10", "paper", "did not hold"),
        (-1.0, 1.25, "cifar10", "paper", "undecided"),
        (2.7, 0.5, "shapes", "paper", elsewhere),
        (2.7, 0.5, "cifar10", "demo", elsewhere),
        (2.7, 0.5, "cifar100", "paper", elsewhere),
        (0.3, 1.25, "shapes", "demo", elsewhere),
    ):
        root = tmp_path / f"{gain} {half} {dataset} {scale}"  # a study's settings are read once
        algorithms(root, gain, half, dataset, scale)
        ring = found(root, "ring.beats-ir")
        decided = half != "" and abs(gain) > half
        assert (ring.verdict, ring.holds) == (verdict, gain > 0 if decided else None)
        assert ring.numbers == {"gain": gain} | ({"gain_interval": half} if half else {})
        could = f"its interval is ± {half:.2g} points" if half else "one seed shows no interval"
        says = "would hold" if decided else f"is undecided: {could}"
        would = f"the claim is of CIFAR10 at the papers' scale; here ({dataset}, {scale}, 2 seeds) it {says}"
        assert ring.reason == {"undecided": could, elsewhere: would}.get(verdict)


def staircase(scale, names=("CPC", "ML-CPC")):
    """What figure 3 finds: alpha 1 is capped; with alpha 0.01 CPC exceeds the information, ML-CPC comes near it."""
    estimates = {(0, 1.0): (3.9, 4.7), (0, 0.01): (6.4, 9.4), (1, 1.0): (3.8, 4.6), (1, 0.01): (5.7, 9.0)}
    return [
        {"bound": names[bound], "alpha": alpha, "information_nats": information, "estimate_nats": estimate,
         "estimate_std_over_seeds_nats": 0.02, "std_nats": 0.2 if alpha < 1 else 0.1, "std_std_over_seeds_nats": 0.005,
         "ceiling_nats": 4.852 if alpha == 1 else 9.457, "iterations": 4000, "seeds": 5, "scale": scale}
        for (bound, alpha), levels in estimates.items()
        for information, estimate in zip((6, 10), levels, strict=True)
    ]  # fmt: skip


def test_a_claim_that_only_a_gpu_reaches_is_not_decided_elsewhere(tmp_path):
    written(tmp_path, "estimators/staircase-joint_levels.csv", staircase("paper"))
    joint = found(tmp_path, "mlcpc.staircase-joint")
    assert joint.verdict == "not run at this scale"
    scale = "(`scale: gpu` of its study)"
    assert joint.reason == f"the claim is of the papers' scale {scale}; here (paper, 5 seeds) it would hold"


def test_a_number_that_cannot_be_right_breaks_the_claim_is_named_and_counts_before_what_is_missing(tmp_path):
    written(tmp_path, "benchmarks/estimators.json", {"mlcpc_over_cpc": float("nan")})
    hard = {"series": "10 % from the start", "value": 32, "nn1_gain_percent": ""}
    written(tmp_path, "cifar10_negatives/count.csv", [hard | {"nn1_gain_interval_percent": 0.5}])
    metrics = Metrics(tmp_path)
    of = {verdict.id: verdict for verdict in verdicts(metrics)}
    walltime, hurts = of["mlcpc.walltime"], of["mutualinfo.hard-early-hurts"]
    assert (walltime.verdict, walltime.holds, walltime.numbers) == ("broken", None, {})
    assert walltime.reason == "metrics/benchmarks/estimators.json: mlcpc_over_cpc is nan"
    assert (hurts.verdict, hurts.numbers) == ("broken", {})
    assert "nn1_gain_percent is '', no number, in the row with series 10 % from the start" in hurts.reason
    assert {broken.name for broken in metrics.broken} == {"benchmarks/estimators.json", "cifar10_negatives/count.csv"}


def table9(change):
    return [
        {"method": row.labels["method"], "information_nats": row.labels["mi_true"], "pairs": column[1:],
         "estimate_nats": value + change(row.labels["method"], column), "std_over_seeds_nats": 0.001,
         "seeds": 5, "ceiling_nats": 6.24, "scale": "paper"}
        for table in load_tables() if table.id == "eqco.table9"
        for row in table.rows for column, (value, _) in row.numbers().items()
    ]  # fmt: skip


def test_differences_of_a_table_decide_how_well_it_was_had_again_where_all_of_it_was_run(tmp_path):
    def again(rows):
        written(tmp_path, "estimators/gaussians.csv", rows)
        return found(tmp_path, "eqco.table9-values")

    for change, verdict in (
        (lambda method, column: 0.09, "held"),
        (lambda method, column: 0.11, "did not hold"),  # on average
        (lambda method, column: 0.26 * ((method, column) == ("EqCo", "K64")), "did not hold"),  # one of the largest
    ):
        whole = again(table9(change))
        assert (whole.verdict, len(whole.numbers["difference"])) == (verdict, 40)
        if verdict == "held":
            assert whole.numbers["difference"] == pytest.approx([0.09] * 40), "here minus paper"
    rows = table9(lambda method, column: 0.0)
    part = again(rows[:-1])
    assert part.verdict == "not run"
    assert "has no row with method EqCo, mi_true 10" in part.reason
    rows[7]["estimate_nats"] = "nan"
    broken = again(rows)
    assert (broken.verdict, broken.reason) == (
        "broken", "metrics/estimators/gaussians.csv: row 8: estimate_nats is nan"
    )  # fmt: skip


def printed_pairs():
    """The differences of rows that one paper prints both of; the same rows differ by other amounts in two papers."""
    study = read_yaml(ROOT / "stages/algorithms/params.yaml")
    tables = [study["tables"][name]["methods"] for name in ("ring.table2a", "ring.table1a", *study["tables"])]
    rows = [{entry["row"]: entry["top1_percent"] for entry in methods.values()} for methods in tables]
    return [
        {"row": row, "base": base, "gain_percent": both[0][row] - both[0][base], "gain_interval_percent": 0.0}
        | {"scale": "paper", "seeds": 5}
        for row, bases in study["pairs"].items()
        for base in bases
        if (both := [values for values in rows if {row, base} <= values.keys() and values[row] is not None])
    ]


def as_printed(root):
    """Metrics that hold what the papers print, at their data set and scale."""
    rows = Metrics(ROOT).rows("cifar10_algorithms/table.csv")
    printed = [
        row | {"here_percent": row["paper_percent"], "here_gain_percent": row["paper_gain_percent"], "scale": "paper"}
        for row in rows
        if row["table"] != "none"
    ]
    intervals = {"here_interval_percent": 0.0, "here_gain_interval_percent": 0.0}
    written(root, "cifar10_algorithms/table.csv", [row | intervals for row in printed])
    written(root, "cifar10_algorithms/pairs.csv", printed_pairs())
    (root / "stages" / "cifar10_algorithms").mkdir(parents=True)
    study = "scale: paper\nseeds: [0]\ndefaults: {dataset: cifar10}\n"
    (root / "stages" / "cifar10_algorithms" / "params.yaml").write_text(study)
    written(root, "estimators/gaussians.csv", table9(lambda method, column: 0.0))
    toy = {100: (0.01345, 0.001), 90: (0.01241, 0.0003), 75: (0.0022, 0.0001), 50: (7.29e-5, 9e-6)}
    toy |= {25: (1.67e-5, 2e-6), 10: (5.87e-6, 1e-6), 5: (1.97e-6, 4e-6)}
    conditional = [
        {"variant": "cosine-slow-warm", "points": points, "method": "NCE" if share == 100 else "CNCE",
         "percent_closest": share, "scale": "paper", "estimate_nats": estimate, "std_over_seeds_nats": spread,
         "interval_nats": 1.2416 * spread, "seeds": 5, "information_nats": 0.02041}
        for points in ("unseen", "trained on") for share, (estimate, spread) in toy.items()
    ]  # fmt: skip
    written(root, "estimators/conditional.csv", conditional)
    written(root, "benchmarks/estimators.json", {"mlcpc_over_cpc": 1.14 / 1.15})
    written(root, "estimators/staircase-separable_levels.csv", staircase("paper"))
    written(root, "estimators/staircase-joint_levels.csv", staircase("gpu"))


def test_the_rules_hold_of_the_numbers_that_the_papers_print_and_fail_where_these_are_turned_round(tmp_path):
    as_printed(tmp_path)
    decided = {
        v.id: v.verdict for v in verdicts(Metrics(tmp_path)) if v.verdict not in ("not run", "asserted by a test")
    }
    assert {name: verdict for name, verdict in decided.items() if verdict != "held"} == {}
    assert len(decided) >= 43
    for name, columns in (("table", ["here_percent", "here_gain_percent"]), ("pairs", ["gain_percent"])):
        rows = list(csv.DictReader((tmp_path / f"metrics/cifar10_algorithms/{name}.csv").open()))
        rows = [row | {column: -float(row[column]) for column in columns} for row in rows]
        written(tmp_path, f"cifar10_algorithms/{name}.csv", rows)
    # And of the two bounds it is ML-CPC that stays below.
    written(tmp_path, "estimators/staircase-separable_levels.csv", staircase("paper", ("ML-CPC", "CPC")))
    turned = {v.id: v.verdict for v in verdicts(Metrics(tmp_path))}
    for claim in CLAIMS.values():
        files = [selector.file for selector in claim.values.values()]
        assert turned[claim.id] != "held" or not any(file.startswith("cifar10_algorithms/") for file in files), claim.id
    for name in ("mlcpc.staircase-mlcpc-below", "mlcpc.staircase-cpc-exceeds"):
        assert turned[name] == "did not hold"


def test_an_undecided_share_is_no_number_of_points(tmp_path):
    gains = {"digits": (4.0, 1.0), "textures": (0.5, 1.0), "outlines": (-2.0, 1.0), "hues": (0.5, 1.0)}
    rows = [
        {"target": target, "over": "uniform", "scale": "demo"}
        | {
            f"{protocol}_{name}_percent": number
            for protocol in ("linear", "few_shot")
            for name, number in named.items()
        }
        for target, (gain, half) in gains.items()
        for named in [{"gain": gain, "gain_interval": half}]
    ]
    written(tmp_path, "cifar10_transfer/gains.csv", rows)
    assert found(tmp_path, "ring.transfer-new").reason == "a share of 0.5 is undecided"
    few_shot = found(tmp_path, "ring.transfer-few-shot")
    assert few_shot.reason == "its interval is ± 1 points", "encoders that are better on one target are so on others"


def test_halves_of_intervals_are_shown_where_all_numbers_have_one():
    both, one = Estimate(1.2345678, 0.5), Estimate(2.0, math.inf)
    assert shown({"gain": [both, both]}) == {"gain": [1.23457] * 2, "gain_interval": [0.5] * 2}
    assert shown({"gain": [both, one]}) == {"gain": [1.23457, 2.0]}


def test_a_standard_deviation_over_seeds_is_a_student_s_interval(tmp_path):
    rows = [
        {
            "method": "EqCo",
            "information_nats": 10,
            "pairs": 64,
            "estimate_nats": 1,
            "std_over_seeds_nats": 2.0,
            "seeds": n,
        }
        | {"ceiling_nats": 3.0, "scale": "paper"}
        for n in (1, 4)
    ]
    for row, half in zip(rows, (math.inf, 3.1824), strict=True):
        written(tmp_path, "estimators/gaussians.csv", [row])
        where = ("estimators/gaussians.csv", "estimate_nats", "std_over_seeds_nats")
        value, _ = spread(*where).read(Metrics(tmp_path), {})
        assert value.half == pytest.approx(half, rel=1e-4)


@pytest.mark.slow
def test_a_study_s_scale_of_today_says_nothing_of_the_numbers_that_it_has_made(tmp_path):
    """While `scale: paper` trains for days, metrics/ has what `scale: demo` made."""
    shutil.copytree(ROOT / "metrics", tmp_path / "metrics", ignore=shutil.ignore_patterns("*.png", "*.svg", "right"))
    stated_params(tmp_path / "params.yaml")
    found = []
    for scale in ("demo", "paper"):
        for path in ROOT.glob("stages/*/params.yaml"):
            text = path.read_text(encoding="utf-8")
            text = re.sub("^scale: [a-z]+", f"scale: {scale}", text, flags=re.MULTILINE)
            copy = tmp_path / scale / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True)
            copy.write_text(text, encoding="utf-8")
        (tmp_path / scale / "metrics").symlink_to(tmp_path / "metrics")
        (tmp_path / scale / "params.yaml").symlink_to(tmp_path / "params.yaml")
        found.append({verdict.id: (verdict.verdict, verdict.reason) for verdict in verdicts(Metrics(tmp_path / scale))})
    assert found[0] == found[1]
    assert len({verdict for verdict, _ in found[0].values()}) > 3
