"""params.yaml is checked whole: every mistake is one sentence with its key, the value and the way out."""

import itertools
import math
from fractions import Fraction

import pytest
from pydantic import ValidationError
from settings import ROOT, TREE, changed, load, refusal

from annulus.config import SECTION_OF, AllParams
from annulus.config.bounds import BinaryNCEParams
from annulus.config.checks import check_memory
from annulus.config.file import load_params
from annulus.config.methods import IRParams, MoCoParams
from annulus.config.negatives import (
    AdaptiveEpochAnneal,
    AdaptiveStepAnneal,
    BallParams,
    CaveParams,
    RingParams,
    UniformParams,
)
from annulus.config.params import keys_of, nearest
from annulus.config.study import StudyParams
from annulus.config.training import PretrainScale
from annulus.errors import InputError
from annulus.estimators import params as estimators
from annulus.ranks import rank_limits


@pytest.mark.parametrize("selector", [name for name in SECTION_OF if name != "scale"])
def test_every_choice_of_every_selector_is_valid_at_every_scale(selector):
    for choice, scale in itertools.product(TREE[SECTION_OF[selector]], ("tiny", "demo", "paper")):
        params = AllParams.model_validate(changed({selector: choice, "scale": scale}))
        section = params.get(f"{SECTION_OF[selector]}.${{{selector}}}")
        assert type(section).__name__.endswith(("Params", "Anneal", "Schedule"))


@pytest.mark.parametrize("scale", ["tiny", "demo", "paper"])
def test_the_choices_that_depend_on_each_other_are_valid_together(scale):
    names = ("dataset", "sampler", "anneal", "schedule")
    for choices in itertools.product(*(TREE[SECTION_OF[name]] for name in names)):
        AllParams.model_validate(TREE | dict(zip(names, choices, strict=True)) | {"scale": scale})


@pytest.mark.parametrize("scale", ["tiny", "demo", "paper"])
def test_every_method_takes_every_sampler_bound_and_kind_of_neighbour_that_the_bound_can_use(scale):
    names = ("method", "bound", "sampler", "neighbours")
    refused = set()
    for choices in itertools.product(*(TREE[SECTION_OF[name]] for name in names)):
        try:
            AllParams.model_validate(TREE | dict(zip(names, choices, strict=True)) | {"scale": scale})
        except ValidationError:
            refused.add((choices[1], choices[3]))
    assert refused == set(itertools.product(("binary-nce", "mlcpc"), ("s", "k")))


def test_a_selector_knows_exactly_the_keys_of_its_section():
    params = load_params(ROOT / "params.yaml")
    for selector, section in SECTION_OF.items():
        assert params.choices(selector) == list(TREE[section])


def test_view_sets_and_backbones_of_one_s_own_can_be_added():
    params = load({"view_sets.my-views": TREE["view_sets"]["crop"], "views": "my-views"})
    assert params.get("view_sets.${views}").flip == 0.5
    params = load({"backbones.mine": TREE["backbones"]["alexnet"], "backbone": "mine"})
    assert params.get("backbones.${backbone}").architecture == "alexnet"


def test_whole_numbers_serve_as_fractions():
    assert load({"samplers.ball.outer": 1}).samplers.ball.outer == 1.0
    assert load({"bounds.infonce.eqco_alpha": 65_536}).bounds.infonce.eqco_alpha == 65_536.0


def test_get_fills_in_selectors_as_dvc_does():
    params = AllParams.model_validate(changed({"sampler": "cave", "scale": "paper"}))
    assert params.get("seed") == TREE["seed"]
    assert params.get("samplers.${sampler}") == CaveParams(**TREE["samplers"]["cave"])
    assert params.get("scales.${scale}.pretrain.epochs") == TREE["scales"]["paper"]["pretrain"]["epochs"]
    assert params.get("optimizer").momentum == 0.9
    assert params.get("view_sets.${views}.crop.scale_min") == 0.2


def test_get_finds_the_chosen_bound_with_a_hyphen():
    params = load({"bound": "binary-nce", "bounds.binary-nce.rate": 0.5})
    assert params.get("bounds.${bound}") == BinaryNCEParams(**TREE["bounds"]["binary-nce"] | {"rate": 0.5})


@pytest.mark.parametrize("anneal", ["adaptive-epoch", "adaptive-step"])
def test_get_finds_keys_with_a_hyphen(anneal):
    params = AllParams.model_validate(changed({"anneal": anneal}))
    section = params.get("anneals.${anneal}")
    kind = {"adaptive-epoch": AdaptiveEpochAnneal, "adaptive-step": AdaptiveStepAnneal}[anneal]
    assert type(section) is kind
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


@pytest.mark.parametrize(("selector", "section"), SECTION_OF.items())
def test_an_unknown_choice_is_refused_with_all_known_ones_and_the_nearest(selector, section):
    known = list(TREE[section])
    assert refusal({selector: "zzz"}) == f"{selector}: 'zzz' is none of {', '.join(known)}"
    longest = max(known, key=len)
    close = f"{longest}x"
    assert refusal({selector: close}) == (
        f"{selector}: {close!r} is none of {', '.join(known)}; did you mean {longest!r}?"
    )


# Of each kind of border those that mean something; that every number has two is tested below.
BORDERS = [
    ("seed", 0, -1, "greater than or equal to 0"),
    ("seed", 2**63 - 1, 2**63, "less than or equal to"),
    ("datasets.shapes.view_size", 8, 7, "greater than or equal to 8"),
    ("datasets.shapes.image_size", 1024, 1025, "less than or equal to 1024"),
    ("datasets.shapes.validation_fraction", 0.5, 0.51, "less than or equal to 0.5"),
    ("view_sets.standard.crop.scale_max", 1, 1.01, "less than or equal to 1"),
    ("view_sets.standard.flip", 1, 1.01, "less than or equal to 1"),
    ("view_sets.standard.jitter.hue", 0.5, 0.51, "less than or equal to 0.5"),
    ("view_sets.standard.jitter.contrast", 0, -0.01, "greater than or equal to 0"),
    ("view_sets.strong.blur.sigma_max", 1000, 1e300, "less than or equal to 1000"),
    ("samplers.ball.outer", 1e-6, 0, "greater than 0"),
    ("samplers.ring.outer", 1, 1.01, "less than or equal to 1"),
    ("samplers.ring.inner", 0, -0.01, "greater than or equal to 0"),
    ("samplers.cave.clusters", 2, 1, "greater than or equal to 2"),
    ("anneals.linear.until", 1, 1.01, "less than or equal to 1"),
    ("anneals.adaptive-epoch.delta", 1e-6, 0, "greater than 0"),
    ("neighbour_sets.s.share", 0.999, 1, "less than 1"),
    ("neighbour_sets.k.start", 1, 1.01, "less than or equal to 1"),
    ("methods.ir.bank_rate", 0.999, 1, "less than 1"),
    ("methods.moco.momentum", 0.999, 1, "less than 1"),
    ("methods.simclr.warmup", 0.999, 1, "less than 1"),
    ("methods.ir.temperature", 0.001, 1e-9, "greater than or equal to 0.001"),
    ("methods.ir.embedding_dim", 2**16, 10**30, "less than or equal to"),
    ("bounds.infonce.eqco_alpha", 1e9, 1e300, "less than or equal to"),
    ("bounds.binary-nce.rate", 0.999, 1, "less than 1"),
    ("optimizer.momentum", 0.999, 1, "less than 1"),
    ("schedules.milestones.factor", 0.999, 1, "less than 1"),
    ("linear.momentum", 0.999, 1, "less than 1"),
    ("scales.paper.prepare.train_images", 10**9, 10**12, "less than or equal to"),
    ("scales.paper.pretrain.batch_size", 2, 1, "greater than or equal to 2"),
]


def test_ranges_hold_their_border_and_nothing_beyond():
    # At paper scale nothing is known of the memory, so that only the value itself can be at fault.
    paper = {"scale": "paper", "sampler": "uniform"}
    for key, allowed, beyond, expected in BORDERS:
        AllParams.model_validate(changed(paper | {key: allowed}))
        first = refusal(paper | {key: beyond}).splitlines()[0]
        assert first.startswith(f"{key}: {beyond} refused; input should be {expected}")


@pytest.mark.parametrize(
    "model",
    [
        *(AllParams, StudyParams, estimators.GaussiansParams, estimators.IdealParams, estimators.BinaryParams),
        *(estimators.StaircaseParams, estimators.ConditionalParams, estimators.TheoremsParams),
    ],
)
def test_every_number_has_a_lowest_and_a_highest_value(model):
    """Beyond them a number overflows, or no machine holds what it asks for: neither may reach a computation."""
    unlimited = [key for key, schema in numbers(model) if not limited(schema)]
    # A validator with a sentence of its own refuses these (tests/test_study_estimators.py).
    own = {"pairs", "candidates", "alpha", "alphas", "rho", "percents"}
    assert {key.rpartition(".")[2] for key in unlimited} <= own


def numbers(model):
    """The key and JSON schema of each number of a model, of lists and sections too."""
    schema = model.model_json_schema()

    def walk(node, key):
        if "$ref" in node:
            yield from walk(schema["$defs"][node["$ref"].rpartition("/")[2]], key)
        if node.get("type") in ("integer", "number"):
            yield key, node
        for branch in node.get("anyOf", []):
            yield from walk(branch, key)
        for inner in (node.get("items"), node.get("additionalProperties")):
            if isinstance(inner, dict):
                yield from walk(inner, key)
        for name, inner in node.get("properties", {}).items():
            yield from walk(inner, f"{key}.{name}")

    found = list(walk(schema, model.__name__))
    assert found
    return found


def limited(schema):
    return bool({"minimum", "exclusiveMinimum"} & schema.keys()) and bool(
        {"maximum", "exclusiveMaximum"} & schema.keys()
    )


@pytest.mark.parametrize("beyond", [0, 1])
def test_milestones_lie_within_training(beyond):
    assert refusal({"schedules.milestones.at": [beyond]}).startswith(f"schedules.milestones.at.0: {beyond} ref")


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
        (
            {"neighbour_sets.s.start": 0.6},
            "neighbour_sets.s: needs start <= until, got start=0.6, until=0.5",
        ),
        ({"schedules.milestones.at": [0.8, 0.6]}, "schedules.milestones: milestones must rise, got [0.8, 0.6]"),
        ({"schedules.milestones.at": [0.6, 0.6]}, "schedules.milestones: milestones must rise, got [0.6, 0.6]"),
        ({"linear.patience": 10}, "linear: patience 10 and drops 0 go together; give both, or patience: null"),
        ({"linear.drops": 2}, "linear: patience None and drops 2 go together; give both, or patience: null"),
    ],
)
def test_values_in_the_wrong_order_are_refused_with_both(changes, message):
    assert refusal(changes).startswith(message)


def test_equal_borders_are_in_order():
    load(
        {
            "view_sets.crop.crop.scale_min": 1.0,
            "view_sets.crop.crop.ratio_min": 1.3333,
            "view_sets.strong.blur.sigma_min": 2.0,
            "neighbour_sets.s.start": 0.5,
            "schedules.milestones.at": [],
            "linear.patience": 10,
            "linear.drops": 2,
        }
    )


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"schedule": "plateau"}, "schedule: plateau"),
        ({"anneal": "adaptive-epoch"}, "anneal: adaptive-epoch"),
        ({"linear.patience": 3, "linear.drops": 2}, "linear.drops: 2"),
    ],
)
def test_what_decides_by_validation_needs_a_validation_part(changes, key):
    assert refusal(changes | {"datasets.shapes.validation_fraction": 0.0}) == (
        f"{key} decides by validation accuracy, but datasets.shapes.validation_fraction is 0; give it 0.1, say"
    )
    load(changes | {"datasets.folder.validation_fraction": 0.0})  # not the selected set


@pytest.mark.parametrize(
    ("schedule", "anneal"), [("cosine", "adaptive-step"), ("milestones", "linear"), ("constant", "none")]
)
def test_what_does_not_look_at_validation_runs_without_it(schedule, anneal):
    load({"datasets.shapes.validation_fraction": 0.0, "schedule": schedule, "anneal": anneal})


@pytest.mark.parametrize("neighbours", ["s", "k"])
@pytest.mark.parametrize("bound", ["binary-nce", "mlcpc"])
def test_several_positives_are_refused_where_the_bound_knows_one(bound, neighbours):
    assert refusal({"bound": bound, "neighbours": neighbours}) == (
        f"neighbours: {neighbours} gives a query several positives, and bound: {bound} knows one; "
        "take bound: infonce, la or cpc, or neighbours: none"
    )


TINY = {"scale": "tiny", "sampler": "uniform"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [  # 10 % of the images are held out
        (
            {"scales.tiny.prepare.train_images": 8},
            "scales.tiny.pretrain.batch_size: 64 is more than the 7 training images; "
            "take a smaller batch or more images",
        ),
        (
            {"method": "moco", "scales.tiny.pretrain.queue": 63},
            "scales.tiny.pretrain.queue: 63 is shorter than the batch of 64, whose keys it must hold; "
            "take a longer queue or a smaller batch",
        ),
        (
            {"method": "moco", "sampler": "ball", "samplers.ball.outer": 0.00391},
            "negatives of ranks [0, 0.00391) hold none of the memory's 255 other rows; "
            "widen the sampler or take a larger memory",
        ),
        (
            {"method": "simclr", "sampler": "ball", "samplers.ball.outer": 0.0079},
            "negatives of ranks [0, 0.0079) hold none of the memory's 126 other rows; "
            "widen the sampler or take a larger memory",
        ),
        (
            {"method": "simo", "sampler": "ring", "samplers.ring.outer": 0.015, "samplers.ring.inner": 0.0},
            "negatives of ranks [0, 0.015) hold none of the memory's 63 other rows; "
            "widen the sampler or take a larger memory",
        ),
        (
            {"sampler": "ring", "samplers.ring.inner": 0.0985},
            "negatives of ranks [0.0985, 0.1) hold none of the memory's 359 other rows; "
            "widen the sampler or take a larger memory",
        ),
        (
            {"sampler": "ball", "samplers.ball.outer": 0.0027},
            "negatives of ranks [0, 0.0027) hold none of the memory's 359 other rows; "
            "widen the sampler or take a larger memory",
        ),
        (
            {"sampler": "cave", "samplers.cave.outer": 0.0027},
            "negatives of ranks [0, 0.0027) hold none of the memory's 359 other rows; "
            "widen the sampler or take a larger memory",
        ),
    ],
)
def test_what_the_memory_cannot_serve_is_refused_with_the_numbers(changes, message):
    assert refusal(TINY | changes) == message


@pytest.mark.parametrize(
    "changes",
    [
        {"scales.tiny.prepare.train_images": 9},  # 8 images
        {"scales.tiny.pretrain.negatives": 10_000},  # drawn with replacement
        {"method": "moco", "sampler": "ball", "samplers.ball.outer": 0.00393},  # 1.002 of 255 places
        {"method": "moco", "scales.tiny.pretrain.queue": 64},
        {"method": "moco", "scales.tiny.pretrain.queue": 320},
        {"scales.tiny.pretrain.queue": 10_000},  # not used
        {"neighbours": "k", "neighbour_sets.k.clusters": 10_000},
        {"sampler": "cave", "samplers.cave.clusters": 10_000},
        {"sampler": "ball", "samplers.ball.outer": 0.0028},  # 1.005 rows
        {"samplers.ball.outer": 0.0001},  # not selected
        {"sampler": "ball", "samplers.ball.outer": 0.0001, "scales.tiny.prepare.train_images": None},  # not known yet
    ],
)
def test_what_the_memory_can_just_serve_is_accepted(changes):
    load(TINY | changes)


def test_the_memory_is_checked_again_once_the_images_are_counted():
    pretrain = PretrainScale(epochs=1, batch_size=10, negatives=20, queue=20, learning_rate=0.1)
    ir, moco = IRParams(**TREE["methods"]["ir"]), MoCoParams(**TREE["methods"]["moco"])
    check_memory(8, ir, UniformParams(), pretrain)
    with pytest.raises(
        InputError, match=r"^scales\.SCALE\.pretrain\.batch_size: 10 is more than the 7 training images"
    ):
        check_memory(7, ir, UniformParams(), pretrain)
    with pytest.raises(InputError, match=r"\[0, 0\.01\) hold none of the memory's 20 other rows"):
        check_memory(21, ir, BallParams(outer=0.01), pretrain)
    with pytest.raises(InputError, match=r"\[0\.5, 0\.52\) hold none of the memory's 20 other rows"):
        check_memory(21, ir, RingParams(inner=0.5, outer=0.52), pretrain)
    check_memory(20, moco, UniformParams(), pretrain)
    check_memory(10, moco, UniformParams(), pretrain)  # a queue of two epochs


@pytest.mark.parametrize(("method", "others"), [("ir", 99), ("cmc", 99), ("moco", 40), ("simclr", 30), ("simo", 15)])
def test_each_method_s_memory_has_its_own_size(method, others):
    pretrain = PretrainScale(epochs=1, batch_size=16, negatives=1, queue=40, learning_rate=0.1)
    assert getattr(load({}).methods, method).negative_columns(100, pretrain) == others


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


def test_nearest_says_nothing_when_nothing_is_near():
    assert nearest("rign", ["ring", "ball"]) == "; did you mean 'ring'?"
    assert nearest("zzz", ["ring", "ball"]) == ""
    assert nearest("ring", []) == ""


def test_keys_of_a_section_are_those_of_the_file():
    params = load_params(ROOT / "params.yaml")
    assert keys_of(params.anneals) == list(TREE["anneals"])
    assert keys_of(params.view_sets) == list(TREE["view_sets"])
