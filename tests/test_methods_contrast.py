"""Queries against a memory: every bound, neighbours and sampler over bank, queue and batch, against plain loops."""

import math
from dataclasses import replace

import pytest
import torch
from method_cases import (
    BOUNDS,
    COMBINATIONS,
    CPU,
    CURRICULUM,
    IMAGES,
    INDEX,
    INFONCE,
    NEIGHBOURS,
    PROGRESS,
    SAMPLERS,
    at,
    case_of,
    config_of,
    contrast_of,
)
from plain_objectives import assert_same, gradient, plain_of

from annulus.bounds.alpha import CPC
from annulus.bounds.bound import Estimate
from annulus.bounds.infonce import InfoNCE
from annulus.errors import InputError
from annulus.methods.contrast import Contrast
from annulus.negatives.neighbours import CloseNeighbours
from annulus.negatives.samplers import Ring

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
each_combination = pytest.mark.parametrize(
    ("bound", "neighbours"), COMBINATIONS, ids=[" + ".join(pair) for pair in COMBINATIONS]
)
each_memory = pytest.mark.parametrize("memory", ["bank", "queue", "keys of the batch", "views of the batch"])
each_bound = pytest.mark.parametrize("bound", BOUNDS)


def assert_as_plain(contrast, case, progress=PROGRESS):
    """Value, estimate, ceiling and gradients."""
    state = contrast.generator.get_state()
    estimate = contrast(*case[:2], progress, *case[2:])
    leaves = [leaf for leaf in (case.scores, case.positive) if leaf is not None]
    assert_same(estimate, plain_of(contrast, progress, *case, state=state), *leaves)


# --- every combination --------------------------------------------------------------------------------


@each_combination
@each_memory
def test_the_whole_set_has_the_value_and_gradient_of_the_plain_loops(memory, bound, neighbours, generator):
    for sampler in SAMPLERS:
        contrast = contrast_of(config_of(sampler, neighbours, bound), generator)
        assert_as_plain(contrast, case_of(memory, generator))


@each_combination
@each_memory
def test_k_draws_have_the_value_and_gradient_of_the_plain_loops(memory, bound, neighbours, generator):
    for sampler in ("uniform", "ring", "outside"):
        contrast = contrast_of(config_of(sampler, neighbours, bound, negatives=17), generator)
        assert_as_plain(contrast, case_of(memory, generator))


@each_combination
@pytest.mark.parametrize("lead", [-20.0, 0.0, 20.0])
def test_no_estimate_exceeds_its_ceiling(lead, bound, neighbours, generator):
    """However far positives stand above the rest, or below it."""
    for memory in ("bank", "queue"):
        for sampler in ("uniform", "ring", "inside"):
            case = case_of(memory, generator)
            scores = case.scores.detach()
            if memory == "bank":
                scores = scores.scatter(1, case.self_index[:, None], lead)
            positive = None if case.positive is None else torch.full_like(case.positive, lead)
            contrast = contrast_of(config_of(sampler, neighbours, bound), generator)
            estimate = contrast(scores, case.index, PROGRESS, case.self_index, positive, case.column_images)
            assert estimate.bound_nats.isfinite()
            assert estimate.bound_nats <= estimate.ceiling_nats + 1e-9
            if lead > 0 and neighbours == "none":
                assert estimate.bound_nats > 0.9 * estimate.ceiling_nats, "separated scores reach it"


@each_memory
def test_neighbours_of_the_cases_are_some_and_not_all(memory, generator):
    """What the tests above would not notice if it were otherwise."""
    for neighbours in ("s", "k"):
        case = case_of(memory, generator)
        contrast = contrast_of(config_of("uniform", neighbours), generator)
        found = contrast._neighbours(case.scores.detach(), case.index, case.self_index, case.column_images, 0.5)
        count = found.gather(torch.zeros_like(case.scores)).isfinite().sum(dim=1)
        assert (count > 0).any()
        assert (count < case.scores.shape[1] - 2).all()
    if memory == "queue":
        assert (case.self_index >= 0).any()
        assert (case.self_index < 0).any()


# --- what the papers say is the same ------------------------------------------------------------------


@each_bound
@pytest.mark.parametrize("negatives", [17, "all"])
def test_ball_and_ring_of_the_whole_memory_are_uniform(negatives, bound, generator):
    case = case_of("bank", generator)
    whole = [SAMPLERS["uniform"], Ring(0.0, 1.0), Ring(0.0, 1.0)]
    found = [
        contrast_of(config_of(s, bound=bound, negatives=negatives))(*case[:2], PROGRESS, case.self_index) for s in whole
    ]
    assert found[0].loss == found[1].loss == found[2].loss
    assert found[0].bound_nats == found[1].bound_nats == found[2].bound_nats


@each_memory
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_la_with_only_itself_as_neighbour_is_infonce_on_the_same_background(sampler, memory, generator):
    """LA_0 = BALL (mutualinfo Lemma 4.3), and so for every sampler and memory."""
    case = case_of(memory, generator)
    clusters = contrast_of(config_of(sampler), generator).clusters
    found = []
    for bound in ("la", "infonce"):
        contrast = contrast_of(config_of(sampler, bound=bound), generator)
        contrast.clusters = clusters
        found.append(contrast(*case[:2], PROGRESS, *case[2:]))
    aggregated, plain = found
    torch.testing.assert_close(aggregated.loss, plain.loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(aggregated.ceiling_nats, plain.ceiling_nats)
    torch.testing.assert_close(*(gradient(each.loss, case.scores)[0] for each in found))


@each_memory
@pytest.mark.parametrize("negatives", [7, "all"])
def test_eqco_with_as_many_as_there_are_is_no_margin_and_stands_for_k_otherwise(negatives, memory, generator):
    case = case_of(memory, generator)
    k = negatives
    if negatives == "all":
        k = case.scores.shape[1] - (0 if case.self_index is None else 1)
        case = case if memory != "queue" else case._replace(self_index=torch.tensor([0, 3, 5, 7, 8]))  # as many for all
    plain, eqco, more = (
        contrast_of(config_of("uniform", bound=InfoNCE(eqco_alpha=alpha), negatives=negatives))
        for alpha in (None, float(k), 100.0)
    )
    estimates = [contrast(*case[:2], PROGRESS, *case[2:]) for contrast in (plain, eqco, more)]
    torch.testing.assert_close(estimates[0].loss, estimates[1].loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(estimates[0].bound_nats, estimates[1].bound_nats)
    assert estimates[2].loss > estimates[0].loss
    assert estimates[2].ceiling_nats.item() == pytest.approx(math.log(101))


def test_the_own_column_is_among_the_positives_even_where_it_scores_lowest(generator):
    """With everything else a neighbour too, no negative is left that is not a positive: the softmax holds them all."""
    case = case_of("bank", generator)
    lowest = case.scores.detach().scatter(1, INDEX[:, None], -30.0).requires_grad_()
    for neighbours in ("none", replace(NEIGHBOURS["s"], in_denominator=True), "k"):
        contrast = contrast_of(config_of("ring", neighbours), generator)
        estimate = contrast(lowest, INDEX, PROGRESS, INDEX)
        assert (gradient(estimate.loss, lowest)[0].gather(1, INDEX[:, None]) < 0).all()


# --- moments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_annealing_goes_from_the_whole_memory_to_the_sampler_s_set(sampler, generator):
    case, seeded = case_of("bank", generator), contrast_of(config_of(sampler), generator)
    uniform = contrast_of(config_of("uniform"))(*case[:2], PROGRESS, case.self_index)
    assert seeded(*case[:2], at(annealing=0.0), case.self_index).loss == uniform.loss
    for annealed in (0.25, 0.5, 1.0):
        assert_as_plain(seeded, case, at(annealing=annealed))
    if sampler != "uniform":
        assert seeded(*case[:2], at(annealing=1.0), case.self_index).loss != uniform.loss


@each_memory
@pytest.mark.parametrize("neighbours", ["s", "k"])
@pytest.mark.parametrize("trained", [0.0, 0.25, 0.375, 0.49, 0.5, 0.7, 0.75, 0.99])
def test_neighbours_come_with_training_and_not_with_the_sampler_s_annealing(trained, neighbours, memory, generator):
    case, contrast = case_of(memory, generator), contrast_of(config_of("uniform", neighbours), generator)
    assert_as_plain(contrast, case, at(training=trained, annealing=0.0))
    alone = contrast_of(config_of("uniform"))(*case[:2], PROGRESS, *case[2:])
    some = trained >= 0.5 if neighbours == "k" else trained > 0.25
    assert (contrast(*case[:2], at(trained, 0.0), *case[2:]).loss < alone.loss) == some


def test_a_share_of_neighbours_of_less_than_one_column_leaves_the_own_alone(generator):
    few = CloseNeighbours(share=0.02, start=0.0, until=0.0, in_denominator=False)
    case = case_of("bank", generator)
    found = contrast_of(config_of("uniform", few))(*case[:2], at(training=0.0), case.self_index)
    assert found.loss == contrast_of(config_of("uniform"))(*case[:2], at(), case.self_index).loss


@pytest.mark.parametrize("trained", [0.0, 0.25, 0.5, 0.999])
def test_alpha_of_mlcpc_is_that_of_the_progress(trained, generator):
    """2 (0.125 / 2)^trained: 2, 1, 0.5 and nearly 0.125; the ceiling is log(m/alpha)."""
    case, contrast = case_of("bank", generator), contrast_of(config_of("ball", bound=CURRICULUM))
    assert_as_plain(contrast, case, at(training=trained))
    ceiling = contrast(*case[:2], at(training=trained), case.self_index).ceiling_nats
    assert ceiling.item() == pytest.approx(math.log(21 / 2 ** (1 - 4 * trained)))


@pytest.mark.parametrize("trained", [0.0, 0.5, 0.75])
def test_dividing_by_alpha_scales_the_gradient_and_not_the_nats(trained, generator):
    case = case_of("bank", generator)
    plain, divided = (
        contrast_of(config_of(bound=replace(CURRICULUM, divide_by_alpha=divide)))(
            *case[:2], at(training=trained), case.self_index
        )
        for divide in (False, True)
    )
    alpha = 2 * (0.125 / 2) ** trained
    assert plain.loss_nats == divided.loss_nats == plain.loss
    assert (plain.bound_nats, plain.ceiling_nats) == (divided.bound_nats, divided.ceiling_nats)
    torch.testing.assert_close(divided.loss, plain.loss / alpha)
    scaled, unscaled = (gradient(each.loss, case.scores)[0] for each in (divided, plain))
    torch.testing.assert_close(scaled, unscaled / alpha)


@each_combination
def test_only_the_loss_has_a_gradient(bound, neighbours, generator):
    case = case_of("bank", generator)
    estimate = contrast_of(config_of("ring", neighbours, bound), generator)(*case[:2], PROGRESS, case.self_index)
    assert estimate.loss.requires_grad
    assert not any(value.requires_grad for value in (estimate.loss_nats, estimate.bound_nats, estimate.ceiling_nats))
    both = estimate + estimate
    assert both.loss.requires_grad
    assert not any(value.requires_grad for value in (both.loss_nats, both.bound_nats, both.ceiling_nats))


def test_two_estimates_add_their_losses_and_average_their_nats():
    first, second = (Estimate(*torch.tensor(values)) for values in ([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 60.0]))
    both = first + second
    assert (both.loss, both.loss_nats, both.bound_nats, both.ceiling_nats) == (11, 22, 16.5, 32)


def test_an_alpha_too_large_for_the_negatives_is_refused_in_a_sentence(generator):
    case = case_of("keys of the batch", generator)
    contrast = contrast_of(config_of(bound=CPC(alpha=15.0)))
    with pytest.raises(InputError, match=r"alpha is 15 with m = 15 candidates.*more negatives"):
        contrast(*case[:2], PROGRESS, *case[2:])


# --- clusters and randomness --------------------------------------------------------------------------


def test_clusters_are_made_for_whom_needs_them_by_their_own_settings(generator):
    points = torch.randn(IMAGES, 3, generator=generator)
    for sampler, neighbours in (("uniform", "none"), ("outside", "none"), ("ring", "k"), ("inside", "k")):
        contrast = Contrast(config_of(sampler, neighbours), IMAGES, 0, CPU)
        contrast.cluster(points, epoch=0)
        assert contrast.needs_clusters == ((sampler, neighbours) != ("uniform", "none"))
        for buffer, needed, count in (
            ("clusters", sampler in ("outside", "inside"), 4),
            ("neighbour_clusters", neighbours == "k", 5),
        ):
            found = getattr(contrast, buffer)
            assert found.shape == (2 * needed, IMAGES)
            assert all(run.unique().tolist() == list(range(count)) for run in found)


def test_clusterings_are_repeated_by_seed_epoch_and_name_and_changed_by_each(generator):
    points = torch.randn(IMAGES, 3, generator=generator)

    def clusters(seed=0, epoch=0, name=""):
        contrast = Contrast(config_of("outside"), IMAGES, seed, CPU, name)
        contrast.cluster(points, epoch)
        return contrast.clusters

    assert torch.equal(clusters(), clusters())
    for other in (clusters(epoch=1), clusters(seed=1), clusters(name="ab")):
        assert not torch.equal(clusters(), other)
    assert not torch.equal(clusters(epoch=1), clusters(seed=1))


def test_a_column_without_an_image_is_in_nobody_s_cluster(generator):
    """Cave keeps it, and no query has it as a neighbour."""
    case = case_of("queue", generator)
    columns = torch.full_like(case.column_images, -1)
    contrast = contrast_of(config_of("outside", "k"), generator)
    found = contrast(*case[:2], PROGRESS, case.self_index, case.positive, columns)
    ball = contrast_of(config_of(Ring(0.0, 0.8)))(*case[:2], PROGRESS, case.self_index, case.positive)
    torch.testing.assert_close(found.loss, ball.loss, rtol=1e-12, atol=0)
    with pytest.raises(InputError, match="outside the query's own cluster"):
        contrast_of(config_of("inside"), generator)(*case[:2], PROGRESS, case.self_index, case.positive, columns)


def test_a_loaded_contrast_draws_what_the_saved_one_would(generator):
    config, case = config_of("outside", "none", "binary-nce moving-average", 7), case_of("bank", generator)
    saved, loaded = contrast_of(config, generator), contrast_of(config, generator, seed=1)
    saved(*case[:2], PROGRESS, case.self_index)
    loaded.load_state_dict(saved.state_dict())
    for _ in range(3):
        ours, theirs = (each(*case[:2], PROGRESS, case.self_index) for each in (loaded, saved))
        assert ours.loss == theirs.loss
        assert loaded.bound.partition.log_z == saved.bound.partition.log_z


def test_each_call_draws_anew_and_names_and_seeds_draw_apart(generator):
    case = case_of("bank", generator)
    losses = [
        contrast(*case[:2], PROGRESS, case.self_index).loss.item()
        for contrast in (contrast_of(config_of("ring", bound=INFONCE, negatives=5), seed=s, name=n)
                         for s, n in ((0, ""), (1, ""), (0, "l"), (0, "ab")))
        for _ in range(2)
    ]  # fmt: skip
    assert len(set(losses)) == 8


@pytest.mark.parametrize("bound", ["infonce", "cpc"])
def test_neighbours_outside_the_denominator_are_the_papers_form_and_no_bound(bound, generator):
    """At chance the loss of the papers' form is lower by log p for p positives, and with near ones it is below 0."""
    outside, inside = (
        contrast_of(config_of("uniform", CloseNeighbours(0.1, 0.0, 0.0, in_denominator), bound), generator)
        for in_denominator in (False, True)
    )
    even = torch.zeros(5, IMAGES, dtype=torch.float64)
    papers, ours = (contrast(even, INDEX, at(), INDEX) for contrast in (outside, inside))
    alone = contrast_of(config_of("uniform", "none", bound))(even, INDEX, at(), INDEX)
    assert papers.loss.item() == pytest.approx(alone.loss.item() - math.log(5))  # the own row and a tenth of 40
    assert ours.bound_nats.item() == papers.bound_nats.item() == pytest.approx(0.0, abs=1e-6)
    near = torch.full((5, IMAGES), -20.0, dtype=torch.float64)
    near[:, :7], near[torch.arange(5), INDEX] = 5.0, 5.0
    ring = [replace(one.config, sampler=Ring(0.2, 0.6)) for one in (outside, inside)]
    papers, ours = (contrast_of(config, generator)(near, INDEX, at(), INDEX) for config in ring)
    assert papers.loss < 0 <= ours.loss
    assert papers.bound_nats <= papers.ceiling_nats
    assert any("is no bound" in warning for warning in outside.config.warnings_for(40, 5))
    assert not any("is no bound" in warning for warning in inside.config.warnings_for(40, 5))
