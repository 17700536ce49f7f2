"""The list of claims, and each verdict on made-up metrics."""

import csv
import itertools
import math
import re
import statistics
from collections import Counter
from dataclasses import replace

import pytest
import yaml
from by_path import ROOT, read_yaml
from report_root import pipelines, written
from stated import stated_params

from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.claims import rules, truth
from annulus_lab.report.claims import verdicts as verdict_rules
from annulus_lab.report.claims.claim import Claim, text
from annulus_lab.report.claims.selectors import Differences, MetricColumn, estimate, exact, spread
from annulus_lab.report.claims.truth import ClaimNumber, Truth
from annulus_lab.report.claims.verdicts import CLAIMS as EVERY
from annulus_lab.report.claims.verdicts import page_numbers, table, verdict_counts, verdicts
from annulus_lab.report.papers.comparison import compare, load_figures, load_measured, load_tables
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing
from annulus_lab.report.papers.setting import PaperSetting, conclusive_file, read_setting

CLAIMS = {claim.id: claim for claim in EVERY}
SHORTER = {  # a demo lacks their rows
    "infomin.distance-sweet-spot", "ring.transfer-most"
}  # fmt: skip
TWO_SETS = {"mutualinfo.temperature-of-dataset"}  # a claim about several data sets


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
        assert not claim.dataset or claim.size, f"{claim.id}: a direction is decided on any data set"
        commands = {metrics.command(selector.file) for selector in claim.values.values()}
        assert None not in commands, claim.id
        for file, name in (named.split("::") for named in claim.tests):
            assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(), (claim.id, name)


def test_no_effect_is_never_wider_than_the_printed_one():
    for claim in CLAIMS.values():
        for name, printed in re.findall(r"(\w+) ~ \(?([-\d., ]+)", text(claim.size) if claim.size else ""):
            least = min((abs(one) for one in map(float, printed.strip(" ,").split(",")) if one), default=math.inf)
            if getattr(selector := claim.values.get(name), "column", "").endswith("_percent"):
                assert selector.smallest <= least, (claim.id, name)


def test_every_rule_takes_the_numbers_of_its_claim_and_says_something_of_them():
    for claim in EVERY:
        assert list(claim.values) in ([], claim.names), claim.id
        words = {word for rule in claim.rules for word in re.findall(r"\b[a-z]\w*\b(?!\()", text(rule))}
        assert words - {"and", "or", "not"} == set(claim.names), claim.id
        several = {name for name, where in claim.values.items() if isinstance(where, Differences) or where.by}
        if claim.values:
            made_up = {name: [1.0, 2.0, 3.0] if name in several else 2.0 for name in claim.names}
            assert isinstance(claim.truth(claim.rules[0], made_up), Truth), claim.id


def test_every_selector_finds_its_rows_in_the_committed_files():
    metrics = Metrics(ROOT)
    for claim, selector in ((each, selector) for each in CLAIMS.values() for selector in each.values.values()):
        if isinstance(selector, Differences):
            assert selector.table in load_measured()
        if isinstance(selector, Differences) or not (ROOT / metrics_path(selector.file)).exists():
            continue
        if claim.id in SHORTER:
            continue
        if selector.file.endswith(".json"):
            metrics.number(selector.file, selector.column)
            continue
        metrics.column(selector.file, selector.where, selector.column, selector.by)
        names, keys = selector.keys(metrics, {})
        assert len(set(keys)) == len(keys), f"{claim.id}: rows that {names} does not tell apart"


def test_every_claim_reads_cifar10_where_it_has_the_rows():
    """Claims without rows on CIFAR-10 read generated images. No claim chooses its images."""
    metrics, elsewhere = Metrics(ROOT), []
    for claim in EVERY:
        others = [
            selector
            for selector in claim.values.values()
            if not isinstance(selector, Differences) and not selector.file.startswith("cifar10")
        ]
        try:
            for selector in others:
                metrics.column(f"cifar10_{selector.file}", selector.where, selector.column, selector.by)
        except (Missing, Broken):
            continue
        if others and claim.id not in TWO_SETS:
            elsewhere.append(claim.id)
    assert elsewhere == []


def test_claims_of_cifar10_read_the_study_of_their_tables_or_figures():
    """A claim about tables that cifar10_algorithms has reads it alone, unless it is about other epochs."""
    tables = {row["table"] for row in Metrics(ROOT).rows("cifar10_algorithms/table.csv")}
    others = {claim.id for claim in EVERY for selector in claim.values.values() if "cifar10_later" in selector.file}
    others |= {
        claim.id
        for claim in EVERY
        for selector in claim.values.values()
        if claim.where
        and set(claim.where) <= tables
        and not selector.file.startswith(("cifar10_algorithms", "cifar10/"))
    }
    assert others == {"mlcpc.curriculum-short"}


def test_numbers_of_the_same_seeds_are_compared_seed_by_seed(monkeypatch):
    """No claim compares two measured numbers of the same seeds as independent ones."""
    metrics, unpaired = Metrics(ROOT), []
    tables = {one.table.id: one for one in compare(metrics)}
    plain_compared = truth.comparison

    def record(operator, left, right):
        if left is not right and left.half and right.half:
            pairs = left.seeds and [seed for seed, _ in left.seeds] == [seed for seed, _ in right.seeds]
            apart.append(not pairs)
        return plain_compared(operator, left, right)

    for module in (rules, truth):
        monkeypatch.setattr(module, "comparison", record)
    for claim in EVERY:
        apart = []
        verdict_rules.verdict(claim, metrics, tables)
        if any(apart):
            unpaired.append(claim.id)
    assert unpaired == []


def test_the_gains_of_each_seed_have_the_mean_of_their_file():
    """The gains of the seeds and the gain in the file are over the same base."""
    metrics, checked = Metrics(ROOT), 0
    for path in sorted(ROOT.glob("stages/*/metrics/*.csv")):
        file = f"{path.parents[1].name}/{path.name}"
        rows = metrics.rows(file) if "_gain_percent" in path.read_text().partition("\n")[0] else []
        for row, stem in itertools.product(rows, ("nn1", "knn", "linear")):
            column = MetricColumn(file, f"{stem}_gain_percent", {})
            if seeds := column._by_seed(metrics, row) if f"{stem}_gain_percent" in row else ():
                mean = statistics.fmean(value for _, value in seeds)
                assert mean == pytest.approx(row[f"{stem}_gain_percent"], abs=0.011), (
                    file,
                    row["series"],
                    row["value"],
                )
                checked += 1
    assert checked > 100


def test_numbers_of_the_same_seeds_are_compared_in_pairs_and_others_as_independent_ones(tmp_path):
    """For each seed the middle is 1.4 to 2.2 points above both ends. Seeds differ by 20 points."""
    rows = [
        {"series": "10 % from the middle", "value": value, "seeds": 3, "scale": "demo"}
        | {"nn1_top1_percent": 50 + above, "nn1_top1_interval_percent": 49.7}
        | {f"nn1_top1_seed{seed}_percent": 30 + 20 * seed + above + noise * (seed - 1) for seed in range(3)}
        for value, above, noise in ((16, 0, 0), (64, 2, 0.2), (1024, 0.5, 0.1))
    ]
    for columns, verdict in ((list(rows[0]), "held"), (list(rows[0])[:6], "undecided")):
        root = tmp_path / verdict.replace(" ", "-")
        written(root, "cifar10_negatives/count.csv", [{name: row[name] for name in columns} for row in rows])
        assert find_verdict(root, "mutualinfo.hard-number").verdict == verdict
    written(tmp_path, "cifar10_negatives/count.csv", [row | {"nn1_top1_seed1_percent": "none"} for row in rows])
    broken = find_verdict(tmp_path, "mutualinfo.hard-number")
    assert (broken.verdict, "nn1_top1_percent of a seed is 'none', no number" in broken.reason) == ("broken", True)


def test_runs_of_one_seed_are_compared_by_their_gains():
    """If a file has the gains of the rows over one base, no claim compares their accuracies."""
    metrics, unpaired = Metrics(ROOT), []
    for claim in EVERY:
        rows = {}
        for selector in claim.values.values():
            stem = selector.column.removesuffix("_percent").removesuffix("_top1")
            if isinstance(selector, Differences) or selector.interval is None or "gain" in stem:
                continue
            if claim.id in SHORTER or not (ROOT / metrics_path(selector.file)).exists():
                continue
            matches = metrics.matching(selector.file, selector.where)
            if f"{stem}_gain_percent" in matches[0]:
                rows.setdefault((selector.file, stem), []).extend(matches)
        for (file, stem), compared in rows.items():
            bases = [row for row in metrics.rows(file) if row[f"{stem}_verdict"] == "base"]
            same = len({row[f"{stem}_top1_percent"] for row in bases}) == 1
            pairs = [one for one in itertools.combinations(compared, 2) if same or one[0]["value"] == one[1]["value"]]
            unpaired += [claim.id] * bool(pairs)
    assert unpaired == []


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
    rule = CLAIMS[name].rules[0]
    assert CLAIMS[name].truth(rule, numbers).holds is True
    assert [change for change in changes if CLAIMS[name].truth(rule, numbers | change).holds is not False] == []


SIZED = [claim for claim in EVERY if claim.size and claim.dataset and claim.values]


@pytest.mark.parametrize("claim", SIZED, ids=[claim.id for claim in SIZED])
def test_a_size_is_decided_by_the_study_of_its_form_at_the_papers_scale(claim, tmp_path):
    """At this scale the study has the paper's data set. Claims read it in place of the study of CIFAR-10."""
    for selector in claim.values.values():
        study, file = selector.file.split("/")
        form = study.removeprefix("cifar10_")
        own = read_yaml(ROOT / f"stages/{form}/params.yaml") | {"scale": "paper"}
        if form == "moving_digits":  # as `annulus preset infomin.table1/digit` has it
            own["world"] |= {"digits": "data/mnist_images", "grounds": "data/stl10_images"}
        if claim.dataset == ["ImageNet"] and form == "negatives":  # eqco, as the study's params.yaml says
            own["scales"]["paper"]["dataset"] = "imagenet"
        rows = [{"seeds": 3, "scale": "paper"}]
        if form == "detection":
            rows = [rows[0] | {"task": task, "dataset": "imagenet"} for task in own["tasks"] if task != "lvis"]
        for name in {study, form}:
            (tmp_path / "stages" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / f"stages/{name}/params.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
        written(tmp_path, f"{form}/{file}", rows)
        metrics = Metrics(tmp_path)
        assert conclusive_file(metrics, selector.file) == f"{form}/{file}"
        assert claim.is_own(setting := read_setting(metrics, f"{form}/{file}", *rows)), setting


def test_committed_metrics_break_no_claim():
    metrics = Metrics(ROOT)
    assert [(v.id, v.reason) for v in verdicts(metrics) if v.verdict == "broken"] == []
    assert metrics.broken == []


def find_verdict(root, name):
    return next(verdict for verdict in verdicts(Metrics(root)) if verdict.id == name)


def test_without_metrics_nothing_was_run_and_each_command_or_test_that_asserts_the_claim_is_named(tmp_path):
    metrics = Metrics(tmp_path)
    every = {verdict.id: verdict for verdict in verdicts(metrics)}
    assert list(every) == list(CLAIMS)
    for verdict in every.values():
        theorem = CLAIMS[verdict.id].tests and not CLAIMS[verdict.id].values
        expected = "asserted by a test" if theorem else "not run"
        assert (verdict.verdict, verdict.numbers, verdict.size) == (expected, {}, None)
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
        walltime = find_verdict(tmp_path, "mlcpc.walltime")
        assert (walltime.verdict, walltime.reason) == (verdict, None)
        assert (walltime.numbers, walltime.setting, walltime.rule) == ({"ratio": ratio}, "AMD EPYC", "ratio <= 1.05")


def algorithms(root, gain, half, dataset, scale):
    row = {"table": "ring.table1a", "method": "IRing", "here_gain_percent": gain, "scale": scale, "seeds": 2}
    written(root, "cifar10_algorithms/table.csv", [row | {"here_gain_interval_percent": half}])
    params = {"scale": scale, "seeds": [0, 1], "defaults": {"dataset": dataset}}
    pipelines(root, "cifar10_algorithms")
    (root / "stages" / "cifar10_algorithms" / "params.yaml").write_text(yaml.safe_dump(params))


def test_a_direction_is_decided_on_any_data_and_a_size_on_the_paper_s_own_data_and_scale(tmp_path):
    for gain, half, dataset, scale, verdict, size in (
        (2.6, 0.5, "cifar10", "paper", "held", "held"),  # the paper prints 2.7
        (2.0, 0.5, "cifar10", "paper", "held", "refuted"),
        (2.7, 2.7, "cifar10", "paper", "undecided", "held"),  # the interval ends at 0
        (2.7, "", "cifar10", "paper", "undecided", "undecided"),  # of one seed
        (-1.0, 0.5, "cifar10", "paper", "did not hold", "refuted"),
        (-1.0, 1.25, "cifar10", "paper", "undecided", "refuted"),
        (0.1, 0.4, "cifar10", "paper", "no effect", "refuted"),  # inside of 0.5 points
        (0.1, 0.41, "cifar10", "paper", "undecided", "refuted"),
        (0.3, 0.2, "cifar10", "paper", "held", "refuted"),  # small, and above 0
        (2.7, 0.5, "shapes", "paper", "held", "held"),
        (2.7, 0.5, "cifar10", "demo", "held", "held"),
        (2.7, 0.5, "cifar100", "paper", "held", "held"),
    ):
        root = tmp_path / f"{gain} {half} {dataset} {scale}"  # a study's settings are read once
        algorithms(root, gain, half, dataset, scale)
        ring = find_verdict(root, "ring.beats-ir")
        assert (ring.verdict, ring.size, ring.own) == (verdict, size, (dataset, scale) == ("cifar10", "paper"))
        assert ("as information" in ring.size_text) == (not ring.own)
        assert ring.setting == f"{dataset}, {scale}, 2 seeds"
        assert ring.numbers == {"gain": gain} | ({"gain_interval": half} if half else {})
        could = f"its interval is ± {half:.2g} points" if half else "one seed shows no interval"
        none = "the interval holds 0 and lies within the smallest effect of interest"
        assert ring.reason == {"undecided": could, "no effect": none}.get(verdict)


def test_a_part_without_effect_refutes_a_claim_of_several_parts_and_says_so(tmp_path):
    starts = [("10 %", 0.94, 0.47), ("25 %", 0.2, 0.2), ("50 %", 0.1, 0.1), ("100 % (IR)", 0.0, 0.0)]
    names = ("series", "nn1_gain_percent", "nn1_gain_interval_percent")
    rows = [dict(zip(names, row, strict=True)) | {"value": 0.5, "seeds": 5, "scale": "demo"} for row in starts]
    written(tmp_path, "cifar10_negatives/start.csv", rows)
    later = find_verdict(tmp_path, "ring.hard-later")
    assert (later.verdict, later.reason) == (
        "did not hold", "of a part of it the interval holds 0 and lies within the smallest effect of interest"
    )  # fmt: skip


def test_both_counts_stand_in_one_line_and_by_paper():
    metrics = Metrics(ROOT)
    every = verdicts(metrics)
    line, (heads, *rows, total, image_totals) = verdict_counts(every), table(every)
    directions = [each for each in every if each.has_direction and not each.ours]
    assert sum(map(int, total[1 : heads.index("size held")])) == len(directions)
    assert [sum(int(row[place]) for row in rows) for place in range(1, len(heads))] == [*map(int, total[1:])]
    directed, on_images = line.split("; ")[:2]
    for words, count, part in zip(heads[1:5], total[1:5], image_totals[1:5], strict=True):
        assert re.search(rf"\b{count} {words}\b", directed), words
        assert int(part) == sum(v.verdict == words for v in directions if CLAIMS[v.id].uses_images)
        assert re.search(rf"\b{part} {words}\b", on_images), words
    assert on_images.startswith("of these on images: ")
    computed = {each.id for each in every if not each.uses_images}
    assert {"mlcpc.walltime", "ring.table5-nce", "mutualinfo.spirals-noise", "infomin.optimal-views"} <= computed
    assert not computed & {"infomin.shared-factor", "ring.detection", "infomin.frequency-reverse-u"}
    sizes = [each for each in every if each.size and not each.ours]
    assert sum(map(int, total[heads.index("size held") :])) == len(sizes)
    assert "sizes elsewhere, as information" in line
    parts = dict(part.split(": ") for part in line.split("; "))
    for own, where, head in (
        (True, "sizes on the papers' own data and scale", "size {}"),
        (False, "sizes elsewhere, as information", "size {}, elsewhere"),
    ):
        counts = Counter(each.size for each in sizes if each.own == own)
        texts = parts[where].split(", ") if where in parts else []  # a part without a count is left out
        assert sorted(texts) == sorted(f"{count} {size}" for size, count in counts.items())
        for size in ("held", "refuted"):
            assert total[heads.index(head.format(size))] == str(counts[size])
    check = replace(sizes[0], ours=True)
    assert verdict_counts([check]) == f"checks of our own: 1 {check.verdict}"
    assert "checks of our own" in line
    assert {each.setting is not None for each in every if each.numbers} == {True}


def staircase(scale, names=("CPC", "ML-CPC")):
    """Rows as in figure 3: alpha 1 is capped; with alpha 0.01 CPC exceeds the information, ML-CPC approaches it."""
    estimates = {(0, 1.0): (3.9, 4.7), (0, 0.01): (6.4, 9.4), (1, 1.0): (3.8, 4.6), (1, 0.01): (5.7, 9.0)}
    return [
        {"bound": names[bound], "alpha": alpha, "information_nats": information, "estimate_nats": estimate,
         "estimate_std_over_seeds_nats": 0.02, "std_nats": 0.2 if alpha < 1 else 0.1, "std_std_over_seeds_nats": 0.005,
         "ceiling_nats": 4.852 if alpha == 1 else 9.457, "iterations": 4000, "seeds": 5, "scale": scale}
        for (bound, alpha), levels in estimates.items()
        for information, estimate in zip((6, 10), levels, strict=True)
    ]  # fmt: skip


def test_a_number_that_cannot_be_right_breaks_the_claim_is_named_and_counts_before_what_is_missing(tmp_path):
    written(tmp_path, "benchmarks/estimators.json", {"mlcpc_over_cpc": float("nan")})
    hard = {"series": "10 % from the start", "value": 32, "nn1_gain_percent": ""}
    written(tmp_path, "cifar10_negatives/count.csv", [hard | {"nn1_gain_interval_percent": 0.5}])
    metrics = Metrics(tmp_path)
    by_id = {verdict.id: verdict for verdict in verdicts(metrics)}
    walltime, hurts = by_id["mlcpc.walltime"], by_id["mutualinfo.hard-early-hurts"]
    assert (walltime.verdict, walltime.size, walltime.numbers) == ("broken", None, {})
    assert walltime.reason == "metrics/benchmarks/estimators.json: mlcpc_over_cpc is nan"
    assert (hurts.verdict, hurts.numbers) == ("broken", {})
    assert "nn1_gain_percent is '', no number, in the row with series 10 % from the start" in hurts.reason
    assert {broken.name for broken in metrics.broken} == {"benchmarks/estimators.json", "cifar10_negatives/count.csv"}


def test_a_claim_with_a_broken_number_and_a_missing_one_is_broken(tmp_path):
    written(tmp_path, "benchmarks/estimators.json", {"mlcpc_over_cpc": float("nan")})
    values = {"ratio": exact("benchmarks/estimators.json", "mlcpc_over_cpc"), "nats": exact("spirals/n.csv", "nats")}
    for names in (["ratio", "nats"], ["nats", "ratio"]):
        claim = Claim("mlcpc.made-up", "One.", lambda ratio, nats: ratio < nats, values={n: values[n] for n in names})
        assert verdict_rules.verdict(claim, Metrics(tmp_path), {}).verdict == "broken"


def test_a_size_is_of_the_paper_s_own_data_and_scale_if_all_of_its_numbers_are(tmp_path):
    def own(*scales):
        for name, scale in zip("ab", scales, strict=True):
            written(tmp_path, f"estimators/{name}.csv", [{"nats": 1.0, "scale": scale}])
        values = {name: exact(f"estimators/{name}.csv", "nats") for name in "ab"}
        claim = Claim("mlcpc.made-up", "One.", size=lambda a, b: a.near(1) & b.near(1), values=values)
        verdict = verdict_rules.verdict(claim, Metrics(tmp_path), {})
        assert verdict.size == "held"
        return verdict.own

    assert [own("paper", "gpu"), own("paper", "demo"), own("demo", "paper")] == [True, False, False]
    claim = Claim("ring.made-up", "One.", dataset=["CIFAR-10"])
    for measured, expected in (((), True), (("CIFAR10",), True), (("shapes",), False)):
        assert claim.is_own(PaperSetting("cifar10", "paper", measurement_data=measured)) is expected


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
        return find_verdict(tmp_path, "eqco.table9-values")

    for change, verdict in (
        (lambda method, column: 0.09, "held"),
        (lambda method, column: 0.11, "refuted in size"),  # on average
        (lambda method, column: 0.26 * ((method, column) == ("EqCo", "K64")), "refuted in size"),  # one of the largest
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
        "broken", "stages/estimators/metrics/gaussians.csv: row 8: estimate_nats is nan"
    )  # fmt: skip


def printed_pairs():
    """Returns differences of two rows that one paper prints. The same rows differ by other amounts in two papers."""
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
    """Writes metrics with the papers' printed numbers, at their data set and scale."""
    rows = Metrics(ROOT).rows("cifar10_algorithms/table.csv")
    printed = [
        row | {"here_percent": row["paper_percent"], "here_gain_percent": row["paper_gain_percent"], "scale": "paper"}
        for row in rows
        if row["table"] != "none"
    ]
    intervals = {"here_interval_percent": 0.0, "here_gain_interval_percent": 0.0}
    written(root, "cifar10_algorithms/table.csv", [row | intervals for row in printed])
    written(root, "cifar10_algorithms/pairs.csv", printed_pairs())
    pipelines(root, "cifar10_algorithms")
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
    sizes = {v.id: (v.size, v.own) for v in verdicts(Metrics(tmp_path)) if v.size}
    assert {name: size for name, size in sizes.items() if size != ("held", True)} == {}
    assert len(sizes) >= 20
    decided = {
        v.id: v.verdict for v in verdicts(Metrics(tmp_path)) if v.verdict not in ("not run", "asserted by a test")
    }
    assert {name: verdict for name, verdict in decided.items() if verdict != "held"} == {}
    assert len(decided) >= 43
    for name, columns in (("table", ["here_percent", "here_gain_percent"]), ("pairs", ["gain_percent"])):
        rows = list(csv.DictReader((tmp_path / metrics_path(f"cifar10_algorithms/{name}.csv")).open()))
        rows = [row | {column: -float(row[column]) for column in columns} for row in rows]
        written(tmp_path, f"cifar10_algorithms/{name}.csv", rows)
    # The two bounds swap their numbers.
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
    assert find_verdict(tmp_path, "ring.transfer-new").reason == "a share of 0.5 is undecided"
    few_shot = find_verdict(tmp_path, "ring.transfer-few-shot")
    assert few_shot.reason == "its interval is ± 1 points", "encoders that are better on one target are so on others"


def test_halves_of_intervals_are_shown_where_all_numbers_have_one():
    both, one = ClaimNumber(1.2345678, 0.5), ClaimNumber(2.0, math.inf)
    assert page_numbers({"gain": [both, both]}) == {"gain": [1.23457] * 2, "gain_interval": [0.5] * 2}
    assert page_numbers({"gain": [both, one]}) == {"gain": [1.23457, 2.0]}


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


def test_a_percentage_has_a_smallest_effect_and_a_number_of_nats_has_none(tmp_path):
    row = {"a_percent": 1.0, "a_interval_percent": 2.0, "a_nats": 1.0, "a_interval_nats": 2.0, "scale": "paper"}
    written(tmp_path, "estimators/a.csv", [row])
    for column, smallest, expected in (("a_percent", 0.5, 0.5), ("a_percent", 0.2, 0.2), ("a_nats", 0.5, 0.0)):
        value, _ = estimate("estimators/a.csv", column, smallest=smallest).read(Metrics(tmp_path), {})
        assert value == ClaimNumber(1.0, 2.0, expected)


@pytest.mark.slow
def test_a_study_s_scale_of_today_says_nothing_of_the_numbers_that_it_has_made(tmp_path):
    """While `scale: paper` trains for days, metrics/ has the numbers of `scale: demo`."""
    stated_params(tmp_path / "params.yaml")
    verdicts_by_scale = []
    for scale in ("demo", "paper"):
        for path in ROOT.glob("stages/*/params.yaml"):
            text = path.read_text(encoding="utf-8")
            text = re.sub("^scale: [a-z]+", f"scale: {scale}", text, flags=re.MULTILINE)
            copy = tmp_path / scale / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True)
            copy.write_text(text, encoding="utf-8")
            (copy.parent / "metrics").symlink_to(path.parent / "metrics")
        (tmp_path / scale / "metrics").symlink_to(ROOT / "metrics")
        (tmp_path / scale / "params.yaml").symlink_to(tmp_path / "params.yaml")
        verdicts_by_scale.append(
            {
                verdict.id: (verdict.verdict, verdict.size, verdict.own)
                for verdict in verdicts(Metrics(tmp_path / scale))
            }
        )
    assert verdicts_by_scale[0] == verdicts_by_scale[1]
    assert len({verdict for verdict, _, _ in verdicts_by_scale[0].values()}) > 3
