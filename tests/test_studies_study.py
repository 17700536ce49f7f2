"""A study's params.yaml over the root's: changes of a row, values that it keeps, and refusals."""

import shutil

import pytest
import yaml
from by_path import ROOT, read_yaml, script, settings_script
from stated import TREE, stated_params, stated_text

from annulus.errors import InputError
from annulus.negatives.samplers import Ball, Ring
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.report.papers.comparison import load_figures
from annulus_lab.studies.shared.grid import part_settings
from annulus_lab.studies.shared.rows_params import RowsParams, row_at
from annulus_lab.studies.shared.study import OwnStudy, Study

DEFAULTS = {"dataset": "shapes", "method": "ir", "split": "none", "bound": "infonce", "sampler": "uniform"}
DEFAULTS |= {"anneal": "none", "neighbours": "none", "views": "standard", "backbone": "alexnet-fast"}
DEFAULTS |= {"schedule": "cosine"}
OWN = {
    "scale": "tiny",
    "seeds": [0, 1],
    "defaults": DEFAULTS,
    "scales": {"tiny": {"scales.tiny.pretrain.epochs": 1}, "demo": {"methods.moco.momentum": 0.99}, "paper": {}},
    "rows": {"IR": {}, "MoCo": {"method": "moco"}, "BALL+anneal": {"sampler": "ball", "anneal": "linear"}},
}


@pytest.fixture
def make(tmp_path):
    """Function that builds a study with these changes over a root with these changes."""

    def build(changes: dict | None = None, root: dict | None = None) -> Study:
        text = yaml.safe_dump(TREE | root) if root else stated_text()
        (tmp_path / "params.yaml").write_text(text)
        present = {key: value for key, value in (OWN | (changes or {})).items() if value is not None}
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(present, sort_keys=False))
        return Study(tmp_path / "params.yaml", tmp_path / "study.yaml")

    return build


def refusal(make, changes: dict, settings: dict | None = None) -> str:
    """Message of the refusal, without the file's name at its start."""
    with pytest.raises(InputError, match=r"^[^\n]+study\.yaml: [^\n]*$") as error:
        make(changes).variant("a row", settings or {}, 0)
    return str(error.value).partition("study.yaml: ")[2]


def test_the_row_wins_over_the_scale_and_the_scale_over_the_defaults_and_the_data_set_is_that_of_the_scale(make):
    key = "methods.ir.temperature"
    params = make({"defaults": DEFAULTS | {key: 0.1}}).variant("IR", {}, 5)
    assert (params.seeds, params.scale, params.methods.ir.temperature) == ([5], "tiny", 0.1)
    study = make({"defaults": DEFAULTS | {key: 0.1}, "scales": {"tiny": {key: 0.2}}})
    assert study.variant("IR", {}, 0).methods.ir.temperature == 0.2
    assert study.variant("IR", {key: 0.3}, 0).methods.ir.temperature == 0.3
    assert study.dataset == "shapes"
    assert make({"scales": {"tiny": {"dataset": "cifar10"}}}).dataset == "cifar10"


IR, MOCO = ({"row": row, "top1_percent": None} for row in ("IR", "MoCo"))
TABLE = {"base": "IR", "methods": {"IR": IR, "MoCo": MOCO}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"methods": {"IR": IR, "MoCo": MOCO | {"row": "MoCOo"}}}, r"MoCo\.row: no 'MoCOo'; did you mean 'MoCo'"),
        ({"methods": {"IR": IR, "MoCo": MOCO | {"base": "IRr"}}}, r"a\.methods\.MoCo\.base: no 'IRr'; did you mean"),
        (
            {"methods": {"IR": IR, "MoCo": {"row": "MoCo"}}},
            r"MoCo\.top1_percent: missing; .* a value, or null for none$",
        ),
        ({"base": "IRr"}, r"tables\.a\.base: no 'IRr'; did you mean 'IR'"),
        (None, r"pairs\.MoCo: no 'BALL'"),
    ],
)
def test_a_table_of_what_no_row_is_is_refused(changes, sentence, make):
    make({"tables": {"a": TABLE}, "pairs": {"MoCo": ["IR"]}}).read(RowsParams)
    pairs = {"MoCo": ["IR", "BALL"] if changes is None else ["IR"]}
    with pytest.raises(InputError, match=sentence):
        make({"tables": {"a": TABLE | (changes or {})}, "pairs": pairs}).read(RowsParams)


STUDIES = [path.parent.name for path in sorted(ROOT.glob("stages/*/params.yaml"))]
OVER_THE_ROOT = [
    name for name in STUDIES if "write_settings(main, Study, READERS)" in (ROOT / settings_script(name)).read_text()
]


@pytest.mark.parametrize("study", OVER_THE_ROOT)
def test_a_study_s_settings_are_accepted_at_every_scale_and_no_two_of_a_part_of_views_are_the_same(study, tmp_path):
    path = settings_script(study)
    main, has_parts = script(path).main, path == "stages/study_settings.py"
    for scale in at_scale(tmp_path, study, "tiny").content["scales"]:
        files = main(at_scale(tmp_path, study, scale))
        assert files
        for points in (part["points"] for part in files.values() if has_parts and "points" in part):
            assert all([one["run"] for one in points].count(point["run"]) == 1 for point in points)
            assert all(point["base"] in [[one["series"], one["value"]] for one in points] for point in points)


def test_a_setting_replaces_a_whole_section_and_a_later_one_a_value_in_it(make):
    settings = {"anneal": "step", "anneals.step": {"until": 0.25, "steps": 1}, "anneals.step.until": 0.75}
    study = make()
    before = study.variant("IR", {}, 0)
    anneal = study.variant("a row", settings, 0).get("anneals.${anneal}")
    assert (anneal.until, anneal.steps) == (0.75, 1)
    assert settings["anneals.step"] == {"until": 0.25, "steps": 1}, "the study's own content is not edited"
    assert study.variant("IR", {}, 0) == before, "nothing is left behind for the next row"


def test_a_scale_in_a_key_is_the_study_s_and_only_its_settings_count(make):
    for scale, momentum in (("tiny", 0.999), ("demo", 0.99)):
        params = make({"scale": scale}).variant("a row", {"scales.${scale}.pretrain.negatives": 17}, 0)
        changed = [it for it in ("tiny", "demo", "paper") if getattr(params.scales, it).pretrain.negatives == 17]
        assert (changed, params.methods.moco.momentum) == ([scale], momentum)


def test_the_root_s_choices_move_no_study(make):
    others = {"seeds": [9], "scale": "paper", "dataset": "cifar10", "method": "moco", "split": "lab", "bound": "la"}
    others |= {"sampler": "cave", "anneal": "linear", "neighbours": "s", "views": "strong", "backbone": "resnet50"}
    others |= {"schedule": "constant"}
    assert set(others) == {*SELECTOR_SECTIONS, "seeds"}
    assert make(root=others).variant("a row", {}, 0) == make().variant("a row", {}, 0)
    values = {"optimizer": {"momentum": 0.5, "weight_decay": 0.0}}
    assert make(root=values).variant("IR", {}, 0).optimizer.momentum == 0.5, "its values do"


def test_an_unknown_key_is_named_with_its_row_and_the_nearest_known_one(make):
    for key, sentence in (
        ("sampelr", "params.yaml has no 'sampelr'; did you mean 'sampler'?"),
        ("samplers.rign.outer", "params.yaml has no 'rign'; did you mean 'ring'?"),
        ("scales.${scale}.pretrian", "params.yaml has no 'pretrian'; did you mean 'pretrain"),
    ):
        assert refusal(make, {}, {key: 1}).startswith(f"a row: {key}: {sentence}")
        for changes, where in (({"defaults": DEFAULTS | {key: 1}}, "defaults"), (tiny(**{key: 1}), "scales.tiny")):
            assert refusal(make, changes).startswith(f"{where}: {key}: {sentence}")


@pytest.mark.parametrize(
    ("changes", "settings", "sentence"),
    [
        # The root's refusals name the study's file and row.
        ({}, {"samplers.ring.outer": 2.0}, "a row: samplers.ring.outer: 2.0 refused; input should be less than or eq"),
        ({}, {"samplers.ball": {"outre": 0.1, "outer": 0.1}}, "a row: samplers.ball.outre: unknown key; did you mean"),
        ({}, {"neighbours": "s", "bound": "binary-nce"}, "a row: neighbours: s gives a query several positives, and"),
        ({}, {"scales.demo.pretrain.epochs": 1}, "a row: scales.demo.pretrain.epochs is not of 'tiny', the study's"),
        ({"scale": "tony"}, {}, "scale: 'tony' is none of tiny, demo, paper"),
        ({"scales": {"tiny": {"seeds": [7]}}}, {}, "scales.tiny: seeds would change nothing; seeds is set at"),
        ({}, {"seeds": [7]}, "a row: seeds would change nothing; seeds is set at the top of the study's file"),
        ({"seeds": [0, 3, 0]}, {}, "seeds: [0, 3, 0] names a seed twice, which would be one run, not two"),
        ({"seeds": None}, {}, "seeds: missing; it has no default: write a value"),
        ({"scales": {"tiny": 3}}, {}, "scales.tiny: 3 refused; expected keys and values, or {} for none"),
        *(
            ({"defaults": {name: choice for name, choice in DEFAULTS.items() if name != selector}}, {}, sentence)
            for selector in DEFAULTS
            if (sentence := f"defaults: lacks {selector}; a study sets every selector")
        ),
    ],
)
def test_a_study_or_row_with_a_fault_is_refused(make, changes, settings, sentence):
    assert refusal(make, changes, settings).startswith(sentence)


def test_a_row_is_what_stands_under_its_name_or_is_named_with_the_nearest(make):
    assert make().row("rows", "BALL+anneal") == {"sampler": "ball", "anneal": "linear"}
    with pytest.raises(InputError, match=r"study\.yaml: rows has no 'BALL\+aneal'; did you mean 'BALL\+anneal'\?$"):
        make().row("rows", "BALL+aneal")


SETTINGS = {
    "scale": "tiny",
    "seeds": [0],
    "scales": {"tiny": {"ball": {"outer": 0.25}, "rings": {"far": {"inner": 0.5}}}, "paper": {}},
    "ball": {"outer": 0.5},
    "rings": {"far": {"inner": 0.25, "outer": 0.75}, "close": {"inner": 0.0, "outer": 0.5}},
}


@pytest.fixture
def own(tmp_path):
    """Function that builds a study of SETTINGS with these changes, without the root's params.yaml."""

    def build(changes: dict | None = None) -> OwnStudy:
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(SETTINGS | (changes or {}), sort_keys=False))
        return OwnStudy(tmp_path / "study.yaml")

    return build


def test_a_section_is_its_own_values_with_the_scale_s_on_top(own):
    study = own()
    assert study.section("ball", Ball) == study.section("ball", Ball) == Ball(outer=0.25)
    assert study.content == SETTINGS, "it is not edited"
    assert study.section("rings.far", Ring) == Ring(inner=0.5, outer=0.75)
    assert study.section("rings.close", Ring) == Ring(inner=0.0, outer=0.5)
    study = own({"scale": "paper"})
    assert study.section("ball", Ball) == Ball(outer=0.5)
    assert study.section("rings.far", Ring) == Ring(inner=0.25, outer=0.75)


def tiny(**section):
    return {"scales": {"tiny": section}}


@pytest.mark.parametrize(
    ("changes", "name", "sentence"),
    [
        ({}, "bal", "bal: expected keys and values; did you mean 'ball'?"),
        ({}, "rings.fra", "rings.fra: expected keys and values; did you mean 'far'?"),
        ({"ball": {"outre": 0.1}}, "ball", "ball: outre: unknown key; did you mean 'outer'? (known: outer)"),
        (tiny(ball={"outer": 2.0}), "ball", "ball: outer: 2.0 refused; input should be"),
        ({"ball": {}} | tiny(), "ball", "ball: outer: missing; it has no default: write a value"),
        # A typo in a scale would leave the paper's own settings on and cost hours.
        (tiny(bal={"outer": 0.1}), "ball", "scales.tiny: 'bal' is not a section; did you mean 'ball'?"),
        (tiny(seeds=[7]), "ball", "scales.tiny: 'seeds' is not a section"),
        (tiny(rings={"fra": {}}), "rings.far", "did you mean 'far'"),
        (tiny(ball=3), "ball", "expected keys and values"),
        (tiny(rings={"far": [1]}), "rings.far", "expected keys and values"),
    ],
)
def test_a_section_with_a_fault_is_refused_with_study_file_and_the_nearest(own, changes, name, sentence):
    with pytest.raises(InputError) as error:
        own(changes).section(name, Ring if name.startswith("rings") else Ball)
    assert sentence in str(error.value).partition("study.yaml: ")[2]


def at_scale(tmp_path, name: str, scale: str) -> Study:
    content = read_yaml(ROOT / "stages" / name / "params.yaml")
    path = tmp_path / name / "study.yaml"
    for study in {name, content.get("of", name)}:
        (tmp_path / study).mkdir(exist_ok=True)
        shutil.copy(ROOT / "stages" / study / "params.yaml", tmp_path / study)
    path.write_text(yaml.safe_dump(content | {"scale": scale}, sort_keys=False))
    return Study(stated_params(tmp_path / "root.yaml"), path)


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_every_row_and_point_of_algorithms_and_negatives_is_valid_and_no_two_are_the_same(tmp_path, scale):
    study = at_scale(tmp_path, "algorithms", scale)
    groups = [
        {
            name: study.variant(name, row_at(study.params.scale, study.row("rows", name)), 0)
            for name in study.content["rows"]
        }
    ]
    study = at_scale(tmp_path, "negatives", scale)
    for name, part in study.content["parts"].items():
        sweep = part.get("sweep", {"keys": [], "values": [None]})
        points = {
            (series, value): study.variant(f"{name}.{series}", settings | dict.fromkeys(sweep["keys"], value), 0)
            for series, settings in part["series"].items()
            for value in sweep["values"]
        }
        assert all(params.get(key) == value for (_, value), params in points.items() for key in sweep["keys"])
        groups.append(points)
    for points in groups:
        assert {params.scale for params in points.values()} == {scale}
        assert len({params.model_dump_json() for params in points.values()}) == len(points)
    for name, choice in study.content["estimates"]["samplers"].items():
        study.variant(name, choice, 0)


def test_a_part_of_validation_accuracy_needs_validation_images(tmp_path):
    study = at_scale(tmp_path, "negatives", "tiny")
    study.content["parts"]["annealing"]["series"] = {"none": {"datasets.shapes.validation_fraction": 0.0}}
    study.content["parts"]["annealing"]["base"] = {"series": "none"}
    with pytest.raises(InputError, match=r"parts.annealing shows validation accuracy .*validation_fraction is 0; give"):
        part_settings(study, "annealing")


def test_what_a_study_measures_beside_accuracies_is_asked_of_its_runs(tmp_path):
    part_runs, row_runs = (script(f"stages/{name}.py").runs for name in ("study_part", "algorithms/train"))
    rows = script("stages/algorithms/settings.py").main(at_scale(tmp_path, "algorithms", "tiny"))
    part, plain = (
        part_settings(at_scale(tmp_path, study, "tiny"), part)
        for study, part in (("law", "moco"), ("negatives", "count"))
    )
    for runs, views in ((row_runs(rows["rows/IR"]), 1024), (part_runs(part), 1024), (part_runs(plain), None)):
        assert {trial.closeness_views for trial in runs.values()} == {views}


def test_at_the_paper_s_scale_a_part_has_the_paper_s_values_and_both_heads(tmp_path):
    figures = load_figures()
    for part, figure, base in (("crop", "infomin.fig11", 0.2), ("jitter", "infomin.fig12", 1.0)):
        points = part_settings(at_scale(tmp_path, "strength", "paper"), part)["points"]
        for head in ("mlp", "linear"):
            values = [point["value"] for point in points if point["run"]["methods"]["moco"]["head"] == head]
            assert values == figures[figure].sweep
        assert {point["base"][1] for point in points} == {base}
        demo = part_settings(at_scale(tmp_path, "strength", "demo"), part)["points"]
        assert {point["value"] for point in demo} != set(figures[figure].sweep)


def test_a_row_of_lab_images_is_cmc_and_one_whose_name_says_ring_or_ball_has_it(tmp_path):
    study = at_scale(tmp_path, "algorithms", "demo")
    for entry in study.content["tables"]["mutualinfo.table1"]["methods"].values():
        name = entry["row"]
        params = study.variant(name, row_at(study.params.scale, study.row("rows", name)), 0)
        assert params.split == ("lab" if "Lab" in name or name.startswith("CMC") else "none")
        assert (params.anneal == "linear") == ("+anneal" in name)
        assert (params.neighbours == "s") == ("+s-neigh" in name)
        sampler = next((word for word in ("BALL", "CAVE", "RING") if name.startswith(word)), None)
        assert params.sampler == (sampler.lower() if sampler else "ball" if name.startswith("LA") else "uniform")


@pytest.fixture
def derived_study(tmp_path):
    """Function that builds a study with these contents over the rows of the study `rows`."""

    def build(content: dict) -> Study:
        for name, held in (("rows", {"study": "rows", "of": "rows"} | OWN), ("real", content)):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "params.yaml").write_text(yaml.safe_dump(held, sort_keys=False))
        (tmp_path / "params.yaml").write_text(stated_text())
        return Study(tmp_path / "params.yaml", tmp_path / "real/params.yaml")

    return build


def test_a_study_of_another_one_has_the_rows_that_it_names_with_its_changes_over_the_other_s(derived_study):
    content = {"study": "real", "of": "rows", "seeds": [7], "defaults": {"views": "gentle"}}
    content |= {"scales": {"tiny": {"samplers.ball.outer": 0.25}}, "rows": {"MoCo": {"split": "lab"}, "IR": {}}}
    study = derived_study(content)
    assert (study.params.scale, study.params.seeds, study.dataset) == ("tiny", [7], "shapes")
    assert study.params.defaults == DEFAULTS | {"views": "gentle"}
    assert study.params.scales["tiny"] == {"scales.tiny.pretrain.epochs": 1, "samplers.ball.outer": 0.25}
    assert study.params.scales["demo"] == OWN["scales"]["demo"]
    assert study.content["rows"] == {"MoCo": {"method": "moco", "split": "lab"}, "IR": {}}
    run = study.variant("MoCo", study.row("rows", "MoCo"), 7)
    assert (run.method, run.split, run.views, run.samplers.ball.outer) == ("moco", "lab", "gentle", 0.25)


def test_changes_of_another_study_s_row_come_after_what_that_sets_at_a_scale(derived_study, monkeypatch):
    rate = "scales.${scale}.pretrain.learning_rate"
    scales = {
        "tiny": {"samplers.ball": {"outer": 0.25}, "scales.tiny.pretrain.learning_rate": 0.1},
        "demo": {rate: 0.2},
    }
    monkeypatch.setitem(OWN["rows"], "ball", {"sampler": "ball", "scales": scales})
    for own, expected in (
        ({}, (0.25, 0.1)),
        ({rate: 0.3}, (0.25, 0.3)),
        ({"samplers.ball.outer": 0.75}, (0.75, 0.1)),
        ({rate: 0.3, "scales": {"demo": {}}}, (TREE["samplers"]["ball"]["outer"], 0.3)),
    ):
        study = derived_study({"study": "real", "of": "rows", "rows": {"ball": own}})
        run = study.variant("ball", row_at("tiny", study.row("rows", "ball")), 0)
        assert (run.samplers.ball.outer, run.get("scales.${scale}.pretrain").learning_rate) == expected


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"of": "row"}, "of: 'row' is not a study; did you mean 'rows'? (studies: real, rows)"),
        ({"of": None}, "of: None refused; write the name of a study's folder"),
        ({"study": 3}, "study: 3 refused; write the name of a study's folder"),
        ({"rows": {"MoC": {}}}, "rows: 'MoC' is not among those of rows; did you mean 'MoCo'?"),
        ({"defaults": 3}, "defaults: 3 refused; expected keys and values, or {} for none"),
        ({"scales": {"tiny": 3}}, "scales.tiny: 3 refused; expected keys and values, or {} for none"),
        ({"scales": 3}, "scales: 3 refused; expected keys and values, or {} for none"),
    ],
)
def test_a_study_of_another_one_with_a_fault_is_refused(derived_study, changes, sentence):
    with pytest.raises(InputError) as error:
        derived_study({"study": "real", "of": "rows"} | changes)
    assert str(error.value).partition("real/params.yaml: ")[2] == sentence


def test_a_fault_of_the_root_s_file_is_told_of_that_file(derived_study, tmp_path):
    derived_study({"study": "real", "of": "rows"})
    root = tmp_path / "params.yaml"
    root.write_text(yaml.safe_dump(TREE | {"samplers": TREE["samplers"] | {"ball": {"outer": "ten"}}}))
    with pytest.raises(InputError) as error:
        Study(root, tmp_path / "real/params.yaml")
    assert str(error.value).startswith(f"{root}: samplers.ball.outer: 'ten' is text")


def test_a_study_of_one_that_is_itself_of_another_is_told_which(derived_study, tmp_path):
    derived_study({"study": "real", "of": "rows"})
    third = tmp_path / "third/params.yaml"
    third.parent.mkdir()
    third.write_text("study: third\nof: real\n")
    with pytest.raises(InputError, match=r"of: 'real' has the rows or parts of 'rows'; write that$"):
        Study(tmp_path / "params.yaml", third)
