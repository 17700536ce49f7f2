"""Every bound, neighbours and sampler over bank, queue and batch, against plain loops; changes during training."""

import itertools
import math
from copy import deepcopy
from dataclasses import replace

import method_cases as cases
import pytest
import torch
from plain_objectives import gradient
from pretended_gpu import PretendedGPU

import annulus
from annulus.device.rng import first_weights
from annulus.errors import InputError
from annulus.methods.contrast import Contrast
from annulus.methods.contrast_config import ContrastConfig
from annulus.negatives import scores as module
from annulus.negatives.neighbours import CloseNeighbours
from annulus.negatives.samplers import Ring

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def build_method(name, *config):
    return cases.method_of(cases.PARAMS[name], cases.config_of(*config))


def compute_estimate(method, progress=cases.PROGRESS):
    return method.loss(cases.VIEWS[cases.Given], cases.INDEX, progress).estimate


@pytest.mark.parametrize(
    ("bound", "neighbours"),
    [*((bound, "none") for bound in cases.BOUNDS), *itertools.product(cases.SEVERAL_POSITIVES, ["s", "k"])],
)
def test_every_combination_has_the_value_and_gradient_of_the_plain_loops(bound, neighbours):
    """IR (ring eq. 3), BALL, IRing, CAVE, MoCo (ring eq. 4), MoCoRing, LA, ...: K draws, and sets of any size."""
    for name, sampler, negatives in (
        *(("ir", "uniform", 17), ("moco", "ring", "all"), ("simclr", "outside", "all")),
        *(("simo", "uniform", 3), ("moco", "outside", "all"), ("ir", "outside", "all")),
    ):
        cases.assert_as_plain(build_method(name, sampler, neighbours, bound, negatives), cases.at(training=0.7))


def test_few_negatives_of_all_rows_have_the_value_and_gradient_of_the_plain_loops_without_a_table(monkeypatch):
    def fail(_):
        raise AssertionError("a table of all scores was made")

    monkeypatch.setattr(module, "LARGE_ON_CPU", 1)
    monkeypatch.setattr(module, "MULTIPLIED", 1.0)
    monkeypatch.setattr(module.Products, "table", property(fail))
    cases.assert_as_plain(build_method("ir", "uniform", "none", "infonce", 17))
    cases.assert_as_plain(build_method("ir", "ring", "none", "infonce", 17), cases.at(annealing=0.0))
    for sampler, neighbours in (("ring", "none"), ("uniform", "s")):
        with pytest.raises(AssertionError, match="a table of all scores"):
            compute_estimate(build_method("ir", sampler, neighbours, "infonce", 17))


def test_nan_among_negatives_of_all_rows_is_refused():
    method = build_method("ir", "uniform", "none", "infonce", 17)
    method.banks[0].rows.fill_(torch.nan)
    with pytest.raises(InputError, match=r"^scores hold NaN for \d+ of \d+ queries; NaN has no rank"):
        compute_estimate(method)


# --- progress -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [name for name in cases.SAMPLERS if name != "uniform"])
def test_annealing_goes_from_the_whole_memory_to_the_sampler_s_set(sampler):
    uniform, annealed = (build_method("ir", each) for each in ("uniform", sampler))
    assert compute_estimate(annealed, cases.at(annealing=0.0)).loss == compute_estimate(uniform).loss
    for share in (0.25, 0.5, 1.0):
        cases.assert_as_plain(annealed, cases.at(annealing=share))
    scores = torch.rand(5, cases.IMAGES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    end, start = (
        annealed.contrasts[0](scores, cases.INDEX, *progress, self_index=cases.INDEX).loss
        for progress in ([], [cases.at(1.0, 0.0)])
    )
    assert end == annealed.contrasts[0](scores, cases.INDEX, cases.at(1.0, 1.0), cases.INDEX).loss != start


def test_the_last_step_may_be_more_than_all_of_training_by_rounding():
    done = 0.0
    for _ in range(11):
        done += 1 / 11
    assert done > 1
    for method in (build_method("ir", "ring", "s"), build_method("ir", "ring", "none", cases.CURRICULUM)):
        end = compute_estimate(method, cases.at(1.0, 1.0)).loss
        torch.testing.assert_close(compute_estimate(method, cases.at(done, 1.0)).loss, end)
    with pytest.raises(InputError, match=r"^training \(the share that is done\) 1\.01: give a number from 0 to 1"):
        compute_estimate(method, cases.at(1.01, 1.0))


@pytest.mark.parametrize("neighbours", ["s", "k"])
def test_neighbours_come_with_training_and_not_with_the_sampler_s_annealing(neighbours):
    for name in ("ir", "moco", "simclr"):
        method, alone = build_method(name, "uniform", neighbours), compute_estimate(build_method(name)).loss
        for trained in (0.0, 0.26, 0.49, 0.5, 0.99):  # at 0.26 the share is less than one column
            cases.assert_as_plain(method, cases.at(training=trained, annealing=0.0))
            some = trained >= 0.5 if neighbours == "k" else trained > 0.26
            assert (compute_estimate(method, cases.at(trained, 0.0)).loss < alone) == some


def test_alpha_of_mlcpc_is_that_of_the_progress_and_dividing_by_it_scales_the_gradient_and_not_the_nats():
    """alpha is 2 (0.125 / 2)^trained: 2, 0.5 and nearly 0.125; the ceiling is log(m/alpha)."""
    for trained in (0.0, 0.5, 0.999):
        methods = [
            build_method("ir", "ball", "none", replace(cases.CURRICULUM, divide_by_alpha=divide))
            for divide in (False, True)
        ]
        plain, divided = (compute_estimate(method, cases.at(training=trained)) for method in methods)
        alpha = 2 ** (1 - 4 * trained)
        assert plain.ceiling_nats.item() == pytest.approx(math.log(21 / alpha))
        assert plain.loss_nats == divided.loss_nats == plain.loss
        assert (plain.bound_nats, plain.ceiling_nats) == (divided.bound_nats, divided.ceiling_nats)
        unscaled, scaled = (
            gradient(each.loss, method.encoder.weight)[0]
            for each, method in zip((plain, divided), methods, strict=True)
        )
        torch.testing.assert_close(scaled, unscaled / alpha)


@pytest.mark.parametrize("bound", ["infonce", "cpc"])
def test_neighbours_outside_the_denominator_are_the_papers_form_and_no_bound(bound):
    """At chance the papers' form has a loss lower by log p for p positives; with near positives it is below 0."""
    even = torch.zeros(5, cases.IMAGES, dtype=torch.float64)
    near = torch.full_like(even, -20.0)
    near[:, :7], near[torch.arange(5), cases.INDEX] = 5.0, 5.0

    def estimate(sampler, scores, neighbours="none"):
        config = cases.config_of(sampler, neighbours, bound)
        return Contrast(config, cases.IMAGES, 0, cases.CPU)(scores, cases.INDEX, cases.PROGRESS, cases.INDEX), config

    for sampler, scores in (("uniform", even), ("ring", near)):
        (papers, papers_config), (ours, own_config) = (
            estimate(sampler, scores, CloseNeighbours(share=0.1, start=0.0, until=0.0, in_denominator=within))
            for within in (False, True)
        )
        for config, warns in ((papers_config, True), (own_config, False)):
            assert any("is no bound" in warning for warning in config.warnings_for(40, 5)) == warns
        assert papers.bound_nats <= papers.ceiling_nats
        if scores is even:
            alone = estimate(sampler, even)[0].loss.item()
            assert papers.loss.item() == pytest.approx(alone - math.log(5))  # the own row and a tenth of 40
            assert ours.bound_nats.item() == papers.bound_nats.item() == pytest.approx(0.0, abs=1e-6)
        else:
            assert papers.loss < 0 <= ours.loss


def test_each_call_draws_anew_and_names_and_seeds_draw_apart(generator):
    scores, losses = torch.rand(5, cases.IMAGES, generator=generator), set()
    for seed, name in ((0, ""), (1, ""), (0, "l"), (0, "ab")):
        contrast = Contrast(cases.config_of("ring", negatives=5), cases.IMAGES, seed, cases.CPU, name)
        losses |= {contrast(scores, cases.INDEX, self_index=cases.INDEX).loss.item() for _ in range(2)}
    assert len(losses) == 8


@pytest.mark.parametrize("method", [annulus.IR, annulus.MoCo, annulus.SimCLR])
def test_a_method_that_is_moved_to_a_gpu_draws_there_as_one_that_was_made_there(method, generator):
    """Lightning creates a method on the CPU and moves it before the first step."""
    config, index = ContrastConfig(Ring(inner=0.1, outer=0.9), negatives=5), torch.arange(8)
    with first_weights(0):
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    views = [torch.rand(8, 3, 2, 2, generator=generator) for _ in range(2)]
    queue = {"queue": 16} if method is annulus.MoCo else {}
    with PretendedGPU(autocast=False) as gpu:
        there = [view.to(gpu.device) for view in views]

        def losses(learner):
            steps = [learner.loss(there, index.to(gpu.device)).estimate.loss_nats for _ in range(2)]
            return [loss.cpu().item() for loss in steps]

        from_host = method.create(deepcopy(network), images=8, dim=4, contrast=config, **queue)
        expected = losses(from_host.to(gpu.device))
        assert losses(method.create(network.to(gpu.device), images=8, dim=4, contrast=config, **queue)) == expected
        assert len({*expected, *losses(from_host.cpu().to(gpu.device))}) == 4, "it goes on where it was left"


def test_a_checkpoint_of_a_gpu_is_read_on_a_cpu():
    contrast = Contrast(cases.config_of("ring", negatives=5), cases.IMAGES, 0, cases.CPU)
    before, state = contrast.generator.get_state(), contrast.state_dict()
    state["_extra_state"]["generator"] = torch.zeros(16, dtype=torch.uint8)  # a state of CUDA's generator
    contrast.load_state_dict(state)
    assert torch.equal(contrast.generator.get_state(), before)


def test_a_bound_of_one_positive_refuses_neighbours():
    neighbours = CloseNeighbours(share=0.1, start=0.0, until=0.5, in_denominator=True)
    message = r"^MLCPC takes one positive per query, but CloseNeighbours gives several; choose another bound, or no n"
    with pytest.raises(InputError, match=message):
        cases.config_of("uniform", neighbours, "mlcpc")


@pytest.mark.parametrize("closer", [0, 3, 4, 60])
def test_neighbours_that_begin_before_a_view_finds_its_own_row_are_warned_of_once(closer, caplog):
    neighbours = CloseNeighbours(share=0.02, start=0.5, until=0.5, in_denominator=False)
    contrast = Contrast(cases.config_of("uniform", neighbours, "infonce", 16), 100, 0, torch.device("cpu"))
    scores, index = torch.zeros(8, 100), torch.arange(8)
    scores[:, 100 - closer :] = 1.0
    for training in (0.4, 0.6, 0.7):
        contrast(scores, index, cases.at(training=training), self_index=index)
    resumed = Contrast(contrast.config, 100, 0, torch.device("cpu"))
    resumed.load_state_dict(contrast.state_dict())
    resumed(scores, index, cases.at(training=0.8), self_index=index)
    messages = [record.getMessage() for record in caplog.records]
    early = f"neighbours begin now, and {closer} of 100 rows are closer to a query than its own row (median of a batch)"
    assert [line.partition(":")[0] for line in messages] == [early] * (closer > 3)
