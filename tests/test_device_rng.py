"""Every purpose has its own reproducible stream of random numbers."""

import pytest
import torch
from torch import Tensor, nn

from annulus.device.rng import derive, first_weights

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def test_seed_purpose_number_and_their_order_each_change_the_seed():
    purposes = [(), ("order",), ("views",), ("order", 0), ("order", 1), (1, "order"), ("or", "der")]
    seeds = [derive(seed, *purpose) for seed in (0, 1) for purpose in purposes]
    seeds += [derive(seed, "order", epoch) for seed in range(2, 30) for epoch in range(2, 30)]
    assert len(set(seeds)) == len(seeds)
    assert derive(0, "order", 3) == derive(0, "order", "", 3) == 8305661029903901596, "the same on every machine"
    assert 2**62 <= max(seeds) < 2**63, "all 63 bits are used"


def weights(seed: int) -> Tensor:
    with first_weights(seed):
        return nn.Linear(3, 8).weight


def test_first_weights_depend_on_the_seed_alone_and_the_global_generator_is_left_alone_by_a_failure_too():
    first = weights(5)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert torch.equal(first, weights(5)), "what was drawn before does not matter"
    assert not torch.equal(first, weights(6))
    with pytest.raises(ZeroDivisionError), first_weights(0):
        nn.Linear(3, 8).out_features // 0


def test_a_seed_for_weights_leaves_gpus_alone(monkeypatch):
    """Any of these calls would start CUDA in every worker, or reseed its generators."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("torch.cuda was called")

    for name in ("device_count", "manual_seed_all", "get_rng_state", "set_rng_state"):
        monkeypatch.setattr(torch.cuda, name, fail)
    weights(5)
