"""params.yaml is checked whole: every mistake is one sentence with its key, the value and the way out."""

import itertools
import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
from pydantic import TypeAdapter, ValidationError
from settings import changed, load, refusal
from stated import TREE

from annulus.bounds import BOUNDS
from annulus.bounds.binary_nce import BinaryNCE
from annulus.errors import InputError, nearest
from annulus.methods.ir import IRSettings
from annulus.methods.moco import MoCoSettings
from annulus.negatives.annealing import AdaptiveStepAnnealing
from annulus.negatives.ranks import rank_limits
from annulus.negatives.samplers import Cave, Uniform
from annulus.training.budget import Budget
from annulus.training.limits import check_memory
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.studies.estimators import estimators_params as estimators
from annulus_lab.studies.shared.study import StudyParams

ESTIMATORS = [getattr(estimators, f"{name}Params") for name in ("Gaussians", "Ideal", "Binary", "Staircase")]
ESTIMATORS += [estimators.ConditionalParams, estimators.TheoremsParams]


def test_every_choice_of_every_selector_is_valid_at_every_scale():
    for selector, section in SELECTOR_SECTIONS.items():
        for choice, scale in itertools.product(TREE[section], ("tiny", "demo", "paper")):
            # Views of 96 pixels can be cut into patches of any backbone.
            params = AllParams.model_validate(TREE | {"dataset": "stl10", "scale": scale, selector: choice})
            assert params.get(f"{section}.${{{selector}}}") == params.get(f"{section}.{choice}")


def test_choices_go_together_but_for_several_positives_where_the_bound_knows_one():
    selectors = ("dataset", "sampler", "anneal", "schedule", "method", "bound", "neighbours")
    choices = [{(selector, choice) for choice in TREE[SELECTOR_SECTIONS[selector]]} for selector in selectors]
    alone = [name for name, bound in BOUNDS.items() if bound.neighbours == "refused"]
    assert {"binary-nce", "mlcpc"} <= set(alone)
    several = set(TREE["neighbour_sets"]) - {"none", "nearest"}
    refused = {
        frozenset({("bound", bound), ("neighbours", one)}): "gives a query several positives"
        for bound, one in itertools.product(alone, several)
    }
    for first, second, message in (
        (("bound", ["supcon"]), ("neighbours", ["s", "k"]), "has every positive in its denominator"),
        (("bound", ["hcl"]), ("anneal", ["temperature"]), "has a constant of one temperature"),
        (("bound", ["sigmoid"]), ("anneal", ["temperature"]), "sigmoid learns its own scale"),
        (("bound", ["simple"]), ("anneal", ["temperature"]), "has no softmax"),
        (("bound", ["hcl"]), ("sampler", ["other-class"]), "draws none"),
        (("sampler", ["mochi"]), ("method", ["simclr", "simo"]), "mixes rows of a memory"),
        (("neighbours", ["nearest"]), ("method", ["moco", "moco-jigsaw", "simclr", "simo"]), "take the place of the"),
        (("neighbours", ["nearest"]), ("bound", ["la"]), "NearestRow replaces the positive"),
    ):
        for one, other in itertools.product(first[1], second[1]):
            refused[frozenset({(first[0], one), (second[0], other)})] = message
    for pair, message in refused.items():
        with pytest.raises(ValidationError, match=message):
            AllParams.model_validate(TREE | dict(pair) | {"scale": "tiny"})
    refused = set(refused)
    remaining = {
        frozenset(pair) for two in itertools.combinations(choices, 2) for pair in itertools.product(*two)
    } - refused
    while remaining:  # one file tests a pair of choices of each two selectors
        taken = set(min(remaining, key=sorted))
        for own in choices:
            if not own & taken:
                known = {one: {frozenset({one, other}) for other in taken} for one in sorted(own)}
                taken.add(
                    max((one for one in known if not known[one] & refused), key=lambda one: len(known[one] & remaining))
                )
        AllParams.model_validate(TREE | dict(taken) | {"scale": "tiny"})
        remaining -= {frozenset(pair) for pair in itertools.combinations(taken, 2)}
    assert refusal({"bound": "mlcpc", "neighbours": "k"}) == (
        "neighbours: k gives a query several positives, and bound: mlcpc knows one; "
        "take bound: infonce, la or cpc, or neighbours: none"
    )


def test_view_sets_and_backbones_of_one_s_own_can_be_added():
    own = {"view_sets.mine": TREE["view_sets"]["crop"], "backbones.mine": TREE["backbones"]["alexnet"]}
    params = load(own | {"views": "mine", "backbone": "mine"})
    assert params.get("view_sets.${views}").flip == 0.5
    assert params.get("backbones.${backbone}").architecture == "alexnet"


def test_get_fills_in_selectors_as_dvc_does():
    choices = {"sampler": "cave", "scale": "paper", "anneal": "adaptive-step", "bound": "binary-nce"}
    params = load(choices | {"bounds.binary-nce.rate": 0.5, "samplers.ball.outer": 1})
    assert params.get("samplers.${sampler}") == Cave(**TREE["samplers"]["cave"])
    assert params.get("anneals.${anneal}") == AdaptiveStepAnnealing(**TREE["anneals"]["adaptive-step"])
    assert params.get("bounds.${bound}") == BinaryNCE(**TREE["bounds"]["binary-nce"] | {"rate": 0.5})
    assert params.get("scales.${scale}.pretrain.epochs") == TREE["scales"]["paper"]["pretrain"]["epochs"]
    assert params.get("view_sets.${views}.crop.scale_min") == 0.5
    assert params.samplers.ball.outer == 1.0, "a whole number serves as a fraction"
    with pytest.raises(FrozenInstanceError):
        params.samplers.ring.outer = 0.5


def test_an_unknown_choice_is_refused_with_all_known_ones_and_the_nearest():
    for selector, section in SELECTOR_SECTIONS.items():
        choices = load({}).choices(selector)
        assert sorted(choices) == sorted(TREE[section])
        known, longest = ", ".join(choices), max(choices, key=len)
        assert refusal({selector: "zzz"}) == f"{selector}: 'zzz' is none of {known}"
        assert refusal({selector: f"{longest}x"}).endswith(f" is none of {known}; did you mean {longest!r}?")
    several = refusal({"sampler": "rings", "views": "gentel"}).splitlines()
    assert [line.partition(" is none of ")[0] for line in several] == ["sampler: 'rings'", "views: 'gentel'"]
    assert nearest("ring", []) == ""


def test_ranges_hold_their_border_and_nothing_beyond():
    """A sample of borders of each kind; the test below covers the limits of every number."""
    # At paper scale the memory is unknown, so that only the value itself can be at fault.
    paper = {"scale": "paper", "sampler": "uniform"}
    for key, allowed, beyond, expected in (
        ("methods.ir.embedding_dim", 2**16, 2**16 + 1, "less than or equal to"),
        ("datasets.shapes.validation_fraction", 0.5, 0.51, "less than or equal to"),
        ("datasets.shapes.view_size", 8, 7, "greater than or equal to 8"),
        ("samplers.ball.outer", 1e-6, 0, "greater than 0"),
        ("samplers.ring.inner", 0, -0.01, "greater than or equal to 0"),
        ("methods.moco.momentum", 0.999, 1, "less than 1"),
        ("scales.paper.pretrain.batch_size", 2, 1, "greater than or equal to 2"),
    ):
        AllParams.model_validate(changed(paper | {key: allowed}))
        assert refusal(paper | {key: beyond}).startswith(f"{key}: {beyond} refused; input should be {expected}")


def test_every_number_has_a_lowest_and_a_highest_value():
    """Beyond its limits a number overflows or exceeds any machine; neither may reach a computation."""
    schemas = [each for model in (AllParams, StudyParams, *ESTIMATORS) for each in numbers(model)]
    low, high = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
    unlimited = {name for name, schema in schemas if not (low & schema.keys() and high & schema.keys())}
    # Validators with their own sentences refuse these (tests/test_study_estimators.py).
    assert unlimited <= {"pairs", "candidates", "alpha", "alphas", "rho", "percents"}


def numbers(model):
    """Yields the name and JSON schema of each number of a model, also in lists and sections."""
    schema = TypeAdapter(model).json_schema()

    def walk(node, name):
        if "$ref" in node:
            yield from walk(schema["$defs"][node["$ref"].rpartition("/")[2]], name)
        if node.get("type") in ("integer", "number"):
            yield name, node
        for inner in (*node.get("anyOf", []), node.get("items"), node.get("additionalProperties")):
            yield from walk(inner, name) if isinstance(inner, dict) else ()
        for name, inner in node.get("properties", {}).items():
            yield from walk(inner, name)

    pairs = list(walk(schema, ""))
    assert pairs
    return pairs


CROP, BLUR = "view_sets.crop.crop", "view_sets.strong.blur"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"datasets.shapes.view_size": 40}, "datasets.shapes: view_size 40 is larger than image_size 20; store larger"),
        ({f"{CROP}.scale_min": 0.9, f"{CROP}.scale_max": 0.5}, f"{CROP}: needs scale_min <= scale_max, got 0.9 and"),
        ({f"{BLUR}.sigma_min": 3.0}, f"{BLUR}: needs sigma_min <= sigma_max, got 3.0 and 2.0"),
        ({"samplers.ring.inner": 0.1}, "samplers.ring: ring needs inner < outer, got inner=0.1, outer=0.1"),
        ({"neighbour_sets.s.start": 0.6}, "neighbour_sets.s: needs start <= until, got start=0.6, until=0.5"),
        ({"schedules.milestones.at": [0.8, 0.6]}, "schedules.milestones: milestones must rise, got [0.8, 0.6]"),
        ({"schedules.milestones.at": [0.6, 0.6]}, "schedules.milestones: milestones must rise, got [0.6, 0.6]"),
        ({"schedules.milestones.at": [0]}, "schedules.milestones.at.0: 0 refused"),
        ({"backbones.vit-small.stem": "cifar"}, "backbones.vit-small: vit_small has no stem cifar: vit_small takes"),
        ({"backbones.convnet.stem": "patch4"}, "backbones.convnet: convnet has no stem patch4: vit_small takes patch1"),
        ({"backbone": "vit-small"}, "datasets.shapes.view_size: 20 cannot be cut into the patches of 16 pixels of"),
        (
            {"linear.patience": 10},
            "linear: patience 10 and drops 0 go together; give both, or patience null and drops 0",
        ),
    ],
)
def test_values_that_do_not_fit_together_are_refused_with_both(changes, message):
    assert refusal(changes).startswith(message)


def test_what_decides_by_validation_and_nothing_else_needs_a_validation_part():
    for changes, key in (
        ({"schedule": "plateau"}, "schedule: plateau"),
        ({"anneal": "adaptive-epoch"}, "anneal: adaptive-epoch"),
        ({"linear.patience": 3, "linear.drops": 2}, "linear.drops: 2"),
    ):
        assert refusal(changes | {"datasets.shapes.validation_fraction": 0.0}) == (
            f"{key} decides by validation accuracy, but datasets.shapes.validation_fraction is 0; give it 0.1, say"
        )
        load(changes | {"datasets.folder.validation_fraction": 0.0})  # not the selected set
    load({"datasets.shapes.validation_fraction": 0.0, "schedule": "cosine", "anneal": "adaptive-step"})


TINY = {"scale": "tiny", "sampler": "uniform"}
IMAGES, QUEUE = "scales.tiny.prepare.train_images", "scales.tiny.pretrain.queue"


def ranks(limits, others):
    return f"negatives of ranks {limits} hold none of the memory's {others} other rows; widen the sampler or take a"


def groups(count):
    key = "scales.tiny.pretrain.batch_size"
    return (
        f"methods.METHOD.shuffle_groups: {count} does not divide {key}: 64 into equal groups; take a number that does"
    )


def test_what_the_memory_cannot_serve_is_refused_with_the_numbers_and_what_it_can_just_serve_is_accepted():
    for changes, message in (  # 10 % of the images are held out
        ({IMAGES: 8}, "scales.tiny.pretrain.batch_size: 64 is more than the 7 training images; take a smaller batch"),
        ({"method": "moco", QUEUE: 63}, f"{QUEUE}: 63 is shorter than the batch of 64, whose keys it must hold; take"),
        ({"method": "moco", "sampler": "ball", "samplers.ball.outer": 0.00391}, ranks("[0, 0.00391)", 255)),
        ({"method": "simo", "sampler": "ball", "samplers.ball.outer": 0.015}, ranks("[0, 0.015)", 63)),
        ({"sampler": "ring", "samplers.ring.inner": 0.0985}, ranks("[0.0985, 0.1)", 359)),
        ({"method": "moco", "methods.moco.shuffle_groups": 3, IMAGES: None}, groups(3)),
        ({"method": "moco", "methods.moco.shuffle_groups": 128}, groups(128)),
        ({"method": "simo", "methods.simo.batch_norm": "shuffle", "methods.simo.shuffle_groups": 5}, groups(5)),
    ):
        assert refusal(TINY | changes).startswith(message)
    for changes in (
        {IMAGES: 9},  # 8 images
        {"scales.tiny.pretrain.negatives": 10_000},  # drawn with replacement
        {"method": "moco", "sampler": "ball", "samplers.ball.outer": 0.00393},  # 1.002 of 255 places
        {"method": "moco", QUEUE: 64},  # as long as a batch
        {QUEUE: 63},  # ir keeps none
        {"method": "moco", "methods.moco.shuffle_groups": 64},
        {"method": "simo", "methods.simo.batch_norm": "sync", "methods.simo.shuffle_groups": 5},
        {"methods.moco.shuffle_groups": 3},  # of another method
        {"neighbours": "k", "neighbour_sets.k.clusters": 10_000},
        {"sampler": "ball", "samplers.ball.outer": 0.0028},  # 1.005 rows
        {"sampler": "ball", "samplers.ball.outer": 0.0001, IMAGES: None},  # not known yet
    ):
        load(TINY | changes)


def test_the_memory_is_checked_again_once_the_images_are_counted():
    pretrain = Budget(epochs=1, batch_size=10, negatives=20, queue=20, learning_rate=0.1, validation_images=None)
    ir, moco = IRSettings(**TREE["methods"]["ir"]), MoCoSettings(**TREE["methods"]["moco"])
    check_memory(8, ir, Uniform(), pretrain)
    check_memory(10, moco, Uniform(), pretrain)  # a queue of two epochs
    with pytest.raises(InputError, match=r"^scales\.SCALE\.pretrain\.batch_size: 10 is more than the 7 training im"):
        check_memory(7, ir, Uniform(), pretrain)


def test_rank_limits_are_the_floor_of_the_exact_decimal_share():
    """0.29 of 100 is 29 rows, though 0.29 * 100 is 28.999... in floating point."""
    for others, percent in itertools.product((99, 100, 359, 49_999, 1_281_166), range(1, 100)):
        exact = math.floor(Fraction(percent, 100) * others)
        if exact > 0:
            assert rank_limits(0.0, percent / 100, others) == (0, exact)
        assert rank_limits(percent / 100, 1.0, others) == (exact, others)
    assert rank_limits(0.0199, 0.03, 100) == (1, 3), "between two ranks it is rounded down"
