"""Networks trained as one against the same networks trained one after the other, number by number."""

import pytest
import torch
from torch import nn

from annulus.compute.rng import generator as derived
from annulus.estimators.bounds import INFONCE, cpc, eqco, mlcpc, off_diagonal
from annulus.estimators.critics import Joint, Separable
from annulus.estimators.ensembles import Ensemble, seeded
from annulus.estimators.toys import CorrelatedGaussians

pytestmark = pytest.mark.usefixtures("in_float64")

DIMS, PAIRS, STEPS = 3, 8, 6
FORMS = {
    "separable": lambda: Separable(DIMS, 8, 2, 4),
    "with temperature": lambda: Separable(DIMS, 8, 1, 4, temperature=0.5),
    "joint": lambda: Joint(DIMS, 8, 2),
}
LOSSES = [INFONCE, eqco(30.0), cpc(0.5), mlcpc(0.1)]
TOYS = [CorrelatedGaussians(DIMS, rho) for rho in (0.2, 0.5, 0.7, 0.9)]
OPTIMIZERS = {
    # The gradient of a bias that no softmax sees is rounding; Adam's usual eps of 1e-8 would make it steps of 1e-10.
    "Adam": lambda parameters: torch.optim.Adam(parameters, 0.01, eps=1e-6),
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
}


def networks(make):
    return [seeded(make, seed) for seed in range(len(LOSSES))]


def batches(step, shared):
    """Each run's pairs of this step; with `shared` all have the first's."""
    pairs = [toy.sample(PAIRS, derived(step, "pairs", run)) for run, toy in enumerate(TOYS)]
    return [pairs[0]] * len(pairs) if shared else pairs


def value(bound, scores):
    return bound.estimate(scores.diagonal(), off_diagonal(scores))


def looped(make, shared, optimizer):
    """One network after the other: estimates (steps, runs), and the weights after each step by name."""
    estimates = torch.zeros(STEPS, len(LOSSES))
    weights = []
    for run, (network, bound) in enumerate(zip(networks(make), LOSSES, strict=True)):
        its = optimizer(network.parameters())
        weights.append([])
        for step in range(STEPS):
            found = value(bound, network(*batches(step, shared)[run]))
            its.zero_grad()
            (-found).backward()
            its.step()
            estimates[step, run] = found.item()
            weights[-1].append({name: weight.detach().clone() for name, weight in network.named_parameters()})
    return estimates, weights


def together(make, shared, optimizer):
    """The same as one."""
    ensemble = Ensemble(networks(make))
    its = optimizer(ensemble.parameters())
    estimates = torch.zeros(STEPS, len(LOSSES))
    weights = []
    for step in range(STEPS):
        pairs = batches(step, shared)
        inputs = pairs[0] if shared else [torch.stack([pair[side] for pair in pairs]) for side in (0, 1)]
        scores = ensemble(*inputs, shared=shared)
        values = torch.stack([value(bound, each) for bound, each in zip(LOSSES, scores, strict=True)])
        its.zero_grad()
        (-values.sum()).backward()
        its.step()
        estimates[step] = values.detach()
        weights.append({n: v.detach().clone() for n, v in zip(ensemble.names, ensemble.stacked, strict=True)})
    return estimates, weights


@pytest.mark.parametrize(
    ("form", "shared", "optimizer"),
    [("separable", True, "Adam"), ("with temperature", False, "SGD"), ("joint", False, "Adam"), ("joint", True, "SGD")],
)
def test_networks_trained_as_one_are_at_every_step_those_trained_alone(form, shared, optimizer):
    estimates, weights = looped(FORMS[form], shared, OPTIMIZERS[optimizer])
    its_estimates, its_weights = together(FORMS[form], shared, OPTIMIZERS[optimizer])
    torch.testing.assert_close(its_estimates, estimates, rtol=0, atol=1e-10)
    for step in range(STEPS):
        for run in range(len(LOSSES)):
            alone = weights[run][step]
            assert set(its_weights[step]) == set(alone)
            for name, weight in alone.items():
                torch.testing.assert_close(its_weights[step][name][run], weight, rtol=0, atol=1e-10)
    assert (estimates[-1] != estimates[0]).all()
    assert len({round(nats, 6) for nats in estimates[-1].tolist()}) == len(LOSSES)


@pytest.mark.usefixtures("untouched_global_randomness")
def test_weights_depend_on_the_seed_alone_and_the_global_generator_is_left_alone_by_a_failure_too():
    def weights(seed):
        return nn.utils.parameters_to_vector(seeded(FORMS["separable"], seed).parameters())

    def failing():
        torch.rand(3)
        raise ZeroDivisionError

    first = weights(5)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert torch.equal(first, weights(5)), "what was drawn before does not matter"
    assert not torch.equal(first, weights(6))
    with pytest.raises(ZeroDivisionError):
        seeded(failing, 0)


def test_a_seed_for_weights_leaves_gpus_alone(monkeypatch):
    """Any of these would start CUDA in every worker, or reseed its generators."""

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("torch.cuda was called")

    for name in ("device_count", "manual_seed_all", "get_rng_state", "set_rng_state"):
        monkeypatch.setattr(torch.cuda, name, touched)
    seeded(FORMS["separable"], 5)
