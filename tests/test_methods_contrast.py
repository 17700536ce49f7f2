"""Queries against a memory: every bound, neighbours and sampler over bank, queue and batch, against plain loops."""

import itertools
import math
from dataclasses import replace

import method_cases as cases
import pytest
import torch
from plain_objectives import assert_same, gradient, plain_of

from annulus.errors import InputError
from annulus.methods.contrast import Contrast
from annulus.negatives.neighbours import CloseNeighbours
from annulus.negatives.samplers import Ring

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
MEMORIES = ("bank", "queue", "keys of the batch", "views of the batch")


def assert_as_plain(contrast, case, progress=cases.PROGRESS):
    """Value, estimate, ceiling and gradients; only the loss has one."""
    state = contrast.generator.get_state()
    estimate = contrast(*case[:2], progress, *case[2:])
    leaves = [leaf for leaf in (case.scores, case.positive) if leaf is not None]
    assert_same(estimate, plain_of(contrast, progress, *case, state=state), *leaves)
    for one in (estimate, estimate + estimate):
        assert not any(value.requires_grad for value in (one.loss_nats, one.bound_nats, one.ceiling_nats))


@pytest.mark.parametrize(
    ("bound", "neighbours"),
    [*((bound, "none") for bound in cases.BOUNDS), *itertools.product(cases.SEVERAL_POSITIVES, ["s", "k"])],
)
def test_every_combination_has_the_value_and_gradient_of_the_plain_loops(bound, neighbours, generator):
    """K draws, a whole set, and sets of different sizes."""
    for memory, (sampler, negatives) in zip(
        [*MEMORIES, "queue", "bank"], [("uniform", 17), ("ring", "all"), ("outside", "all")] * 2, strict=True
    ):
        assert_as_plain(
            cases.contrast_of(cases.config_of(sampler, neighbours, bound, negatives), generator),
            cases.case_of(memory, generator),
        )


# --- progress -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [name for name in cases.SAMPLERS if name != "uniform"])
def test_annealing_goes_from_the_whole_memory_to_the_sampler_s_set(sampler, generator):
    case, annealed = cases.case_of("bank", generator), cases.contrast_of(cases.config_of(sampler), generator)
    uniform = cases.contrast_of(cases.config_of("uniform"))(*case[:2], cases.PROGRESS, case.self_index).loss
    assert annealed(*case[:2], cases.at(annealing=0.0), case.self_index).loss == uniform
    for share in (0.25, 0.5, 1.0):
        assert_as_plain(annealed, case, cases.at(annealing=share))
    end = annealed(*case[:2], self_index=case.self_index).loss
    assert annealed(*case[:2], cases.at(1.0, 1.0), case.self_index).loss == end != uniform


@pytest.mark.parametrize("neighbours", ["s", "k"])
def test_neighbours_come_with_training_and_not_with_the_sampler_s_annealing(neighbours, generator):
    for memory in MEMORIES:
        case, contrast = (
            cases.case_of(memory, generator),
            cases.contrast_of(cases.config_of("uniform", neighbours), generator),
        )
        alone = cases.contrast_of(cases.config_of("uniform"))(*case[:2], cases.PROGRESS, *case[2:])
        for trained in (0.0, 0.26, 0.49, 0.5, 0.99):  # of 0.26, less than one column
            assert_as_plain(contrast, case, cases.at(training=trained, annealing=0.0))
            some = trained >= 0.5 if neighbours == "k" else trained > 0.26
            assert (contrast(*case[:2], cases.at(trained, 0.0), *case[2:]).loss < alone.loss) == some


def test_alpha_of_mlcpc_is_that_of_the_progress_and_dividing_by_it_scales_the_gradient_and_not_the_nats(generator):
    """2 (0.125 / 2)^trained: 2, 0.5 and nearly 0.125; the ceiling is log(m/alpha)."""
    case = cases.case_of("bank", generator)
    for trained in (0.0, 0.5, 0.999):
        plain, divided = (
            cases.contrast_of(cases.config_of("ball", bound=replace(cases.CURRICULUM, divide_by_alpha=divide)))(
                *case[:2], cases.at(training=trained), case.self_index
            )
            for divide in (False, True)
        )
        alpha = 2 ** (1 - 4 * trained)
        assert plain.ceiling_nats.item() == pytest.approx(math.log(21 / alpha))
        assert plain.loss_nats == divided.loss_nats == plain.loss
        assert (plain.bound_nats, plain.ceiling_nats) == (divided.bound_nats, divided.ceiling_nats)
        scaled, unscaled = (gradient(each.loss, case.scores)[0] for each in (divided, plain))
        torch.testing.assert_close(scaled, unscaled / alpha)


@pytest.mark.parametrize("bound", ["infonce", "cpc"])
def test_neighbours_outside_the_denominator_are_the_papers_form_and_no_bound(bound, generator):
    """At chance the loss of the papers' form is lower by log p for p positives, and with near ones it is below 0."""
    even, near = (
        torch.zeros(5, cases.IMAGES, dtype=torch.float64),
        torch.full((5, cases.IMAGES), -20.0, dtype=torch.float64),
    )
    near[:, :7], near[torch.arange(5), cases.INDEX] = 5.0, 5.0

    def papers_and_ours(sampler, scores):
        for in_denominator in (False, True):
            config = cases.config_of(sampler, CloseNeighbours(0.1, 0.0, 0.0, in_denominator), bound)
            said = any("is no bound" in warning for warning in config.warnings_for(40, 5))
            assert said != in_denominator
            yield cases.contrast_of(config, generator)(scores, cases.INDEX, cases.at(), cases.INDEX)

    papers, ours = papers_and_ours("uniform", even)
    alone = cases.contrast_of(cases.config_of("uniform", "none", bound))(even, cases.INDEX, cases.at(), cases.INDEX)
    assert papers.loss.item() == pytest.approx(alone.loss.item() - math.log(5))  # the own row and a tenth of 40
    assert ours.bound_nats.item() == papers.bound_nats.item() == pytest.approx(0.0, abs=1e-6)
    papers, ours = papers_and_ours("ring", near)
    assert papers.loss < 0 <= ours.loss
    assert papers.bound_nats <= papers.ceiling_nats


# --- clusters and randomness --------------------------------------------------------------------------


def test_clusters_are_made_for_whom_needs_them_by_their_own_settings(generator):
    points = torch.randn(cases.IMAGES, 3, generator=generator)
    for sampler, neighbours in (("uniform", "none"), ("outside", "none"), ("ring", "k"), ("inside", "k")):
        contrast = Contrast(cases.config_of(sampler, neighbours), cases.IMAGES, 0, cases.CPU)
        contrast.cluster(points, epoch=0)
        assert contrast.needs_clusters == ((sampler, neighbours) != ("uniform", "none"))
        for found, needed, count in (
            (contrast.clusters, sampler in ("outside", "inside"), 4),
            (contrast.neighbour_clusters, neighbours == "k", 5),
        ):
            assert found.shape == (2 * needed, cases.IMAGES)
            assert all(run.unique().tolist() == list(range(count)) for run in found)


def test_clusterings_are_repeated_by_seed_epoch_and_name_and_changed_by_each(generator):
    points = torch.randn(cases.IMAGES, 3, generator=generator)

    def clusters(seed=0, epoch=0, name=""):
        contrast = Contrast(cases.config_of("outside"), cases.IMAGES, seed, cases.CPU, name)
        contrast.cluster(points, epoch)
        return tuple(contrast.clusters.flatten().tolist())

    assert clusters() == clusters()
    assert len({clusters(), clusters(epoch=1), clusters(seed=1), clusters(name="ab")}) == 4


def test_a_column_without_an_image_is_in_nobody_s_cluster(generator):
    """Cave keeps it, and no query has it as a neighbour."""
    case = cases.case_of("queue", generator)
    told = (*case[:2], cases.PROGRESS, case.self_index, case.positive, torch.full_like(case.column_images, -1))
    ball = cases.contrast_of(cases.config_of(Ring(0.0, 0.8)))(*told).loss
    torch.testing.assert_close(
        cases.contrast_of(cases.config_of("outside", "k"), generator)(*told).loss, ball, rtol=1e-12, atol=0
    )
    with pytest.raises(InputError, match="outside the query's own cluster"):
        cases.contrast_of(cases.config_of("inside"), generator)(*told)


def test_each_call_draws_anew_and_names_and_seeds_draw_apart(generator):
    case, losses = cases.case_of("bank", generator), set()
    for seed, name in ((0, ""), (1, ""), (0, "l"), (0, "ab")):
        contrast = cases.contrast_of(cases.config_of("ring", negatives=5), seed=seed, name=name)
        losses |= {contrast(*case[:2], cases.PROGRESS, case.self_index).loss.item() for _ in range(2)}
    assert len(losses) == 8
