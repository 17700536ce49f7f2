"""Studies outside of the papers' claims, tables and figures, such as a user's own: their tables and figures."""

import re
import shutil
from datetime import UTC, datetime

import pytest
import report_root
import yaml
from added import own_study
from by_path import ROOT, parse_yaml

from annulus_lab.report.page.content import gather
from annulus_lab.report.page.further_studies import further_studies
from annulus_lab.report.page.html import html
from annulus_lab.report.page.markdown import markdown
from annulus_lab.report.page.sections import Empty
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.papers.tables import MINUS

NOW = datetime(2026, 11, 28, tzinfo=UTC)
NOISE = "within noise (could see 2 points)"
STARTER = own_study("own")


def point(series, value, gain=0.0, verdict="base", half=0.5):
    """Returns a row of a part's CSV."""
    row = {"series": series, "value": value, "seeds": 3}
    for stem, accuracy in (("nn1", 40.0), ("knn", 50.0), ("linear", 60.0)):
        row |= {f"{stem}_top1_percent": accuracy + gain, f"{stem}_top1_interval_percent": half and 1.25}
        row |= {f"{stem}_gain_percent": gain, f"{stem}_gain_interval_percent": half, f"{stem}_verdict": verdict}
    row |= {"bound_nats": 1.5, "bound_interval_nats": half and 0.25, "ceiling_nats": 2.8332}
    return row | {"ceiling_interval_nats": half and 0.0, "scale": "demo"}


def own(root, parts=None, **tables):
    """Writes a repository with a study of these parts, by default the starter's, and these tables."""
    content = parse_yaml(STARTER)
    content["parts"] = content["parts"] if parts is None else parts
    report_root.params(root)
    report_root.pipelines(root, "own")
    (root / "stages/own/params.yaml").write_text(yaml.safe_dump(content))
    for name, rows in tables.items():
        report_root.written(root, f"own/{name}.csv", rows)
    return root


def only(root):
    """Returns the parts of the single study."""
    (study,) = further_studies(Metrics(root))
    assert study.name == "own"
    return study.parts


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


SWEPT = [
    point("uniform", 0.1),
    point("uniform", 0.4),
    point("ring", 0.1, 2.0, "better"),
    point("ring", 0.4, -1.0, NOISE),
]


def test_a_part_has_its_accuracies_gains_verdicts_and_further_numbers_with_intervals(tmp_path):
    part = only(own(tmp_path, temperature=SWEPT))["temperature"]
    assert part.verdict_summary.startswith("Linear probe: Of 2 differences 1 are better, 0 worse and 1 within noise. ")
    titles = ["here", "gain", "verdict"]
    assert [column.title for column in part.gains.columns] == ["series", "temperature", *titles, *titles]
    assert part.gains.groups == [("", 2), ("linear probe", 3), ("kNN", 3)]
    assert texts(part.gains)[0] == ["uniform", "0.1", "60.00 ± 1.25", "", "base", "50.00 ± 1.25", "", "base"]
    assert texts(part.gains)[2][2:5] == ["62.00 ± 1.25", "+2.00 ± 0.50", "better"]
    assert texts(part.gains)[3][5:] == ["49.00 ± 1.25", f"{MINUS}1.00 ± 0.50", NOISE]
    assert part.gains.caption.endswith("stages/own/metrics/temperature.csv: shapes, demo, 3 seeds")
    assert [column.title for column in part.measurements.columns[2:]] == ["1-NN top-1", "bound", "ceiling"]
    assert texts(part.measurements)[2] == ["ring", "0.1", "42.00 ± 1.25", "1.5000 ± 0.2500", "2.8332"]


def test_a_sweep_of_numbers_is_drawn_by_both_accuracies_and_one_of_words_or_of_one_value_is_not(tmp_path):
    figure = only(own(tmp_path / "a", temperature=SWEPT))["temperature"].figure
    assert figure.plot.files == ("own/temperature.csv",)
    for words in ("kNN", "linear probe", "temperature", "accuracy, percent", "uniform", "ring"):
        assert f">{words}<" in figure.svg
    for name, values in (("b", ("lab", "rgb")), ("c", (0.1,))):
        rows = [point(series, value) for series in ("uniform", "ring") for value in values]
        assert only(own(tmp_path / name, temperature=rows))["temperature"].figure is None


def test_a_part_without_a_sweep_is_drawn_over_the_epochs(tmp_path):
    parts = {"steps": {"base": {"series": "a"}, "series": {"a": {}, "b": {}}}}
    curve = [{"series": name, "x": x, "nn1_top1_percent": 10.0 * x} for name in ("a", "b") for x in (1, 2)]
    rows = [point("a", ""), point("b", "", 1.0, "better")]
    part = only(own(tmp_path, parts, steps=rows, steps_figure=curve))["steps"]
    assert part.figure.plot.files == ("own/steps_figure.csv",)
    assert ">epoch<" in part.figure.svg
    assert [column.title for column in part.gains.columns][:2] == ["series", "here"]


def test_one_seed_has_no_interval_and_no_verdict(tmp_path):
    rows = [point("uniform", 0.1, half=""), point("ring", 0.1, 2.0, "one seed", half="")]
    part = only(own(tmp_path, temperature=rows))["temperature"]
    assert part.verdict_summary == "One seed: no difference has a verdict."
    assert texts(part.gains)[1][2:5] == ["62.00", "+2.00", "one seed"]


def test_a_part_of_the_base_alone_has_its_row_and_no_word_of_differences(tmp_path):
    part = only(own(tmp_path, temperature=[point("uniform", 0.1)]))["temperature"]
    assert part.verdict_summary == ""
    assert texts(part.gains) == [["uniform", "0.1", "60.00 ± 1.25", "", "base", "50.00 ± 1.25", "", "base"]]


def test_a_part_that_was_not_run_or_is_broken_says_so_in_both_formats_and_the_section_is_there_only_with_a_study(
    tmp_path,
):
    parts = parse_yaml(STARTER)["parts"]
    bare = [{"series": "a", "value": 1.0, "scale": "demo"}]
    report = gather(own(tmp_path / "own", parts | {"bare": parts["temperature"]}, bare=bare), NOW)
    for output in (html(report), markdown(report)):
        assert "Further studies" in output
        for words in ("stages/own/metrics/temperature.csv is not there", "make study STUDY=own", "has no column"):
            assert words in output.replace("\\_", "_")
    assert [fault.name for fault in report.broken] == ["own/bare.csv"]
    empty = gather(tmp_path / "none", NOW)
    assert "Further studies" not in html(empty) + markdown(empty)


def test_both_formats_have_the_table_and_the_figure(tmp_path):
    report = gather(own(tmp_path, temperature=SWEPT), NOW)
    page, text = html(report), markdown(report)
    assert '<section id="further">' in page
    assert 'id="figure-further.own.temperature"' in page
    assert "<td>ring</td>" in page
    assert "| ring | 0.1 | 62.00 ± 1.25 | +2.00 ± 0.50 | better | 52.00 ± 1.25 | +2.00 ± 0.50 | better |" in text
    assert "**own: temperature.** Here: shapes, demo, 3 seeds. Bars: 95 % intervals. Drawn from " in text


def test_values_have_the_name_of_the_setting_of_the_scale_that_ran_and_none_where_the_study_was_edited_since(tmp_path):
    sweep = {"keys": ["methods.ir.temperature", "methods.moco.temperature"], "values": [1]}
    part = {"base": {"value": 1}, "series": {"a": {}}, "sweep": sweep}
    epochs = {"sweep": {"keys": ["scales.${scale}.pretrain.batch_size"], "values": [1]}}
    parts = {"p": part, "q": part | {"scales": {"demo": epochs}}, "r": 3}
    root = own(tmp_path / "a", parts, **dict.fromkeys("pqr", SWEPT))
    heads = {name: part.gains.columns[1].title for name, part in only(root).items()}
    assert heads == {"p": "temperature", "q": "batch size", "r": "value"}
    root = own(tmp_path / "b", parts, p=SWEPT)
    lock = "path: params.yaml\n  hash: md5\n  md5: 0\n"
    (root / "stages/own/dvc.lock").write_text(lock)
    assert only(root)["p"].gains.columns[1].title == "value"


def test_rows_of_algorithms_on_other_images_have_figures_gains_and_verdicts_and_before_they_ran_a_command(tmp_path):
    report_root.params(tmp_path)
    report_root.pipelines(tmp_path, "own", "algorithms")
    report_root.algorithms(tmp_path)
    shutil.copy(ROOT / "stages/algorithms/params.yaml", tmp_path / "stages/algorithms")
    (tmp_path / "stages/own/params.yaml").write_text("study: own\nof: algorithms\nrows: {IR: {}, MoCoRing: {}}\n")
    report = gather(tmp_path, NOW)
    (study,) = [study for study in report.further if study.name == "own"]
    assert (study.rows.command, study.parts) == ("make study STUDY=own", {})
    assert "stages/own/metrics/table.csv is not there" in html(report)
    shutil.copytree(tmp_path / "stages/algorithms/metrics", tmp_path / "stages/own/metrics")
    report = gather(tmp_path, NOW)
    page, text = html(report), markdown(report)
    assert 'id="figure-gain.own.ring.table1a"' in page
    for output in (page, text):
        assert "On the images of own MoCoRing gains 0.70 ± 0.50 points against its base" in output
    assert "gain in the paper" in page.partition('id="study-own"')[2].partition("</details>")[0]
    rows = [row | {"paper_gain_percent": ""} for row in Metrics(tmp_path).rows("own/table.csv")]
    report_root.written(tmp_path, "own/table.csv", rows)
    own = html(gather(tmp_path, NOW)).partition('id="study-own"')[2].partition("</details>")[0]
    assert "MoCoRing" in own
    assert "gain in the paper" not in own
    assert len(set(re.findall(r' id="([^"]+)"', page))) == len(re.findall(r' id="([^"]+)"', page))


def test_studies_come_by_name_and_one_whose_parameters_cannot_be_read_takes_no_other_away(tmp_path):
    own(tmp_path)
    for name in "fbdac":
        shutil.copytree(tmp_path / "stages/own", tmp_path / "stages" / name)
    (tmp_path / "stages/c/params.yaml").write_text("a: [")
    assert [study.name for study in further_studies(Metrics(tmp_path))] == ["a", "b", "d", "f", "own"]


@pytest.mark.parametrize("parts", [3, [], {}, {"../x": {}}, {7: {}}, {"\ud800": {}}])
def test_a_section_without_names_of_files_has_no_part(tmp_path, parts):
    assert further_studies(Metrics(own(tmp_path, parts))) == []


def test_no_part_of_a_claim_table_or_figure_stands_here_again():
    parts = {study.name: study.parts for study in further_studies(Metrics(ROOT))}
    plot_parts, claim_parts = [("cifar10_strength", "crop"), ("law", "moco")], [("cifar10_frequency", "sigma")]
    for study, part in (*plot_parts, *claim_parts, ("cifar10_augmentations", "ir"), ("cifar10_strength", "branches")):
        assert part not in parts.get(study, {})
    assert not parts.keys() & {"algorithms", "cifar10_algorithms", "cifar10", "distillation"}
    assert not [part for part in ("cmc", "length", "best") if isinstance(parts["law"][part], Empty)]
