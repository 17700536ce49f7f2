"""Building a run from params.yaml: its parts, and its errors and warnings in one sentence each."""

import itertools
import logging
import math
from dataclasses import replace

import pytest
import torch
from method_cases import assert_equal_states
from settings import read, run, stripes
from stated import TREE

from annulus.bounds.alpha import CPC, MLCPC, mlcpc_lower_alpha
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.infonce import InfoNCE
from annulus.bounds.la import LocalAggregation
from annulus.bounds.supcon import SupCon
from annulus.device.rng import Drawing
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.errors import InputError
from annulus.methods.contrast_config import ContrastConfig
from annulus.negatives.annealing import StepAnnealing
from annulus.negatives.neighbours import CloseNeighbours, ClusterNeighbours
from annulus.negatives.samplers import Ball, Cave, Ring, Uniform
from annulus.training.setup import encoder_config
from annulus.views.splits import ColourSplit, FrequencySplit, channel_statistics

# Class of each method, and the negatives of a query with `negatives: all`.
METHODS = {
    "ir": ("IR", 69),
    "pirl": ("PIRL", 69),
    "moco": ("MoCo", 32),
    "moco-jigsaw": ("MoCoJigsaw", 32),
    "simclr": ("SimCLR", 30),
    "simo": ("SiMo", 15),
}
INFONCE, UNIFORM, RING = InfoNCE(), Uniform(), Ring(inner=0.015, outer=0.5)


def last_estimate(changes, steps=1):
    """Estimate of the last of `steps` training steps."""
    training, estimates = run(changes), []
    training.method.start(training._embed)
    training.method.before_epoch(0, training._embed)
    loss, order = training.method.train().loss, training.order()
    training.method.loss = lambda *arguments: estimates.append(loss(*arguments)) or estimates[-1]
    for _ in range(steps):
        training.step(order)
    return estimates[-1].estimate


# --- parts of a run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_a_step_with_its_parameters_negatives_and_neighbours(method):
    name, others = METHODS[method]
    training = run({"method": method, f"methods.{method}.temperature": 0.123})
    assert (type(training.method).__name__, training.method.params.temperature) == (name, 0.123)
    assert type(training.method.encoder) is Encoder
    assert type(run({"method": method, "split": "lab"}).method.encoder) is SplitEncoder
    for bound, sampler, negatives, k in (
        ("infonce", "uniform", "all", others),
        ("mlcpc", "ball", "sampled", 12),
        ("binary-nce", "cave", "sampled", 12),
    ):
        choices = {"method": method, "bound": bound, "sampler": sampler, f"methods.{method}.negatives": negatives}
        estimate = last_estimate(choices | {"bounds.mlcpc.alpha_start": 1.0, "anneal": "none"})
        assert estimate.ceiling_nats.item() == pytest.approx(math.log(1 + k), rel=1e-4)
        assert estimate.bound_nats <= estimate.ceiling_nats + 1e-6
    early = {"neighbour_sets.s.start": 0.0, "neighbour_sets.s.until": 0.0, "neighbour_sets.k.start": 0.0}
    choices = {"method": method, "sampler": "uniform", f"methods.{method}.negatives": "all"} | early
    # After three batches of 16, all 32 places of moco's queue hold keys of images, which have clusters.
    la, clustered, alone = (
        last_estimate(choices | {"bound": bound, "neighbours": neighbours}, steps=3)
        for bound, neighbours in (("la", "s"), ("infonce", "k"), ("infonce", "none"))
    )
    assert la.loss.isfinite()
    assert max(la.ceiling_nats, clustered.ceiling_nats) < alone.ceiling_nats, "more positives leave less to tell apart"


def test_all_chosen_sections_arrive_where_they_belong():
    choices = {"sampler": "cave", "neighbours": "s", "bound": "cpc", "bounds.cpc.alpha": 1.5, "views": "crop"}
    choices |= {"seed": 7, "anneal": "step", "schedule": "milestones", "optimizer.momentum": 0.8}
    training, params = run(choices), read(choices)
    config, settings = training.method.contrasts[0].config, training.settings
    cave = Cave(outer=0.5, keep="outside", clusters=20, iterations=3, runs=2)
    close = CloseNeighbours(share=0.1, start=0.05, until=0.5, in_denominator=False)
    assert config == ContrastConfig(cave, close, CPC(alpha=1.5), 12)
    assert settings == params
    assert settings.sampler == config.sampler
    assert training.annealing == StepAnnealing(until=0.5, steps=5)
    assert training.schedule.policy == settings.schedule
    assert settings.seed == training.method.contrasts[0].seed == 7
    assert training.optimizer.param_groups[0]["momentum"] == 0.8
    assert len(run({"method": "moco"}).method.queues[0].keys) == 32


@pytest.mark.parametrize(("method", "memory"), [("ir", "banks.0.rows"), ("moco", "queues.0.keys")])
def test_the_seed_decides_weights_memory_order_and_views(method, memory):
    first, again, other = (run({"method": method, "seed": seed}) for seed in (0, 0, 1))
    assert_equal_states(first.method, again.method)
    for name in ("encoder.backbone.0.weight", memory):
        assert not torch.equal(first.method.state_dict()[name], other.method.state_dict()[name])
    assert not torch.equal(first.view_generator.get_state(), other.view_generator.get_state())
    assert not torch.equal(first.order(), other.order())


def test_a_critic_and_a_jigsaw_s_head_learn_beside_the_encoder():
    training = run({"method": "pirl", "methods.pirl.critic": "mlp-1", "methods.pirl.warmup": 0.0})
    before = {name: weight.clone() for name, weight in training.method.named_parameters()}
    training.method.train()
    training.step(training.order())
    assert {name.split(".")[0] for name in before} == {"encoder", "critics", "jigsaw"}
    assert [name for name, weight in training.method.named_parameters() if torch.equal(weight, before[name])] == []


@pytest.mark.parametrize("method", METHODS)
def test_no_two_parts_or_seeds_of_a_training_draw_the_same_numbers(method):
    states, weights = [], []
    for seed in (0, 1):
        training = run({"method": method, "split": "lab", "methods.pirl.critic": "mlp-1", "seed": seed})
        drawing = [module for module in training.method.modules() if isinstance(module, Drawing)]
        states += [training.view_generator.get_state(), *(module.generator.get_state() for module in drawing)]
        if method in ("pirl", "moco-jigsaw"):
            weights += [head.each.weight for head in training.method.jigsaw.heads]
        if method == "pirl":
            weights += [critic.of_query.weight for critic in training.method.critics]
    assert len(states) >= 2 * 3
    for numbers in (states, weights):
        assert not any(one.equal(other) for one, other in itertools.combinations(numbers, 2))


def test_a_queue_finds_every_key_of_an_image_where_an_epoch_leaves_images_out():
    """An epoch has 64 of 70 images. A queue of 66 can hold keys of three epochs: an end, a whole one, a start."""
    queue = run({"method": "moco", "scales.tiny.pretrain.queue": 66}).method.queues[0]
    epoch = torch.arange(64).flip(0)  # image 0 is the last
    for images in (epoch, epoch, torch.tensor([0])):
        queue.push(torch.eye(8)[images % 8], images)
    assert queue.own(torch.tensor([0])).tolist() == [[62, 61, 63]]


@pytest.mark.parametrize(
    ("method", "split", "expected"),
    [("ir", "none", None), ("simo", "lab", ColourSplit("lab")), ("moco", "frequency", FrequencySplit(1.0))],
)
def test_the_encoder_sees_colours_or_a_split_s_parts_normalised_by_the_training_images(method, split, expected):
    images = stripes(20, 0)
    config = encoder_config(read({"method": method, "split": split, f"methods.{method}.embedding_dim": 24}), images)
    assert (config.architecture, config.stem, config.head) == ("alexnet", "imagenet", TREE["methods"][method]["head"])
    assert (config.embedding_dim, config.view_size, config.split) == (24, 16, expected)
    whole = expected is None
    statistics = images.channel_statistics() if whole else channel_statistics(images.images, expected)
    assert (config.mean, config.std) == statistics


def test_the_views_of_a_colour_split_keep_their_colour(caplog):
    """arXiv:2005.13149, Appendix C.1: CMC omits greyscale, since its colour network would see nothing; jitter stays."""
    choice = {"views": "standard", "view_sets.standard.grayscale": 1.0}
    with caplog.at_level(logging.INFO, logger="annulus"):
        views = run(choice | {"split": "lab"}).settings.views
    assert caplog.messages == [
        "a split of colours leaves out the views' greyscale (probability 1): a grey view has none"
    ]
    assert views == replace(read(choice).views, grayscale=0.0)
    assert run(choice | {"split": "frequency"}).settings.views.grayscale == 1.0


@pytest.mark.parametrize(
    ("changes", "images", "message"),
    [
        ({}, 7, "batch_size: 16 is more than the 7 training images; take a smaller batch or more images$"),
        (
            {"method": "moco", "sampler": "ball", "samplers.ball.outer": 0.03},
            70,
            r"ranks \[0, 0\.03\) hold none of the memory's 31 other rows; widen the sampler or take a larger memory$",
        ),
    ],
)
def test_what_the_images_cannot_serve_is_refused(changes, images, message):
    with pytest.raises(InputError, match=message):
        run(changes, images=images)


# --- warnings -----------------------------------------------------------------------------------------

CLOSE = CloseNeighbours(share=0.1, start=0.05, until=0.5, in_denominator=True)
CLUSTERED = ClusterNeighbours(clusters=8, iterations=1, runs=1, start=0.05, in_denominator=True)


def contrast_warnings(bound=INFONCE, neighbours=None, sampler=UNIFORM, negatives=8):
    """Warnings of these choices for 100 columns of the memory and 16 queries."""
    return ContrastConfig(sampler, neighbours, bound, negatives).warnings_for(100, 16)


def mlcpc(start, end, eqco_alpha=None):
    return MLCPC(alpha_start=start, alpha_end=end, divide_by_alpha=False, eqco_alpha=eqco_alpha)


def test_what_a_choice_loses_is_said_in_a_sentence_each():
    """cpc loses log(1/alpha). Its ceiling is log(m/alpha): with 8 negatives and alpha 0.25, log 36.

    mlcpc: m = 9, n = 16, alpha_{m,n} = 9/129; alpha 0.01 loses log 6.977. A margin of 26: (1 + 26)/(1 + 8) = 3.
    cpc with alpha 3 and a margin of 96: beta = 6/8, so alpha is 9/(1 + 6/8 * 96/3) = 0.36.
    """
    chance = "by chance, and made the paper's runs worse (Wu et al. 2020, arXiv:2005.13149, table 1, s-neigh wit"
    cpc = "alpha {}, below 1, is not a lower bound: it may exceed the information by up to log(1/alpha) = {} nats"
    joint = "for n = 16 queries of m = 9 candidates it may exceed the information by up to"
    margin = "more than the 8 negatives: the estimate may exceed the information by up to log((1 + eqco_alpha)/(1 + K))"
    far = (
        "the ring leaves out the closest 1.50%, where most neighbours are; take the sampler ball, or the bound infonce"
    )
    for choices, sentences in (
        (
            {"neighbours": replace(CLOSE, start=0.0, until=0.0)},
            ["let the neighbours' start be 0.05, say, and until 0.5"],
        ),
        ({"neighbours": replace(CLUSTERED, start=0.0)}, ["let the neighbours' start be 0.05, say"]),
        ({"neighbours": replace(CLUSTERED, start=0.0), "bound": CPC(0.25)}, [chance, cpc.format(0.25, 1.39)]),
        ({"bound": CPC(alpha=0.25)}, ["and its ceiling is 3.58 nats, not log m = 2.2"]),
        ({"bound": CPC(alpha=3.0, eqco_alpha=96.0)}, [cpc.format(0.36, 1.02)]),
        ({"bound": mlcpc(2.0, 0.01)}, ["mlcpc with alpha 0.01 is not a lower bound: below m/(n(m-1)+1) = 0.06977"]),
        ({"bound": mlcpc(0.02, 0.01)}, [joint + " 1.25 nats", joint + " 1.94 nats"]),
        ({"bound": mlcpc(1.0, 1.0, eqco_alpha=1000.0)}, [joint + " 2.05 nats"]),
        ({"bound": InfoNCE(eqco_alpha=26.0)}, [margin + " = 1.1 nats"]),
        ({"bound": LocalAggregation(), "neighbours": CLOSE, "sampler": RING}, [far]),
        ({"bound": LocalAggregation()}, ["is InfoNCE; add neighbours, such as the rows of the same clusters"]),
        ({"bound": SupCon(mean="inside")}, ["is InfoNCE; add neighbours, such as the rows of the class"]),
        ({"negatives": 101}, ["101 negatives of a query are drawn, with replacement, from a memory of 100 other rows"]),
        ({"bound": InfoNCE(eqco_alpha=101.0), "negatives": "all"}, ["more than the 100 negatives"]),
        (
            {"bound": InfoNCE(eqco_alpha=41.0), "negatives": "all", "sampler": Ring(inner=0.1, outer=0.5)},
            ["than the 40 negatives"],
        ),
    ):
        warnings = contrast_warnings(**choices)
        assert len(warnings) == len(sentences)
        assert all(part in sentence for part, sentence in zip(sentences, warnings, strict=True)), warnings


@pytest.mark.parametrize(
    "choices",
    [
        {"neighbours": replace(CLOSE, start=0.0)},  # none at the first step, and a few soon after
        {"neighbours": CLUSTERED, "sampler": RING},
        {"bound": InfoNCE(eqco_alpha=40.0), "negatives": "all", "sampler": Ring(inner=0.1, outer=0.5)},
        {"bound": CPC(alpha=1.0, eqco_alpha=8.0)},
        {"bound": mlcpc(2.0, 9 / 129)},
        {"bound": mlcpc(1.0, 1.0, eqco_alpha=26.0)},
        # Annealing starts from more negatives, for which alpha 12 may be valid; with 8 negatives m is 9.
        {"bound": CPC(alpha=12.0, eqco_alpha=64.0)},
        {"bound": mlcpc(12.0, 1.0, eqco_alpha=8.0)},
        {"bound": BinaryNCE(normaliser="constant", constant=2.25, rate=0.9)},
        {"bound": LocalAggregation(), "neighbours": replace(CLOSE, in_denominator=False)},
        {"negatives": 100},
        {"bound": LocalAggregation(), "sampler": Ball(0.5), "neighbours": CLOSE},
    ],
)
def test_of_what_loses_nothing_nothing_is_said(choices):
    assert contrast_warnings(**choices) == []


def logged_warnings(changes, caplog):
    """Builds a run and returns the warnings that it logs."""
    caplog.clear()
    run(changes | {"methods.simo.batch_norm": "shuffle"})
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_building_a_run_warns_of_what_its_choices_lose_once_and_of_params_yaml_s_nothing(caplog):
    [warning] = logged_warnings({"neighbours": "s"}, caplog)
    assert warning.startswith("WARNING: in_denominator False of the neighbours is the papers' formula, whose")
    assert [logged_warnings({"method": method}, caplog) for method in METHODS] == [[]] * len(METHODS)
    [warning] = logged_warnings(
        {"datasets.shapes.view_size": 96, "datasets.shapes.image_size": 96, "backbone": "convnet"}, caplog
    )
    sentence = "backbone convnet is for images of some twenty pixels, and here they have 96; take resnet18"
    assert warning == f"WARNING: {sentence}"


@pytest.mark.parametrize(("method", "negatives", "queries"), [("moco", 32, 16), ("simclr", 30, 32), ("simo", 15, 16)])
def test_mlcpc_counts_the_queries_and_candidates_of_the_method(method, negatives, queries, caplog):
    """Both views of an image are queries in SimCLR."""
    lowest, choice = (
        mlcpc_lower_alpha(negatives + 1, queries),
        {"method": method, "bound": "mlcpc", "sampler": "uniform"},
    )
    assert logged_warnings(choice | {"bounds.mlcpc.alpha_end": lowest * 1.001}, caplog) == []
    [warning] = logged_warnings(choice | {"bounds.mlcpc.alpha_end": lowest * 0.999}, caplog)
    assert f"for n = {queries} queries of m = {negatives + 1} candidates" in warning
