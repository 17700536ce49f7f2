"""Every purpose has its own reproducible stream of random numbers."""

import pytest

from annulus.compute.rng import derive

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def test_seed_purpose_number_and_their_order_each_change_the_seed():
    purposes = [(), ("order",), ("views",), ("order", 0), ("order", 1), (1, "order"), ("or", "der")]
    seeds = [derive(seed, *purpose) for seed in (0, 1) for purpose in purposes]
    seeds += [derive(seed, "order", epoch) for seed in range(2, 30) for epoch in range(2, 30)]
    assert len(set(seeds)) == len(seeds)
    assert derive(0, "order", 3) == derive(0, "order", "", 3) == 8305661029903901596, "the same on every machine"
    assert 2**62 <= max(seeds) < 2**63, "all 63 bits are used"
