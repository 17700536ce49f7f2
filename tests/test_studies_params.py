"""A fault in a study's params.yaml is one sentence that names the key, the value and the way out."""

import copy
import re
from pathlib import Path

import pytest
from by_path import ROOT, read_yaml, script, settings_script
from stated import MISSING, TREE

from annulus.errors import InputError
from annulus_lab.studies.shared import study as studies

ALGORITHMS = Path("stages/algorithms/params.yaml")
CONTENT = {path.parent.name: read_yaml(path) for path in ROOT.glob("stages/*/params.yaml")}

ENCODERS = ("transfer", "cifar10_transfer")
CAVES = copy.deepcopy(CONTENT["distillation"]["contrast"]["samplers"])
CAVES["cave"]["clusters"] = 3001


def load_settings(study: str) -> tuple:
    """The function `main` of a study's settings script, and the class of study that it reads."""
    path = settings_script(study)
    (kind,) = re.findall(r"write_settings\(main, (\w+), READERS\)", (ROOT / path).read_text())
    return script(path).main, getattr(studies, kind)


SHARED = {study for study, content in CONTENT.items() if content.get("of", study) != study}
MAINS = {study: load_settings(study) for study in CONTENT}


@pytest.fixture
def refusal(monkeypatch):
    """Function that returns the error about a study with another value, or none, at a key with slashes."""

    def refuse(study: str, key: str, value: object) -> str:
        content, (main, kind), own = copy.deepcopy(CONTENT[study]), MAINS[study], Path(f"stages/{study}/params.yaml")
        *sections, last = key.split("/")
        place = content
        for part in sections:
            place = place[part]
        if value is MISSING:
            del place[last]
        else:
            place[last] = value
        others = {Path(f"stages/{name}/params.yaml"): CONTENT[name] for name in ("algorithms", *ENCODERS)}
        files = {path.resolve(): each for path, each in (others | {Path("params.yaml"): TREE, own: content}).items()}
        monkeypatch.setattr(studies, "read_tree", lambda path: copy.deepcopy(files[path.resolve()]))
        with pytest.raises(InputError) as error:
            main(kind(own) if kind is studies.OwnStudy else kind(Path("params.yaml"), own))
        (text,) = str(error.value).splitlines()
        return text.removeprefix(f"{own}: ")

    return refuse


@pytest.mark.parametrize("study", sorted(CONTENT.keys() - SHARED))
def test_every_section_of_a_study_is_asked_for_and_no_null_or_text_or_near_miss_of_one_is_taken(refusal, study):
    for key in CONTENT[study].keys() - {"closeness_views", "held_out_pairs", "oracle"}:
        assert refusal(study, key, MISSING).startswith(f"{key}: missing; ")
        assert refusal(study, key, None).startswith(f"{key}: None refused; ")
        if not isinstance(CONTENT[study][key], str):
            assert refusal(study, key, "text").startswith(f"{key}: 'text' refused; ")
        near = f"q{key}"
        assert refusal(study, near, 1).startswith(f"{near}: unknown key; did you mean {key!r}? (known: ")


IR = "tables/mutualinfo.table1/methods/IR"


@pytest.mark.parametrize(
    ("study", "key", "value", "sentence"),
    [
        ("cifar10_later", "oracle", "orcale", "oracle: no 'orcale'; did you mean 'oracle'?"),
        ("algorithms", f"{IR}/top1_precent", 64.3, "methods.IR.top1_precent: unknown key; did you mean 'top1_percent'"),
        ("algorithms", f"{IR}/top1_percent", "64,3", "methods.IR.top1_percent: '64,3' is text to YAML; write a number"),
        ("algorithms", f"{IR}/row", MISSING, "methods.IR.row: missing; it has no default: write a value"),
        ("algorithms", "tables/ring.table6/methods", None, "tables.ring.table6.methods: None refused; expected keys"),
        ("algorithms", "pairs/MoCo", "untrained", "pairs.MoCo: 'untrained' refused; expected a list in brackets"),
        ("algorithms", "pairs/MoCo", ["untraind"], "pairs.MoCo: no 'untraind'; did you mean 'untrained'?"),
        ("algorithms", "rows/IR-nce", None, "rows.IR-nce: None refused; expected keys and values, or {} for none"),
        ("cifar10", "rows", ["MoCo", "MoCo"], "rows: 'MoCo' stands twice; delete one of them"),
        (
            "negatives",
            "parts/critic/series",
            None,
            "parts.critic.series: None refused; expected keys and values, or {}",
        ),
        ("negatives", "parts/count/sweep/values", None, "parts.count.sweep.values: None refused; expected a list"),
        ("negatives", "parts/count/sweep/values", [4, 4], "parts.count.sweep.values: 4 stands twice; delete one"),
        ("spirals", "spirals/noise", [0.0, 0.4, 0.4], "spirals.noise: 0.4 stands twice; delete one of them"),
        ("estimators", "gaussians/pairs", [16, 16], "gaussians.pairs: 16 stands twice; delete one of them"),
        ("negatives", "parts/count/sweep/value", [4], "parts.count.sweep.value: unknown key; did you mean 'values'?"),
        (
            "negatives",
            "parts/count/scales/papper",
            {},
            "parts.count.scales: 'papper' is not a scale; did you mean 'paper'",
        ),
        (
            "negatives",
            "parts/count/base",
            {"value": 5},
            "parts.count.base: {'value': 5} is not a point of this part; exp",
        ),
        (
            "negatives",
            "parts/count/base",
            {"series": "IR", "value": 5},
            "'value': 5} is not a point of this part; expected",
        ),
        (
            "negatives",
            "parts/count/base",
            {},
            "parts.count.base: {} is not a point of this part; expected one of its ser",
        ),
        (
            "negatives",
            "parts/count/sweep/values",
            [{}],
            "values: {} is not a value of a setting; expected numbers",
        ),
        ("negatives", "estimates/counts", ["4"], "estimates.counts.0: '4' refused; input should be a valid integer"),
        ("colour", "sets/labelled/demo", MISSING, "sets.labelled.demo: missing; the study's scale has no value here"),
        ("colour", "spaces/dmeo", ["rgb"], "spaces: 'dmeo' is none of tiny, demo, paper; did you mean 'demo'?"),
        ("colour", "pictures/demo/rows", "2", "pictures.demo.rows: '2' refused; input should be a valid integer"),
        ("distance", "sets/large/demo", "text", "sets.large.demo: 'text' refused; expected keys and values, or"),
        (
            "distance",
            "sets/second/demo",
            {"dataset": "shapes"},
            "sets: first and second are both shapes; take two data sets",
        ),
        (
            "distance",
            "pairs/demo/offsets",
            [5, None],
            "pairs.demo.offsets.1: None refused; input should be a valid int",
        ),
        ("detection", "tasks", -7, "tasks: -7 refused; expected keys and values, or {} for none"),
        ("detection", "scenes/roots/voc", MISSING, "scenes.roots: lacks 'voc', a task; give its folder, or null"),
        (
            "detection",
            "configurations/mask-rcnn-fpn/detectr",
            {},
            "mask-rcnn-fpn.detectr: unknown key; did you mean 'd",
        ),
        (
            "detection",
            "configurations/fine-tuned-eqco/training/learning_rat",
            1.0,
            "learning_rat: unknown key; did you",
        ),
        ("detection", "encoders", [], "encoders: [] refused; list should have at least 1 item"),
        ("detection", "scales/demo/configurations/mask-rcnn-c5", {}, "configurations: no 'mask-rcnn-c5'; did you mean"),
        (
            "moving_digits",
            "world/train_grounds",
            9,
            "train_grounds: 9 backgrounds of 10 classes, .* take at least 10",
        ),
        (
            "distillation",
            "rows/kd",
            {"contrast": {"sampler": "cave", "samplers": CAVES}},
            "contrast.samplers.cave.clusters: 3001 for kd are more than the 3000 training images .*; take fewer",
        ),
        ("distillation", "teachers", None, "teachers: None refused; expected a list in brackets"),
        ("distillation", "teachers", ["resnet14", "../../x"], "no network is named '../../x'"),
        ("distillation", "shown", ["kd", "cdr"], "shown: losses has no 'cdr'; did you mean 'crd'?"),
        ("distillation", "comparisons/crdd", ["kd"], "comparisons.crdd: rows has no 'crdd'; did you mean 'crd"),
        ("distillation", "comparisons/crd", ["kdd"], "comparisons.crd: rows has no 'kdd'; did you mean 'kd'?"),
        ("distillation", "rows/cpc-05/contrast/alpha", -1.0, "rows.cpc-05.contrast: alpha: -1.0 refused; input should"),
        ("transfer", "targets", ["digits", "digits"], "targets: 'digits' stands twice; delete one of them"),
        ("spirals", "search/settings/one turn/turn", 1.0, "search.settings.one turn: turn: unknown key; did you mean"),
        (
            "view_learning",
            "pairs/supervised-rgbb",
            [],
            "pairs.supervised-rgbb: no 'supervised-rgbb'; did you mean 'sup",
        ),
        ("view_learning", "held_out_pairs", 1501, "1501 is more than the 1500 test images of scale demo; take fewer"),
        ("view_learning", "learning/all/batch_size", 1, "batch_size: 1 refused; .* greater than or equal to 2"),
        (
            "view_learning",
            "rates/demo/equal/generator_rate",
            None,
            "rates.demo.equal.generator_rate: None refused; inp",
        ),
        (
            "view_learning",
            "generators/random-rgb/rates",
            ["equal"],
            "random-rgb.rates: ['equal'] is none of printed, la",
        ),
        (
            "estimators",
            "staircases/joint/outputs",
            MISSING,
            "staircases.joint.outputs: missing; .* a value, or null",
        ),
    ],
)
def test_a_fault_within_a_study_is_named_with_its_key_its_value_and_the_way_out(refusal, study, key, value, sentence):
    pattern = re.escape(sentence).replace(r"\.\*", ".*")
    assert re.search(pattern, refusal(study, key, value))


NAMES = [
    "../../x",
    "/x",
    "a/b",
    "..",
    ".",
    "",
    ".x",
    "a\nb",
    "a\0b",
    "x" * 81,
    "a\\b",
    "a:b",
    "a$b",
    'a"b',
    "`a`",
    "a ",
    " a",
]
SECTIONS = {"algorithms": "rows", "negatives": "parts", "frequency": "parts", "detection": "tasks"}
SECTIONS |= {"distillation": "rows", "estimators": "staircases", "view_learning": "generators"}


@pytest.mark.parametrize(("study", "section"), SECTIONS.items())
def test_a_name_that_becomes_a_file_is_a_word_which_leaves_no_folder_and_no_shell_takes_apart(refusal, study, section):
    content = CONTENT[study][section]
    known = next(iter(content.values()))
    for name in NAMES:
        message = refusal(study, section, content | {name: known})
        assert message.startswith(f"{section}.")
        assert " is not a name; take letters, digits, " in message
    for name in (7, None):
        message = refusal(study, section, content | {name: known})
        assert message == f"{section}.{name}: {name} is not text to YAML; write a name in quotes"
