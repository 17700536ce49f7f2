"""Weight, class and rank of the closest rows against plain loops, and in trainings of one and two networks."""

import math

import pytest
import torch
import torch.nn.functional as F
from settings import CPU, SMALL, load, stripes

import annulus
from annulus.evals.geometry import tolerance
from annulus.training.embeddings import embeddings
from annulus.training.setup import build_training
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared import closeness as module
from annulus_lab.studies.shared.closeness import closeness
from annulus_lab.studies.shared.measured import CLOSENESS
from annulus_lab.studies.shared.runs import build_trial

VIEWS, ROWS = 6, 120


def by_hand(scores: torch.Tensor, own: list[int], labels: list[int]) -> dict[str, float]:
    """Each view by itself: the softmax over all rows except its own, summed over the closest."""
    hard, hardest, same, ranks = [], [], [], []
    for row, mine in zip(scores.tolist(), own, strict=True):
        others = sorted(((score, at) for at, score in enumerate(row) if at != mine), reverse=True)
        whole = sum(math.exp(score) for score, _ in others)
        hard.append(sum(math.exp(score) for score, _ in others[:12]) / whole)
        hardest.append(math.exp(others[0][0]) / whole)
        if labels[mine] >= 0:
            same.append(sum(labels[at] == labels[mine] for _, at in others[:10]) / 10)
        ranks.append(sum(score > row[mine] for score, _ in others) / len(others))
    means = {"hard_weight_percent": hard, "hardest_weight_percent": hardest, "closest_of_class_percent": same}
    numbers = {name: 100 * sum(values) / len(values) for name, values in means.items()}
    return numbers | {"own_rank_percent": 100 * sorted(ranks)[(len(ranks) - 1) // 2]}


@pytest.mark.parametrize("labelled", [ROWS, 70])
def test_the_numbers_are_those_of_each_view_by_itself(labelled):
    random = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(VIEWS, ROWS, generator=random)
    own, labels = torch.arange(VIEWS) * 20, torch.arange(ROWS) % 3
    labels[labelled:] = -1
    numbers = module._measures(scores, own, labels)
    assert numbers == pytest.approx(by_hand(scores, own.tolist(), labels.tolist()), abs=1e-4)


def test_of_fewer_than_ten_other_rows_the_own_one_is_not_among_the_closest():
    scores, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    numbers = module._measures(scores, torch.arange(4), labels)
    assert numbers["closest_of_class_percent"] == pytest.approx(100 / 3)


def test_rows_without_a_class_have_no_share_of_one():
    scores, own = torch.eye(3), torch.arange(3)
    numbers = module._measures(scores, own, torch.full((3,), -1))
    assert numbers["own_rank_percent"] == 0.0
    assert "closest_of_class_percent" not in numbers


def test_a_low_temperature_and_many_equal_rows_are_the_two_ends():
    scores, own = torch.randn(4, 200, generator=torch.Generator().manual_seed(1)), torch.arange(4)
    labels = torch.zeros(200, dtype=torch.long)
    sharp, flat = (module._measures(scores * factor, own, labels) for factor in (1000, 0))
    assert sharp["hardest_weight_percent"] > 99
    assert flat["hard_weight_percent"] == pytest.approx(10, abs=0.1)
    assert flat["hardest_weight_percent"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0])
def test_the_closest_tenth_s_share_of_hcl_s_gradient_is_that_of_two_softmaxes(beta):
    """The gradient of log R by s: 1 + beta times the softmax of (1 + beta) s, less beta times that of beta s."""
    random = torch.Generator().manual_seed(2)
    scores, own = 3 * torch.randn(VIEWS, ROWS, generator=random), torch.arange(VIEWS) * 20
    config = annulus.ContrastConfig(bound=annulus.bounds.HCL(beta=beta, tau_plus=0.0))
    contrast = annulus.Contrast(config, images=ROWS, seed=0, device=CPU, temperature=0.5)
    numbers = module._measures(scores, own, torch.full((ROWS,), -1), contrast)
    shares = []
    for row, mine in zip(scores.tolist(), own.tolist(), strict=True):
        others = sorted((score for at, score in enumerate(row) if at != mine), reverse=True)

        def weight(factor, others=others):
            return sum(math.exp(factor * score) for score in others[:12]) / sum(math.exp(factor * s) for s in others)

        shares.append((1 + beta) * weight(1 + beta) - beta * weight(beta))
    assert numbers["hard_gradient_percent"] == pytest.approx(100 * sum(shares) / VIEWS, abs=1e-4)
    if beta == 0:
        assert numbers["hard_gradient_percent"] == pytest.approx(numbers["hard_weight_percent"], abs=1e-4)


@pytest.mark.parametrize(("bound", "tau_plus"), [("infonce", 0.0), ("hcl", 0.0), ("hcl", 0.1)])
def test_only_hcl_without_tau_plus_has_a_gradient_of_its_own(bound, tau_plus, empty_checkout):
    changes = {"sampler": "uniform", "anneal": "none", "views": "none", "split": "none"}
    params = load(SMALL | changes | {"bound": bound, "bounds.hcl.tau_plus": tau_plus})
    training = build_training(build_trial(resolved(params, RUN), 0).run, stripes(70, 0), stripes(10, 1), CPU)
    measured = "hard_gradient_percent" in closeness(training, 30, seed=0)
    assert measured == (bound == "hcl" and tau_plus == 0)


@pytest.mark.parametrize("split", ["none", "lab"])
def test_a_view_without_augmentation_finds_its_own_row_unless_the_two_networks_see_other_channels(
    split, empty_checkout
):
    params = load(SMALL | {"sampler": "uniform", "anneal": "none", "views": "none", "split": split})
    training = build_training(build_trial(resolved(params, RUN), 0).run, stripes(70, 0), stripes(10, 1), CPU)
    numbers = closeness(training, 30, seed=0)
    assert numbers.keys() == set(CLOSENESS)
    assert (numbers["own_rank_percent"] == 0) == (split == "none")
    assert numbers == closeness(training, 30, seed=0)
    assert closeness(training, 1000, seed=0).keys() == numbers.keys(), "no more views than images"


def test_both_networks_rows_have_length_1_beside_the_other_s_views(empty_checkout, monkeypatch):
    params = load(SMALL | {"sampler": "uniform", "anneal": "none", "views": "none", "split": "lab"})
    training = build_training(build_trial(resolved(params, RUN), 0).run, stripes(70, 0), stripes(10, 1), CPU)
    seen, real = [], module._measures
    monkeypatch.setattr(module, "_measures", lambda scores, *about: seen.append(scores) or real(scores, *about))
    closeness(training, 70, seed=0)
    both = embeddings(training.method.encoder, training.source, CPU)
    first, second = (
        F.normalize(part, dim=1) / training.method.params.temperature**0.5 for part in both.chunk(2, dim=1)
    )
    torch.testing.assert_close(seen, [first @ second.T, second @ first.T])


def test_the_tolerance_is_the_mean_of_the_two_networks(empty_checkout):
    params = load(SMALL | {"sampler": "uniform", "anneal": "none", "views": "none", "split": "lab"})
    training = build_training(build_trial(resolved(params, RUN), 0).run, stripes(70, 0), stripes(10, 1), CPU)
    parts = embeddings(training.method.encoder, training.source, CPU).chunk(2, dim=1)
    means = [tolerance(F.normalize(part, dim=1), training.source.labels) for part in parts]
    assert closeness(training, 30, seed=0)["tolerance_cosine"] == pytest.approx(sum(means) / 2)
    training.source.labels.fill_(-1)
    assert "tolerance_cosine" not in closeness(training, 30, seed=0)
