"""Initial weights of an ensemble's networks; their training is tested with what trains them, number by number."""

import pytest
import torch
from torch import nn

from annulus.estimators.critics import Separable
from annulus.estimators.ensembles import seeded


def separable() -> Separable:
    return Separable(3, 8, 2, 4)


@pytest.mark.usefixtures("untouched_global_randomness")
def test_weights_depend_on_the_seed_alone_and_the_global_generator_is_left_alone_by_a_failure_too():
    def weights(seed):
        return nn.utils.parameters_to_vector(seeded(separable, seed).parameters())

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
    seeded(separable, 5)
