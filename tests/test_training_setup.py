"""From params.yaml to a run: what is built, what is refused, and what is warned of, in one sentence each."""

import logging
import math

import pytest
import torch
from settings import CPU, TREE, read, run, stripes

from annulus.bounds.alpha import CPC, MLCPC, mlcpc_lower_alpha
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.infonce import InfoNCE
from annulus.bounds.la import LocalAggregation
from annulus.bounds.partition import PartitionFunction
from annulus.config.training import PretrainScale
from annulus.encoders.batchnorm import synchronised
from annulus.encoders.encoder import Encoder, LabEncoder
from annulus.encoders.lab import lab_statistics
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.methods.cmc import ContrastiveMultiviewCoding
from annulus.methods.contrast import ContrastConfig
from annulus.methods.ir import InstanceDiscrimination
from annulus.methods.moco import MomentumContrast
from annulus.methods.simclr import SimCLR
from annulus.methods.simo import SiMo
from annulus.negatives.annealing import StepAnnealing
from annulus.negatives.clusters import Clustering
from annulus.negatives.neighbours import CloseNeighbours, ClusterNeighbours
from annulus.negatives.samplers import Cave, Ring
from annulus.training.setup import build_training, encoder_config, scaled_learning_rate

METHODS = {
    "ir": InstanceDiscrimination,
    "cmc": ContrastiveMultiviewCoding,
    "moco": MomentumContrast,
    "simclr": SimCLR,
    "simo": SiMo,
}
INFONCE = InfoNCE()


def last_estimate(changes, steps=1):
    """The estimate of the last of some steps, taken as training takes them."""
    training, estimates = run(changes), []
    loss = training.method.loss

    def watched(*arguments):
        step = loss(*arguments)
        estimates.append(step.estimate)
        return step

    training.method.loss = watched
    training.method.start(training._embed)
    training.method.before_epoch(0, training._embed)
    training.method.train()
    order = training._order()
    for _ in range(steps):
        training.step(order)
    return estimates[-1]


# --- what is built ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_method_is_the_one_chosen_with_its_own_parameters(method):
    training = run({"method": method, f"methods.{method}.temperature": 0.123})
    assert type(training.method) is METHODS[method]
    assert training.method.params.temperature == 0.123
    assert type(training.method.encoder) is (LabEncoder if method == "cmc" else Encoder)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bound", TREE["bounds"])
def test_every_method_takes_a_step_with_every_bound(method, bound):
    estimate = last_estimate({"method": method, "bound": bound, "anneal": "none"})
    assert estimate.loss_nats.isfinite()
    assert estimate.loss_nats > -1e-6
    assert estimate.bound_nats <= estimate.ceiling_nats + 1e-6
    if bound == "binary-nce":
        return
    # Two objectives add up for cmc, whose bound and ceiling are means.
    memories = 2 if method == "cmc" else 1
    assert estimate.bound_nats.item() == pytest.approx(
        estimate.ceiling_nats.item() - estimate.loss_nats.item() / memories, abs=1e-5
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampler", TREE["samplers"])
@pytest.mark.parametrize("negatives", ["sampled", "all"])
def test_every_method_takes_a_step_with_every_sampler_drawn_or_whole(method, sampler, negatives):
    estimate = last_estimate(
        {"method": method, f"methods.{method}.negatives": negatives, "sampler": sampler, "anneal": "none"}
    )
    assert estimate.loss_nats.isfinite()
    others = {"ir": 69, "cmc": 69, "moco": 32, "simclr": 30, "simo": 15}[method]
    limit = 12 if negatives == "sampled" else {"uniform": others}.get(sampler, others // 2)
    ceiling = math.exp(estimate.ceiling_nats.item()) - 1
    assert ceiling == pytest.approx(limit, rel=1e-4) or (
        negatives == "all" and sampler != "uniform" and ceiling < limit
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bound", ["infonce", "la", "cpc"])
@pytest.mark.parametrize("neighbours", ["s", "k"])
def test_every_method_takes_neighbours_with_every_bound_that_knows_several_positives(method, bound, neighbours):
    early = {"neighbour_sets.s.start": 0.0, "neighbour_sets.s.until": 0.0, "neighbour_sets.k.start": 0.0}
    choice = {"method": method, "bound": bound, "sampler": "uniform", f"methods.{method}.negatives": "all"} | early
    # After three batches of 16, moco's 32 places hold keys of images, which have clusters.
    among, alone = (last_estimate(choice | {"neighbours": chosen}, steps=3) for chosen in (neighbours, "none"))
    assert among.loss.isfinite()
    assert among.ceiling_nats < alone.ceiling_nats, "more positives leave less to tell apart"


@pytest.mark.parametrize("critic", ["dot", "bilinear", "concat-linear", "mlp-1", "mlp-2"])
def test_every_critic_takes_a_step_and_its_weights_learn(critic):
    training = run({"methods.ir.critic": critic, "schedule": "constant"})
    before = [weight.detach().clone() for weight in training.method.critic.parameters()]
    for _ in range(2):
        training.step(training._order())
    after = list(training.method.critic.parameters())
    trained = {id(weight) for weight in training.trainable}
    assert all(id(weight) in trained for weight in after)
    # A constant added to all scores changes no softmax: the last layer's bias is the one that stays.
    moved = [not torch.equal(old, new) for old, new in zip(before, after, strict=True)]
    assert sum(moved) >= len(moved) - 2
    assert (critic == "dot") == (not moved)


@pytest.mark.parametrize(
    ("method", "negatives", "expected"),
    [("ir", "sampled", 12), ("ir", "all", "all"), ("moco", "sampled", 12), ("moco", "all", "all")],
)
def test_negatives_are_sampled_or_all_taken(method, negatives, expected):
    training = run({"method": method, f"methods.{method}.negatives": negatives})
    assert training.method.contrast.config.negatives == expected


def test_all_chosen_sections_arrive_where_they_belong():
    choices = {
        "sampler": "cave",
        "neighbours": "s",
        "bound": "cpc",
        "bounds.cpc.alpha": 1.5,
        "views": "crop",
        "seed": 7,
    }
    training = run(choices | {"anneal": "step", "schedule": "milestones", "optimizer.momentum": 0.8})
    config, recipe = training.method.contrast.config, training.recipe
    params = read(choices | {"anneal": "step", "schedule": "milestones"})
    cave = Cave(0.5, "outside", Clustering(clusters=20, iterations=3, runs=2))
    close = CloseNeighbours(share=0.1, start=0.05, until=0.5, in_denominator=False)
    assert config == ContrastConfig(cave, close, CPC(alpha=1.5), 12)
    assert recipe.sampler == config.sampler
    assert isinstance(recipe.annealing, StepAnnealing)
    assert (recipe.annealing.until, recipe.annealing.steps) == (0.5, 5)
    assert recipe.schedule == params["schedules.${schedule}"]
    assert recipe.views == params["view_sets.${views}"]
    assert recipe.seed == training.method.contrast.seed == 7
    assert training.optimizer.param_groups[0]["momentum"] == 0.8
    assert len(run({"method": "moco"}).method.queue.keys) == 32


@pytest.mark.parametrize("batch_size", [16, 32])
def test_the_rate_follows_the_number_of_queries(batch_size):
    """eqco eq. 8, 0.48 per 256 images."""
    scale = {"epochs": 1, "batch_size": batch_size, "negatives": 12, "queue": 32, "learning_rate": 0.48}
    training = run({"scales.tiny.pretrain": scale, "schedule": "constant"})
    training.step(training._order())
    assert training.optimizer.param_groups[0]["lr"] == pytest.approx(0.48 * batch_size / 256)


def test_the_seed_decides_weights_memory_order_and_views():
    first, again, other = (run({"method": "moco", "seed": seed}) for seed in (0, 0, 1))
    for name, value in first.method.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, again.method.state_dict()[name]), name
    weight = "encoder.backbone.0.weight"
    assert not torch.equal(first.method.state_dict()[weight], other.method.state_dict()[weight])
    assert not torch.equal(first.method.queue.keys, other.method.queue.keys)
    assert not torch.equal(first._order(), other._order())


@pytest.mark.parametrize(("batch_size", "expected"), [(256, 0.03), (512, 0.06), (64, 0.0075)])
def test_the_learning_rate_is_proportional_to_the_queries_of_a_batch(batch_size, expected):
    """arXiv:2010.01929, eq. 8: the rate of params.yaml is that of 256."""
    scale = PretrainScale(epochs=1, batch_size=batch_size, negatives=1, queue=512, learning_rate=0.03)
    assert scaled_learning_rate(scale) == pytest.approx(expected, rel=1e-12)


# --- the encoder of each method -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ir", "moco", "simclr", "simo"])
def test_the_encoder_sees_red_green_and_blue_normalised_by_the_training_images(method):
    images = stripes(20, 0)
    config = encoder_config(read({"method": method, f"methods.{method}.embedding_dim": 24}), images)
    assert (config.channels, config.embedding_dim, config.view_size) == ("rgb", 24, 16)
    assert (config.mean, config.std) == images.channel_statistics()
    assert config.head == TREE["methods"][method]["head"]
    assert (config.architecture, config.stem) == ("alexnet", "imagenet")


def test_cmc_s_encoders_see_lightness_and_colour_normalised_in_cielab():
    images = stripes(20, 0)
    config = encoder_config(read({"method": "cmc"}), images)
    assert config.channels == "lab"
    assert (config.mean, config.std) == lab_statistics(images.images)
    encoder = run({"method": "cmc"}).method.encoder
    assert (encoder.l.config.channels, encoder.ab.config.channels) == ("lab-l", "lab-ab")


def test_cmc_with_grey_images_is_refused():
    coloured = stripes(70, 0)
    images = coloured.images.float().mean(dim=1, keepdim=True).expand(-1, 3, -1, -1).to(torch.uint8)
    grey = ImageSet.of(images, coloured.labels, coloured.rows, coloured.classes)
    message = (
        r"^method: cmc contrasts lightness \(L\) with colour \(a, b\), but the images of this data set have no colour: "
        r"a and b deviate by 0\.\d\d and 0\.\d\d from their means, below 0\.5; "
        r"take method: ir, or a data set in colour$"
    )
    with pytest.raises(InputError, match=message):
        build_training(read({"method": "cmc"}), grey, grey, CPU)
    build_training(read({"method": "ir"}), grey, grey, CPU)


def test_cmc_s_views_keep_their_colour(caplog):
    """mutualinfo C.1: no greyscale for CMC, whose colour encoder would see nothing; colour jitter stays."""
    choice = {"views": "standard", "view_sets.standard.grayscale": 1.0}
    with caplog.at_level(logging.INFO, logger="annulus"):
        views = run(choice | {"method": "cmc"}).recipe.views
    said = "cmc leaves out the views' greyscale (probability 1): a grey view has no colours to find"
    assert [record.getMessage() for record in caplog.records] == [said]
    assert views.grayscale == 0.0
    assert views.jitter == read(choice)["view_sets.${views}"].jitter
    assert run(choice | {"method": "ir"}).recipe.views.grayscale == 1.0


# --- what the images cannot serve ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "images", "message"),
    [
        ({}, 7, r"batch_size: 16 is more than the 7 training images; take a smaller batch or more images$"),
        (
            {"method": "moco", "scales.tiny.pretrain.queue": 15},
            70,
            r"queue: 15 is shorter than the batch of 16, whose keys it must hold; take a longer queue or a smaller bat",
        ),
        (
            {"sampler": "ball", "samplers.ball.outer": 0.014},
            70,
            r"ranks \[0, 0\.014\) hold none of the memory's 69 other rows; widen the sampler or take a larger memory$",
        ),
    ],
)
def test_what_the_images_cannot_serve_is_refused_before_the_last_estimate(changes, images, message):
    with pytest.raises(InputError, match=message):
        run(changes, images=images)


@pytest.mark.parametrize("method", ["ir", "moco", "simclr"])
@pytest.mark.parametrize(
    ("changes", "alpha"),
    [
        ({"bound": "cpc", "bounds.cpc.alpha": 13.0}, 13),
        ({"bound": "mlcpc", "bounds.mlcpc.alpha_start": 14.5}, 14.5),
    ],
)
def test_an_alpha_that_leaves_negatives_no_weight_is_refused_with_the_way_out(method, changes, alpha):
    drawn = {"method": method, f"methods.{method}.negatives": "sampled"}  # 12 of them
    message = (
        rf"^alpha is {alpha} with m = 13 candidates, a positive and 12 negatives; it must be above 0 and below m: "
        r"choose alpha 1 for plain cpc, or more negatives for a larger alpha$"
    )
    with pytest.raises(InputError, match=message):
        run(drawn | changes).run()


# --- what is warned of --------------------------------------------------------------------------------

BY_CHANCE = (
    "neighbours from the first step on are neighbours by chance, and the paper's runs got worse by them "
    "(Wu et al. 2020, arXiv:2005.13149, table 1, s-neigh without anneal); "
)


def said(bound=INFONCE, neighbours=None, sampler=None, negatives=8, others=100, queries=16):
    """What these choices are warned of."""
    config = ContrastConfig(sampler or Ring(0.0, 1.0), neighbours, bound, negatives)
    return config.warnings_for(others, queries)


def mlcpc(start, end, eqco_alpha=None):
    return MLCPC(alpha_start=start, alpha_end=end, divide_by_alpha=False, eqco_alpha=eqco_alpha)


@pytest.mark.parametrize(
    ("neighbours", "way_out"),
    [
        (
            CloseNeighbours(share=0.1, start=0.0, until=0.0, in_denominator=True),
            "let neighbour_sets.s.start be 0.05, say, and until 0.5",
        ),
        (
            ClusterNeighbours(Clustering(clusters=8, iterations=1, runs=1), 0.0, True),
            "let neighbour_sets.k.start be 0.05, say",
        ),
    ],
)
def test_neighbours_from_the_first_step_on_are_warned_of(neighbours, way_out):
    assert said(neighbours=neighbours) == [BY_CHANCE + way_out]


@pytest.mark.parametrize(
    "neighbours",
    [
        None,
        CloseNeighbours(
            share=0.1, start=0.0, until=0.5, in_denominator=True
        ),  # none at the first step, and a few soon after
        CloseNeighbours(share=0.1, start=0.05, until=0.05, in_denominator=True),
        ClusterNeighbours(Clustering(clusters=8, iterations=1, runs=1), 0.05, True),
    ],
)
def test_neighbours_that_come_later_are_not_warned_of(neighbours):
    assert said(neighbours=neighbours) == []


def test_cpc_below_alpha_1_says_by_how_much_it_is_no_bound():
    """Lost: log(1/alpha); its ceiling is log(m/alpha), here with 8 negatives log 36."""
    assert said(CPC(alpha=0.25)) == [
        "cpc with alpha 0.25, below 1, is not a lower bound: it may exceed the information by up to "
        "log(1/alpha) = 1.39 nats, and its ceiling is 3.58 nats, not log m = 2.2"
    ]
    assert (math.log(4), math.log(9 / 0.25), math.log(9)) == pytest.approx((1.39, 3.58, 2.2), abs=0.005)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 8.0])
def test_cpc_from_alpha_1_on_is_a_bound_and_nothing_is_said(alpha):
    assert said(CPC(alpha=alpha)) == []


def test_mlcpc_says_by_how_much_the_end_of_its_curriculum_is_no_bound():
    """m = 9 candidates and n = 16 queries: alpha_{m,n} = 9/129 = 0.06977; at 0.01 log 6.977 = 1.94 nats are lost."""
    sentence = (
        "mlcpc with alpha 0.01 is not a lower bound: below m/(n(m-1)+1) = 0.06977 for n = 16 queries of m = 9 "
        "candidates it may exceed the information by up to 1.94 nats"
    )
    assert math.log(9 / 129 / 0.01) == pytest.approx(1.94, abs=0.005)
    assert said(mlcpc(2.0, 0.01)) == [sentence]
    assert said(mlcpc(0.01, 2.0)) == [sentence]
    assert said(mlcpc(0.01, 0.01)) == [sentence], "a constant alpha is spoken of once"
    assert len(said(mlcpc(0.02, 0.01))) == 2, "each end loses something else"


@pytest.mark.parametrize(("start", "end"), [(2.0, 9 / 129), (0.0698, 0.0698), (8.0, 1.0)])
def test_mlcpc_in_its_proven_range_says_nothing(start, end):
    assert said(mlcpc(start, end)) == []


def test_a_margin_beyond_the_negatives_says_by_how_much_the_estimate_may_be_too_large():
    """(1 + 26)/(1 + 8) = 3, the ratio of the two ceilings."""
    assert said(InfoNCE(eqco_alpha=26.0)) == [
        "eqco_alpha 26 is more than the 8 negatives: the estimate may exceed the information by up to "
        "log((1 + eqco_alpha)/(1 + K)) = 1.1 nats"
    ]
    assert math.log(3) == pytest.approx(1.1, abs=0.005)


@pytest.mark.parametrize("eqco_alpha", [None, 1.0, 8.0])
def test_a_margin_of_as_many_negatives_as_there_are_says_nothing(eqco_alpha):
    assert said(InfoNCE(eqco_alpha=eqco_alpha)) == []


@pytest.mark.parametrize(
    "bound",
    [INFONCE, LocalAggregation(), BinaryNCE(PartitionFunction("constant", constant=2.25, rate=0.9))],
    ids=["infonce", "la", "binary-nce"],
)
def test_bounds_without_alpha_say_nothing(bound):
    assert said(bound) == []


@pytest.mark.parametrize(
    ("sampler", "negatives", "k"),
    [
        (Ring(0.0, 1.0), 8, 8),
        (Ring(0.0, 1.0), "all", 100),
        (Ring(0.1, 0.5), "all", 40),
        (Ring(0.1, 0.5), 8, 8),
    ],
)
def test_the_negatives_that_a_warning_counts_are_those_of_the_sampler_s_own_set(sampler, negatives, k):
    assert said(InfoNCE(eqco_alpha=float(k)), sampler=sampler, negatives=negatives) == []
    [sentence] = said(InfoNCE(eqco_alpha=k + 1.0), sampler=sampler, negatives=negatives)
    assert f"more than the {k} negatives" in sentence


def test_a_margin_counts_into_what_alpha_loses():
    """alpha 1 with a margin of 26 weighs 8 negatives as 26: as alpha 9/27 does, which loses log 3."""
    [sentence] = said(CPC(alpha=1.0, eqco_alpha=26.0))
    assert sentence == said(CPC(alpha=9 / 27))[0]
    assert "log(1/alpha) = 1.1 nats" in sentence
    assert said(CPC(alpha=1.0, eqco_alpha=8.0)) == []
    # alpha 1 with a margin of 26 is alpha 1/3, which mlcpc allows from 0.0698 on; with 1,000 it is 9/1001.
    assert said(mlcpc(1.0, 1.0, eqco_alpha=26.0)) == []
    [sentence] = said(mlcpc(1.0, 1.0, eqco_alpha=1000.0))
    assert sentence.startswith("mlcpc with alpha 0.00899101 is not a lower bound: below m/(n(m-1)+1) = 0.06977")


@pytest.mark.parametrize("bound", [CPC(alpha=12.0, eqco_alpha=64.0), mlcpc(12.0, 1.0, eqco_alpha=8.0)])
def test_an_alpha_beyond_the_candidates_of_the_end_is_left_to_the_step_that_meets_them(bound):
    """Annealing starts from more negatives, for which alpha 12 may be fine; with 8 of them m is 9."""
    assert said(bound) == []


def test_two_warnings_are_two_sentences():
    neighbours = ClusterNeighbours(Clustering(clusters=8, iterations=1, runs=1), 0.0, True)
    first, second = said(CPC(alpha=0.5), neighbours)
    assert first.startswith(BY_CHANCE)
    assert second.startswith("cpc with alpha 0.5, below 1")


def warnings_of(changes, caplog):
    """What building a run logs as warnings."""
    with caplog.at_level(logging.INFO, logger="annulus"):
        run(changes)
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("changes", "beginning"),
    [
        ({"neighbours": "k", "neighbour_sets.k.start": 0.0}, BY_CHANCE),
        ({"neighbours": "s"}, "in_denominator: false of the neighbours is the papers' formula, whose loss is no bound"),
        ({"bound": "cpc", "bounds.cpc.alpha": 0.5}, "cpc with alpha 0.5, below 1, is not a lower bound"),
        ({"bound": "mlcpc", "bounds.mlcpc.alpha_end": 0.01}, "mlcpc with alpha 0.01 is not a lower bound"),
        ({"bounds.infonce.eqco_alpha": 100.0}, "eqco_alpha 100 is more than the 12 negatives"),
        (
            {"method": "simo"},
            "methods.simo.batch_norm: sync has no other process to synchronise with; "
            "in one process it is ordinary batch normalisation over the whole batch",
        ),
    ],
)
def test_building_a_run_warns_of_what_its_choices_lose_once(changes, beginning, caplog):
    [warning] = warnings_of(changes, caplog)
    assert warning.startswith(beginning)


@pytest.mark.parametrize("method", METHODS)
def test_the_choices_of_params_yaml_warn_of_nothing(method, caplog):
    shuffled = {"methods.simo.batch_norm": "shuffle"}
    assert warnings_of({"method": method} | shuffled, caplog) == []


@pytest.mark.parametrize(("method", "negatives", "queries"), [("moco", 32, 16), ("simclr", 30, 32), ("simo", 15, 16)])
def test_mlcpc_counts_the_queries_and_candidates_of_the_method(method, negatives, queries, caplog):
    """Both views of an image are queries in SimCLR."""
    lowest = mlcpc_lower_alpha(negatives + 1, queries)
    choice = {"method": method, "bound": "mlcpc", "sampler": "uniform", "methods.simo.batch_norm": "shuffle"}
    assert warnings_of(choice | {"bounds.mlcpc.alpha_end": lowest * 1.001}, caplog) == []
    [warning] = warnings_of(choice | {"bounds.mlcpc.alpha_end": lowest * 0.999}, caplog)
    assert f"for n = {queries} queries of m = {negatives + 1} candidates" in warning


def test_shuffled_groups_must_fit_the_batch():
    """In one process a batch of 16 cannot be 5 equal groups."""
    message = (
        r"^a batch of 16 cannot be normalised in 5 equal groups of two or more; "
        r"take a batch size that is a multiple of 5, and at least 10$"
    )
    with pytest.raises(InputError, match=message):
        run({"method": "moco", "methods.moco.shuffle_groups": 5}).run()


def test_sync_batch_norm_without_a_group_is_refused():
    message = r"^sync batch-norm needs several processes to share statistics, and this is the only one; start it with "
    with pytest.raises(InputError, match=message):
        synchronised(torch.nn.BatchNorm1d(3))


def test_local_aggregation_with_neighbours_over_a_ring_is_warned_of():
    bound = LocalAggregation()
    neighbours = CloseNeighbours(share=0.01, start=0.1, until=0.5, in_denominator=True)
    ring = Ring(0.015, 0.5)
    [sentence] = ContrastConfig(ring, neighbours, bound, 8).warnings_for(100, 16)
    assert sentence.startswith(
        "la counts as neighbours only those that are negatives too, and the ring leaves out the closest 1.50%"
    )
    assert ContrastConfig(ring, None, bound, 8).warnings_for(100, 16) == []
    assert ContrastConfig(Ring(0.0, 0.5), neighbours, bound, 8).warnings_for(100, 16) == []
    assert ContrastConfig(ring, neighbours, InfoNCE(), 8).warnings_for(100, 16) == []
