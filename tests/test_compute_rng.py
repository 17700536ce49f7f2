"""Every purpose has its own reproducible stream of random numbers."""

import pytest
import torch

from annulus.compute.rng import derive, generator

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def test_the_same_seed_and_purpose_give_the_same_draws():
    first, second = (torch.rand(100, generator=generator(3, "order", 7)) for _ in range(2))
    assert torch.equal(first, second)


def test_seed_purpose_number_and_their_order_each_change_the_seed():
    seeds = [
        derive(0),
        derive(1),
        derive(0, "order"),
        derive(1, "order"),
        derive(0, "views"),
        derive(0, "order", 0),
        derive(0, "order", 1),
        derive(1, "order", 0),
        derive(0, 1, "order"),
        derive(0, "or", "der"),
        *(derive(seed, "order", epoch) for seed in range(2, 30) for epoch in range(2, 30)),
    ]
    assert len(set(seeds)) == len(seeds)


def test_a_derived_seed_is_the_same_on_every_machine_and_fits_in_63_bits():
    assert derive(0, "order", 3) == 8305661029903901596
    assert all(0 <= derive(seed, "bank") < 2**63 for seed in range(1000))
    assert any(derive(seed, "bank") >= 2**62 for seed in range(100)), "all 63 bits are used"


def test_streams_of_neighbouring_seeds_and_purposes_are_uncorrelated():
    streams = torch.stack(
        [
            torch.randn(10_000, generator=generator(seed, name, epoch))
            for seed in (0, 1)
            for name in ("order", "views")
            for epoch in (0, 1)
        ]
    )
    correlation = torch.corrcoef(streams) - torch.eye(len(streams))
    assert correlation.abs().max() < 0.05  # five standard deviations


def test_a_generator_lives_on_the_device_where_its_draws_are_made():
    assert generator(0, "views").device == torch.device("cpu")
    assert generator(0, "views", device=torch.device("cpu")).device == torch.device("cpu")
