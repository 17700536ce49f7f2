"""Key encoders: shuffled batch-norm by hand, whole-batch statistics without it, and following the encoder."""

import copy

import pytest
import torch
import torch.nn.functional as F
from method_cases import DIM, Given, views_of
from torch import nn

from annulus.errors import InputError
from annulus.methods.keys import KeyEncoder

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
BATCH = 12
[VIEWS] = views_of(1, batch=BATCH)


class Normed(Given):
    """`Given` with a batch-norm of its own weights before the unit length."""

    def __init__(self, generator):
        super().__init__(generator)
        self.norm = nn.BatchNorm1d(DIM)
        self.norm.weight.data += 0.5 * torch.rand(DIM, generator=generator)
        self.norm.bias.data += torch.randn(DIM, generator=generator)

    def forward(self, images):
        return F.normalize(self.norm(images.flatten(start_dim=1) @ self.weight), dim=1)


def keys_of(kind, groups, generator, seed=0):
    return KeyEncoder(kind(generator).double(), 0.75, groups, seed)


def plain_keys(encoder, views):
    """Keys of one group: each channel to mean 0 and variance 1 (biased) over the group, then weight and bias."""
    turned = views.flatten(start_dim=1) @ encoder.weight
    mean = sum(turned) / len(turned)
    variance = sum((row - mean) ** 2 for row in turned) / len(turned)
    rows = [(row - mean) / (variance + 1e-5).sqrt() * encoder.norm.weight + encoder.norm.bias for row in turned]
    return torch.stack([row / row.norm() for row in rows]).detach()


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_each_group_of_the_shuffled_batch_is_normalised_apart_and_keys_come_back_in_order(groups, generator):
    keys = keys_of(Normed, groups, generator)
    order = torch.Generator()
    for _ in range(3):
        order.set_state(keys.generator.get_state())
        parts = torch.randperm(BATCH, generator=order).chunk(groups)
        expected = torch.empty(BATCH, DIM, dtype=torch.float64)
        for part in parts:
            expected[part] = plain_keys(keys.encoder, VIEWS[part])
        torch.testing.assert_close(keys(VIEWS), expected)


def test_grouped_statistics_are_not_those_of_the_whole_batch_and_differ_from_step_to_step(generator):
    grouped = keys_of(Normed, 3, generator)
    whole = plain_keys(grouped.encoder, VIEWS)
    first, second = grouped(VIEWS), grouped(VIEWS)
    for one, other in ((first, whole), (second, whole), (first, second)):
        assert ((one - other).norm(dim=1) > 1e-3).all()


def test_a_key_does_not_depend_on_images_of_other_groups(generator):
    """What a query could learn of its key from batch statistics is at most what is in the key's own group."""
    keys = keys_of(Normed, 3, generator)
    state = keys.generator.get_state()
    order = torch.Generator()
    order.set_state(state)
    changed = torch.randperm(BATCH, generator=order).chunk(3)[1]
    before = keys(VIEWS)
    keys.generator.set_state(state)
    other = VIEWS.clone()
    other[changed[0]] *= -3
    moved = (keys(other) - before).norm(dim=1) > 1e-9
    assert moved.nonzero().flatten().tolist() == sorted(changed.tolist())


def test_without_groups_statistics_are_the_whole_batch_s(generator):
    keys = keys_of(Normed, None, generator)
    state = keys.generator.get_state()
    torch.testing.assert_close(keys(VIEWS), plain_keys(keys.encoder, VIEWS))
    assert torch.equal(keys.generator.get_state(), state), "nothing is shuffled"


@pytest.mark.parametrize("groups", [None, 1, 2, 5])
def test_without_batch_norm_keys_are_plain_keys_however_they_are_grouped(groups, generator):
    keys = keys_of(Given, groups, generator)
    torch.testing.assert_close(keys(VIEWS), keys.encoder(VIEWS).detach())


@pytest.mark.parametrize("groups", [5, 12, 24])
def test_groups_that_cannot_be_equal_or_of_one_image_are_refused(groups, generator):
    keys = keys_of(Normed, groups, generator)
    with pytest.raises(InputError, match=rf"a batch of 12 cannot be normalised in {groups} equal groups of two"):
        keys(VIEWS)


@pytest.mark.parametrize("groups", [None, 3])
def test_keys_have_no_gradient_and_the_encoder_stays_as_it_is(groups, generator):
    encoder = Normed(generator).double()
    before = copy.deepcopy(encoder.state_dict())
    keys = KeyEncoder(encoder, 0.75, groups, seed=0)
    found = keys(VIEWS.clone().requires_grad_())
    assert not found.requires_grad
    assert not any(weight.requires_grad for weight in keys.parameters())
    assert type(encoder.norm) is nn.BatchNorm1d
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


@pytest.mark.parametrize("groups", [None, 3])
def test_following_moves_every_weight_by_the_rest_of_the_momentum(groups, generator):
    encoder = Normed(generator).double()
    keys = KeyEncoder(encoder, 0.75, groups, seed=0)
    start = {name: weight.clone() for name, weight in keys.encoder.named_parameters()}
    for weight in encoder.parameters():
        weight.data += 1
    keys.follow(encoder)
    for name, weight in keys.encoder.named_parameters():
        torch.testing.assert_close(weight, start[name] + 0.25)


def test_the_seed_repeats_the_shuffling_and_a_loaded_key_encoder_goes_on_with_it(generator):
    weights = generator.get_state()

    def made(seed):
        generator.set_state(weights)
        return keys_of(Normed, 3, generator, seed)

    first, again, other = made(0), made(0), made(1)
    assert torch.equal(first(VIEWS), again(VIEWS))
    assert not torch.equal(first(VIEWS), other(VIEWS))
    other.load_state_dict(first.state_dict())
    assert torch.equal(first(VIEWS), other(VIEWS))
