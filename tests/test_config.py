"""params.yaml is checked whole: every mistake is one sentence with its key, the value and the way out."""

import copy
import itertools
import math
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from annulus.config import (
    SECTION_OF,
    AdaptiveEpochAnneal,
    AllParams,
    BallParams,
    CaveParams,
    PretrainScale,
    RingParams,
    UniformParams,
    check_memory,
    keys_of,
    nearest,
    rank_limits,
)
from annulus.errors import InputError
from annulus.params_file import load_params

ROOT = Path(__file__).resolve().parents[1]
TREE = yaml.safe_load((ROOT / "params.yaml").read_text())
MISSING = object()


def changed(changes):
    """params.yaml's tree with the values at some keys replaced, or taken out."""
    tree = copy.deepcopy(TREE)
    for key, value in changes.items():
        *sections, last = key.split(".")
        section = tree
        for name in sections:
            section = section[name]
        if value is MISSING:
            del section[last]
        else:
            section[last] = value
    return tree


@pytest.fixture
def load(tmp_path):
    """Write params.yaml with some values replaced, and load it."""

    def write_and_load(changes):
        path = tmp_path / "params.yaml"
        path.write_text(yaml.safe_dump(changed(changes), sort_keys=False))
        return load_params(path)

    return write_and_load


@pytest.fixture
def refusal(load):
    """What the user reads when some values are replaced: one line per fault, without the file's name."""

    def message(changes):
        with pytest.raises(InputError) as refused:
            load(changes)
        lines = str(refused.value).splitlines()
        assert all("params.yaml: " in line for line in lines)
        return "\n".join(line.split("params.yaml: ", 1)[1] for line in lines)

    return message


# --- what is valid ------------------------------------------------------------------------------------


def test_params_yaml_itself_is_valid():
    params = load_params(ROOT / "params.yaml")
    assert params.get("scale") == TREE["scale"]


@pytest.mark.parametrize("scale", ["tiny", "demo", "paper"])
@pytest.mark.parametrize("selector", [name for name in SECTION_OF if name != "scale"])
def test_every_choice_of_every_selector_is_valid_at_every_scale(selector, scale):
    for choice in TREE[SECTION_OF[selector]]:
        params = AllParams.model_validate(changed({selector: choice, "scale": scale}))
        section = params.get(f"{SECTION_OF[selector]}.${{{selector}}}")
        assert type(section).__name__.endswith(("Params", "Anneal", "Schedule"))


@pytest.mark.parametrize("scale", ["tiny", "demo", "paper"])
def test_the_choices_that_depend_on_each_other_are_valid_together(scale):
    names = ("dataset", "sampler", "anneal", "schedule")
    for choices in itertools.product(*(TREE[SECTION_OF[name]] for name in names)):
        AllParams.model_validate(TREE | dict(zip(names, choices, strict=True)) | {"scale": scale})


def test_a_selector_knows_exactly_the_keys_of_its_section():
    params = load_params(ROOT / "params.yaml")
    for selector, section in SECTION_OF.items():
        assert params.choices(selector) == list(TREE[section])


def test_view_sets_and_backbones_of_one_s_own_can_be_added(load):
    params = load({"view_sets.my-views": TREE["view_sets"]["crop"], "views": "my-views"})
    assert params.get("view_sets.${views}").flip == 0.5
    params = load({"backbones.mine": TREE["backbones"]["alexnet"], "backbone": "mine"})
    assert params.get("backbones.${backbone}").architecture == "alexnet"


def test_whole_numbers_serve_as_fractions_and_all_as_a_number_of_negatives(load):
    params = load({"samplers.ball.outer": 1, "scales.demo.pretrain.negatives": "all"})
    assert params.samplers.ball.outer == 1.0
    assert params.scales.demo.pretrain.negatives == "all"


# --- get ----------------------------------------------------------------------------------------------


def test_get_fills_in_selectors_as_dvc_does():
    params = AllParams.model_validate(changed({"sampler": "cave", "scale": "paper"}))
    assert params.get("seed") == TREE["seed"]
    assert params.get("samplers.${sampler}") == CaveParams(**TREE["samplers"]["cave"])
    assert params.get("scales.${scale}.pretrain.epochs") == TREE["scales"]["paper"]["pretrain"]["epochs"]
    assert params.get("optimizer").momentum == 0.9
    assert params.get("view_sets.${views}.crop.scale_min") == 0.2


@pytest.mark.parametrize("anneal", ["adaptive-epoch", "adaptive-step"])
def test_get_finds_keys_with_a_hyphen(anneal):
    params = AllParams.model_validate(changed({"anneal": anneal}))
    section = params.get("anneals.${anneal}")
    assert isinstance(section, AdaptiveEpochAnneal)
    assert section.model_dump() == TREE["anneals"][anneal]


def test_get_returns_every_value_of_the_file():
    params = load_params(ROOT / "params.yaml")

    def walk(prefix, section):
        for key, value in section.items():
            if isinstance(value, dict):
                walk(f"{prefix}{key}.", value)
            else:
                assert params.get(f"{prefix}{key}") == value, f"{prefix}{key}"

    walk("", TREE)


def test_params_are_frozen():
    params = load_params(ROOT / "params.yaml")
    with pytest.raises(ValidationError, match="frozen"):
        params.seed = 1
    with pytest.raises(ValidationError, match="frozen"):
        params.samplers.ring.outer = 0.5


# --- unknown and missing keys -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sampelr", "sampler"),
        ("samplers.rign", "ring"),
        ("samplers.ring.otter", "outer"),
        ("samplers.cave.interations", "iterations"),
        ("view_sets.standard.filp", "flip"),
        ("view_sets.standard.crop.scale_mim", "scale_min"),
        ("view_sets.strong.blur.sigma_mx", "sigma_max"),
        ("view_sets.standard.jitter.bright", "brightness"),
        ("backbones.resnet18.architectur", "architecture"),
        ("anneals.adaptive-epoc", "adaptive-epoch"),
        ("anneals.adaptive-epoch.windw", "window"),
        ("scales.dmo", "demo"),
        ("scales.demo.pretrian", "pretrain"),
        ("scales.demo.pretrain.epoch", "epochs"),
        ("datasets.cifar10.rot", "root"),
        ("linear.intputs", "inputs"),
    ],
)
def test_an_unknown_key_is_named_in_full_with_the_nearest_known_one(key, meant, refusal):
    assert refusal({key: 1}).startswith(f"{key}: unknown key; did you mean {meant!r}? (known: ")


def test_the_known_keys_of_the_place_are_listed(refusal):
    assert refusal({"samplers.ring.xyz": 1}) == "samplers.ring.xyz: unknown key (known: outer, inner)"
    assert refusal({"view_sets.none.xyz": 1}) == (
        "view_sets.none.xyz: unknown key (known: crop, flip, jitter, grayscale, blur)"
    )
    assert refusal({"anneals.xyz": {}}) == (
        "anneals.xyz: unknown key (known: none, linear, step, adaptive-epoch, adaptive-step)"
    )


@pytest.mark.parametrize(
    "key", ["seed", "sampler", "samplers", "samplers.cave.keep", "view_sets.crop.blur", "anneals.adaptive-step"]
)
def test_a_missing_key_is_named_in_full(key, refusal):
    assert refusal({key: MISSING}) == f"{key}: missing; every value is written in params.yaml"


def test_every_fault_gets_its_line(refusal):
    message = refusal({"samplers.ring.outer": 2.0, "seed": -1, "sampelr": "ring"})
    assert len(message.splitlines()) == 3


# --- choices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("selector", "section"), SECTION_OF.items())
def test_an_unknown_choice_is_refused_with_all_known_ones_and_the_nearest(selector, section, refusal):
    known = list(TREE[section])
    assert refusal({selector: "zzz"}) == f"{selector}: 'zzz' is none of {', '.join(known)}"
    longest = max(known, key=len)
    close = f"{longest}x"
    assert refusal({selector: close}) == (
        f"{selector}: {close!r} is none of {', '.join(known)}; did you mean {longest!r}?"
    )


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("backbones.resnet18.architecture", "'resnet18', 'resnet34', 'resnet50' or 'alexnet'"),
        ("backbones.resnet18.stem", "'imagenet' or 'cifar'"),
        ("samplers.cave.keep", "'outside' or 'inside'"),
        ("methods.ir.head", "'linear' or 'mlp'"),
        ("knn.layer", "'pooled' or 'embedding'"),
        ("linear.inputs", "'features' or 'views'"),
        ("linear.layer", "'pooled' or 'map'"),
    ],
)
def test_a_value_outside_a_fixed_choice_is_refused_with_the_choice(key, known, refusal):
    assert refusal({key: "zzz"}) == f"{key}: 'zzz' refused; input should be {known}"


# --- ranges -------------------------------------------------------------------------------------------

AT_LEAST = {  # the least value that is allowed, and one below it
    "seed": (0, -1),
    "datasets.shapes.view_size": (8, 7),
    "datasets.folder.max_bad_files": (0, -1),
    "datasets.shapes.validation_fraction": (0, -0.01),
    "view_sets.standard.flip": (0, -0.01),
    "view_sets.standard.grayscale": (0, -0.01),
    "view_sets.standard.jitter.probability": (0, -0.01),
    "view_sets.standard.jitter.brightness": (0, -0.01),
    "view_sets.standard.jitter.contrast": (0, -0.01),
    "view_sets.standard.jitter.saturation": (0, -0.01),
    "view_sets.standard.jitter.hue": (0, -0.01),
    "view_sets.strong.blur.probability": (0, -0.01),
    "samplers.ring.inner": (0, -0.01),
    "samplers.cave.clusters": (2, 1),
    "samplers.cave.runs": (1, 0),
    "samplers.cave.iterations": (1, 0),
    "anneals.step.steps": (1, 0),
    "anneals.adaptive-epoch.window": (1, 0),
    "anneals.adaptive-step.window": (1, 0),
    "methods.ir.bank_rate": (0, -0.01),
    "methods.ir.embedding_dim": (1, 0),
    "optimizer.momentum": (0, -0.01),
    "optimizer.weight_decay": (0, -1e-4),
    "optimizer.warmup": (0, -0.01),
    "schedules.plateau.patience": (1, 0),
    "schedules.plateau.drops": (1, 0),
    "knn.k": (1, 0),
    "linear.momentum": (0, -0.01),
    "linear.weight_decay": (0, -0.01),
    "linear.drops": (0, -1),
    "scales.demo.prepare.train_images": (1, 0),
    "scales.demo.prepare.test_images": (1, 0),
    "scales.paper.pretrain.epochs": (1, 0),
    "scales.paper.pretrain.batch_size": (2, 1),
    "scales.paper.pretrain.negatives": (1, 0),
    "scales.paper.linear.epochs": (1, 0),
    "scales.paper.linear.batch_size": (1, 0),
}
ABOVE_ZERO = [
    "view_sets.standard.crop.scale_min",
    "view_sets.standard.crop.ratio_min",
    "view_sets.strong.blur.sigma_min",
    "samplers.ball.outer",
    "samplers.cave.outer",
    "anneals.linear.until",
    "anneals.step.until",
    "anneals.adaptive-epoch.delta",
    "anneals.adaptive-step.delta",
    "methods.ir.temperature",
    "schedules.milestones.factor",
    "schedules.plateau.factor",
    "knn.temperature",
    "scales.paper.pretrain.learning_rate",
    "scales.paper.linear.learning_rate",
]
AT_MOST = {
    "datasets.shapes.image_size": (1024, 1025),
    "datasets.shapes.validation_fraction": (0.5, 0.51),
    "view_sets.standard.crop.scale_max": (1, 1.01),
    "view_sets.standard.flip": (1, 1.01),
    "view_sets.standard.grayscale": (1, 1.01),
    "view_sets.standard.jitter.probability": (1, 1.01),
    "view_sets.standard.jitter.hue": (0.5, 0.51),
    "view_sets.strong.blur.probability": (1, 1.01),
    "samplers.ball.outer": (1, 1.01),
    "samplers.ring.outer": (1, 1.01),
    "samplers.cave.outer": (1, 1.01),
    "anneals.linear.until": (1, 1.01),
    "anneals.step.until": (1, 1.01),
    "anneals.adaptive-epoch.delta": (1, 1.01),
    "anneals.adaptive-step.delta": (1, 1.01),
}
BELOW_ONE = [
    "methods.ir.bank_rate",
    "optimizer.momentum",
    "optimizer.warmup",
    "schedules.milestones.factor",
    "schedules.plateau.factor",
    "linear.momentum",
]


@pytest.mark.parametrize(
    ("key", "allowed", "beyond", "expected"),
    [(key, *values, "greater than or equal to") for key, values in AT_LEAST.items()]
    + [(key, 1e-6, 0, "greater than 0") for key in ABOVE_ZERO]
    + [(key, *values, "less than or equal to") for key, values in AT_MOST.items()]
    + [(key, 0.999, 1, "less than 1") for key in BELOW_ONE],
)
def test_ranges_hold_their_border_and_nothing_beyond(key, allowed, beyond, expected, refusal):
    # At paper scale nothing is known of the memory, so that only the value itself can be at fault.
    AllParams.model_validate(changed({"scale": "paper", "sampler": "uniform", key: allowed}))
    first = refusal({"scale": "paper", "sampler": "uniform", key: beyond}).splitlines()[0]
    assert first.startswith(f"{key}: {beyond} refused; input should be {expected}")


@pytest.mark.parametrize("beyond", [0, 1])
def test_milestones_lie_within_training(beyond, refusal):
    assert refusal({"schedules.milestones.at": [beyond]}).startswith(f"schedules.milestones.at.0: {beyond} ref")


# --- orders -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"datasets.shapes.view_size": 40},
            "datasets.shapes: view_size 40 is larger than image_size 32; store larger images or take smaller",
        ),
        (
            {"view_sets.crop.crop.scale_min": 0.9, "view_sets.crop.crop.scale_max": 0.5},
            "view_sets.crop.crop: needs scale_min <= scale_max, got 0.9 and 0.5",
        ),
        (
            {"view_sets.crop.crop.ratio_min": 2.0},
            "view_sets.crop.crop: needs ratio_min <= ratio_max, got 2.0 and 1.3333",
        ),
        (
            {"view_sets.strong.blur.sigma_min": 3.0},
            "view_sets.strong.blur: needs sigma_min <= sigma_max, got 3.0 and 2.0",
        ),
        (
            {"samplers.ring.inner": 0.5},
            "samplers.ring: ring needs inner < outer, got inner=0.5, outer=0.1",
        ),
        (
            {"samplers.ring.inner": 0.1},
            "samplers.ring: ring needs inner < outer, got inner=0.1, outer=0.1",
        ),
        ({"schedules.milestones.at": [0.8, 0.6]}, "schedules.milestones: milestones must rise, got [0.8, 0.6]"),
        ({"schedules.milestones.at": [0.6, 0.6]}, "schedules.milestones: milestones must rise, got [0.6, 0.6]"),
        ({"linear.patience": 10}, "linear: patience 10 and drops 0 go together; give both, or patience: null"),
        ({"linear.drops": 2}, "linear: patience None and drops 2 go together; give both, or patience: null"),
    ],
)
def test_values_in_the_wrong_order_are_refused_with_both(changes, message, refusal):
    assert refusal(changes).startswith(message)


def test_equal_borders_are_in_order(load):
    load(
        {
            "view_sets.crop.crop.scale_min": 1.0,
            "view_sets.crop.crop.ratio_min": 1.3333,
            "view_sets.strong.blur.sigma_min": 2.0,
            "schedules.milestones.at": [],
            "linear.patience": 10,
            "linear.drops": 2,
        }
    )


# --- combinations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"schedule": "plateau"}, "schedule: plateau"),
        ({"anneal": "adaptive-epoch"}, "anneal: adaptive-epoch"),
        ({"linear.patience": 3, "linear.drops": 2}, "linear.drops: 2"),
    ],
)
def test_what_decides_by_validation_needs_a_validation_part(changes, key, load, refusal):
    assert refusal(changes | {"datasets.shapes.validation_fraction": 0.0}) == (
        f"{key} decides by validation accuracy, but datasets.shapes.validation_fraction is 0; give it 0.1, say"
    )
    load(changes | {"datasets.folder.validation_fraction": 0.0})  # not the selected set


@pytest.mark.parametrize(
    ("schedule", "anneal"), [("cosine", "adaptive-step"), ("milestones", "linear"), ("constant", "none")]
)
def test_what_does_not_look_at_validation_runs_without_it(schedule, anneal, load):
    load({"datasets.shapes.validation_fraction": 0.0, "schedule": schedule, "anneal": anneal})


TINY = {"scale": "tiny", "sampler": "uniform"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [  # 10 % of the images are held out
        (
            {"scales.tiny.prepare.train_images": 70},
            "scales.tiny.pretrain.batch_size: 64 is more than the 63 training images; "
            "take a smaller batch or more images",
        ),
        (
            {"scales.tiny.pretrain.negatives": 360},
            "scales.tiny.pretrain.negatives: 360 is more than the memory's 359 other rows; "
            "take fewer, `all`, or more images",
        ),
        (
            {"sampler": "cave", "samplers.cave.clusters": 361},
            "samplers.cave.clusters: 361 is more than the memory's 360 rows; take fewer clusters or more images",
        ),
        (
            {"sampler": "ring", "samplers.ring.inner": 0.0985},
            "negatives of ranks [0.0985, 0.1) hold none of the memory's 359 other rows; "
            "widen the sampler or take more images",
        ),
        (
            {"sampler": "ball", "samplers.ball.outer": 0.0027},
            "negatives of ranks [0, 0.0027) hold none of the memory's 359 other rows; "
            "widen the sampler or take more images",
        ),
        (
            {"sampler": "cave", "samplers.cave.outer": 0.0027},
            "negatives of ranks [0, 0.0027) hold none of the memory's 359 other rows; "
            "widen the sampler or take more images",
        ),
    ],
)
def test_what_the_memory_cannot_serve_is_refused_with_the_numbers(changes, message, refusal):
    assert refusal(TINY | changes) == message


@pytest.mark.parametrize(
    "changes",
    [
        {"scales.tiny.prepare.train_images": 71, "scales.tiny.pretrain.negatives": 63},  # 64 images, a batch of 64
        {"scales.tiny.pretrain.negatives": 359},
        {"scales.tiny.pretrain.negatives": "all"},
        {"sampler": "cave", "samplers.cave.clusters": 360},
        {"sampler": "ball", "samplers.ball.outer": 0.0028},  # 1.005 rows
        {"samplers.ball.outer": 0.0001},  # not selected
        {"scales.demo.pretrain.negatives": 10_000},  # not selected
        {"scales.tiny.prepare.train_images": None, "scales.tiny.pretrain.negatives": 10_000},  # not known yet
    ],
)
def test_what_the_memory_can_just_serve_is_accepted(changes, load):
    load(TINY | changes)


def test_the_memory_is_checked_again_once_the_images_are_counted():
    pretrain = PretrainScale(epochs=1, batch_size=10, negatives=20, learning_rate=0.1)
    check_memory(21, pretrain, UniformParams())
    with pytest.raises(InputError, match=r"negatives: 20 is more than the memory's 19 other rows"):
        check_memory(20, pretrain, UniformParams())
    with pytest.raises(InputError, match=r"\[0, 0\.01\) hold none of the memory's 20 other rows"):
        check_memory(21, pretrain, BallParams(outer=0.01))
    with pytest.raises(InputError, match=r"\[0\.5, 0\.52\) hold none of the memory's 20 other rows"):
        check_memory(21, pretrain, RingParams(inner=0.5, outer=0.52))


# --- ranks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [99, 100, 359, 1000, 49_999, 1_281_166])
def test_rank_limits_are_the_floor_of_the_exact_decimal_share(others):
    """0.29 of 100 is 29 rows, though 0.29 * 100 is 28.999... in floating point."""
    for percent in range(1, 100):
        exact = math.floor(Fraction(percent, 100) * others)
        if exact > 0:
            assert rank_limits(0.0, percent / 100, others) == (0, exact)
        assert rank_limits(percent / 100, 1.0, others) == (exact, others)


def test_a_share_between_two_ranks_is_rounded_down():
    assert rank_limits(0.0, 0.0299, 100) == (0, 2)
    assert rank_limits(0.0199, 0.03, 100) == (1, 3)
    assert rank_limits(0.0, 0.019999, 100) == (0, 1)


@pytest.mark.parametrize(("inner", "outer"), [(0.0, 0.0099), (0.011, 0.019), (0.5, 0.5)])
def test_ranks_that_hold_no_row_are_refused_with_the_numbers(inner, outer):
    with pytest.raises(InputError, match="hold none of the memory's 100 other rows; widen the sampler or take"):
        rank_limits(inner, outer, 100)


# --- types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["optimizer.weight_decay", "methods.ir.temperature", "anneals.linear.until"])
def test_a_number_without_a_point_is_text_to_yaml_and_the_way_out_is_said(key, tmp_path):
    path = tmp_path / "params.yaml"
    text = yaml.safe_dump(changed({key: "HERE"})).replace("HERE", "1e-4")
    path.write_text(text)
    with pytest.raises(InputError, match=rf"{key}: '1e-4' is text to YAML; write a number, such as 1\.0e-4"):
        load_params(path)
    path.write_text(text.replace("1e-4", "1.0e-4"))
    load_params(path)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seed", "0", "input should be a valid integer"),
        ("seed", 0.5, "input should be a valid integer"),
        ("seed", 1.0, "input should be a valid integer"),
        ("seed", True, "input should be a valid integer"),
        ("seed", None, "input should be a valid integer"),
        ("sampler", 3, "input should be a valid string"),
        ("sampler", None, "input should be a valid string"),
        ("samplers.ball.outer", True, "input should be a valid number"),
        ("samplers.ball.outer", None, "input should be a valid number"),
        ("samplers.ball.outer", math.nan, "input should be a finite number"),
        ("optimizer.weight_decay", math.inf, "input should be a finite number"),
        ("datasets.folder.root", 3, "input should be a valid string"),
        ("schedules.milestones.at", 0.5, "input should be a valid list"),
        ("scales.demo.pretrain.epochs", 2.5, "input should be a valid integer"),
        ("view_sets.standard.flip", "yes", None),
    ],
)
def test_a_value_of_another_type_is_refused_not_converted(key, value, expected, refusal):
    message = refusal({key: value})
    if expected is None:
        assert message == f"{key}: {value!r} is text to YAML; write a number, such as 1.0e-4"
    else:
        assert message == f"{key}: {value!r} refused; {expected}"


@pytest.mark.parametrize("value", ["most", 2.5, True, None])
def test_a_number_of_negatives_is_a_count_or_all(value, refusal):
    first, second = refusal({"scales.demo.pretrain.negatives": value}).splitlines()
    assert first == f"scales.demo.pretrain.negatives: {value!r} refused; input should be a valid integer"
    assert second == f"scales.demo.pretrain.negatives: {value!r} refused; input should be 'all'"


@pytest.mark.parametrize("key", ["samplers", "samplers.ring", "scales.demo.pretrain", "view_sets.standard.crop"])
@pytest.mark.parametrize("value", [3, [1], "text"])
def test_a_value_where_a_section_belongs_is_refused(key, value, refusal):
    assert refusal({key: value}).startswith(f"{key}: {value!r} refused; input should be a valid dictionary")


# --- the file -----------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.yaml: No such file or directory"):
        load_params(tmp_path / "nowhere.yaml")


def test_a_folder_in_its_place_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        load_params(tmp_path)


@pytest.mark.parametrize("text", ["seed: [", "seed: 0\n\tscale: demo", "a: b: c"])
def test_a_file_that_is_not_yaml_is_refused_with_the_place(text, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"params\.yaml is not YAML: .*line \d, column \d+") as refused:
        load_params(path)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_bytes(b"\xff\xfe\x00s")
    with pytest.raises(InputError, match=r"params\.yaml is not text in UTF-8 \(.*byte 0xff.*\); save it as such"):
        load_params(path)


@pytest.mark.parametrize(("text", "held"), [("", "NoneType"), ("# a comment", "NoneType"), ("- seed", "list")])
def test_a_file_without_keys_is_refused(text, held, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"params\.yaml holds {held}, expected keys and values"):
        load_params(path)


def test_a_key_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(TREE | {1: 2}))
    with pytest.raises(InputError, match="keys should be strings"):
        load_params(path)


# --- small parts --------------------------------------------------------------------------------------


def test_nearest_says_nothing_when_nothing_is_near():
    assert nearest("rign", ["ring", "ball"]) == "; did you mean 'ring'?"
    assert nearest("zzz", ["ring", "ball"]) == ""
    assert nearest("ring", []) == ""


def test_keys_of_a_section_are_those_of_the_file():
    params = load_params(ROOT / "params.yaml")
    assert keys_of(params.anneals) == list(TREE["anneals"])
    assert keys_of(params.view_sets) == list(TREE["view_sets"])
