"""Key encoders: shuffled batch-norm by hand, whole-batch statistics without it, and following the encoder."""

import pytest
import torch
import torch.nn.functional as F
from method_cases import DIM, Given, views_of
from torch import nn

from annulus.methods import simo
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


def build_keys(groups, seed=0):
    return KeyEncoder(Normed(torch.Generator().manual_seed(5)).double(), 0.75, groups, seed)


def plain_keys(encoder, views):
    """Keys of one group: each channel to mean 0 and variance 1 (biased) over the group, then weight and bias."""
    turned = views.flatten(start_dim=1) @ encoder.weight
    mean = sum(turned) / len(turned)
    variance = sum((row - mean) ** 2 for row in turned) / len(turned)
    rows = [(row - mean) / (variance + 1e-5).sqrt() * encoder.norm.weight + encoder.norm.bias for row in turned]
    return torch.stack([row / row.norm() for row in rows]).detach()


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_each_group_of_the_shuffled_batch_is_normalised_apart_and_keys_come_back_in_order(groups):
    keys = build_keys(groups)
    order, results = torch.Generator(), []
    for _ in range(3):
        order.set_state(keys.generator.get_state())
        expected = torch.empty(BATCH, DIM, dtype=torch.float64)
        for part in torch.randperm(BATCH, generator=order).chunk(groups):
            expected[part] = plain_keys(keys.encoder, VIEWS[part])
        results.append(*keys(VIEWS))
        torch.testing.assert_close(results[-1], expected)
    assert ((results[0] - results[1]).norm(dim=1) > 1e-3).any() == (groups > 1), "other groups at each step"


def test_without_groups_statistics_are_the_whole_batch_s():
    keys = build_keys(None)
    state = keys.generator.get_state()
    torch.testing.assert_close(*keys(VIEWS), plain_keys(keys.encoder, VIEWS))
    assert torch.equal(keys.generator.get_state(), state), "nothing is shuffled"


@pytest.mark.parametrize("groups", [None, 3])
def test_keys_follow_a_copy_of_the_encoder_by_the_rest_of_the_momentum(groups, generator):
    encoder = Normed(generator).double()
    keys = KeyEncoder(encoder, 0.75, groups, seed=0)
    assert type(encoder.norm) is nn.BatchNorm1d, "the encoder stays as it is"
    start = {name: weight.clone() for name, weight in keys.encoder.named_parameters()}
    for weight in encoder.parameters():
        weight.data += 1
    keys.follow(encoder)
    for name, weight in keys.encoder.named_parameters():
        torch.testing.assert_close(weight, start[name] + 0.25)


def test_the_seed_repeats_the_shuffling_and_a_loaded_key_encoder_goes_on_with_it():
    first, again, other = build_keys(3), build_keys(3), build_keys(3, seed=1)
    assert torch.equal(*first(VIEWS), *again(VIEWS))
    assert not torch.equal(*first(VIEWS), *other(VIEWS))
    other.load_state_dict(first.state_dict())
    assert torch.equal(*first(VIEWS), *other(VIEWS))


def test_asking_which_images_are_shown_draws_nothing():
    keys = build_keys(3)
    state = keys.generator.get_state()
    for shares in keys.batch_shares(BATCH, 2):
        assert [each.rows.tolist() for each in shares] == 2 * [list(range(BATCH))]
    assert torch.equal(keys.generator.get_state(), state)


class Deep(Given):
    """`Given` with a normalisation layer of this kind."""

    def __init__(self, kind):
        super().__init__(torch.Generator())
        self.norm = kind(3)


@pytest.mark.parametrize(
    ("kind", "groups", "warns"),
    [(nn.SyncBatchNorm, 2, True), (nn.BatchNorm3d, 2, True), (nn.BatchNorm3d, 1, False), (nn.BatchNorm2d, 2, False)],
)
def test_layers_that_shuffle_groups_leave_as_they_are_are_named(kind, groups, warns, caplog):
    KeyEncoder(Deep(kind), 0.75, groups, seed=0)
    assert (f"shuffle_groups {groups} leaves layers {kind.__name__} as they are" in caplog.text) == warns


def test_simo_for_a_loop_of_several_processes_synchronises_queries_and_keys(monkeypatch):
    """The pipeline does the same; arXiv:2010.01929, Appendix B.1. The module is the network itself, not a copy."""
    encoders = []
    monkeypatch.setattr(simo, "world_size", lambda: 2)
    monkeypatch.setattr(simo, "synchronised", lambda module: encoders.append(module) or module)
    network = nn.Sequential(nn.Flatten(), nn.utils.skip_init(nn.Linear, 12, 4), nn.BatchNorm1d(4))
    for batch_norm in ("sync", "shuffle"):
        simo.SiMo.create(network, images=9, dim=4, batch_norm=batch_norm, shuffle_groups=2)
    assert [encoder.network for encoder in encoders] == [network]
