"""SimCLR and MoCo against lightly's NTXentLoss on the same embeddings: the same mathematics, written by others."""

from functools import partial

import pytest
import torch
from method_cases import Given
from torch import nn

from annulus.bounds.infonce import InfoNCE
from annulus.methods.contrast_config import ContrastConfig, Progress
from annulus.methods.moco import MoCoSettings
from annulus.methods.simclr import SimCLRSettings
from annulus.methods.step import Setting
from annulus.negatives.samplers import Uniform

lightly_loss = pytest.importorskip("lightly.loss", reason="lightly is not installed; `make install` brings it")

IMAGES, BATCH, DIM, QUEUE, TEMPERATURE = 96, 16, 48, 40, 0.07
START = Progress(training=0.0, annealing=1.0)


def build(params):
    """A method over `Given` with the identity for its weight."""
    encoder = Given(torch.Generator())
    encoder.weight = nn.Parameter(torch.eye(DIM))
    common = {"temperature": TEMPERATURE, "negatives": "all", "embedding_dim": DIM, "head": "linear", "warmup": 0.0}
    objective = ContrastConfig(Uniform(), None, InfoNCE(), "all")
    setting = Setting(objective, IMAGES, IMAGES, QUEUE, seed=0, device=torch.device("cpu"))
    settings = params(**common)
    return settings.method(encoder, settings, setting).double()


def two_views(generator):
    """Two similar views of each image, not of unit length; both sides normalise them."""
    common = torch.randn(BATCH, 3, 4, 4, generator=generator, dtype=torch.float64)
    return [(common + 1.5 * torch.randn(common.shape, generator=generator).double()).requires_grad_() for _ in range(2)]


def assert_same(ours, theirs, *views):
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    for mine, other in zip(*(torch.autograd.grad(loss, views) for loss in (ours, theirs)), strict=True):
        assert (mine - other).norm() < 1e-12 * other.norm()


def test_simclr_has_the_value_and_gradient_of_lightly_s_loss(generator):
    views, index = two_views(generator), torch.randperm(IMAGES, generator=generator)[:BATCH]
    theirs = lightly_loss.NTXentLoss(TEMPERATURE)(*(view.flatten(start_dim=1) for view in views))
    assert_same(build(SimCLRSettings).loss(views, index, START).estimate.loss, theirs, *views)


def test_moco_has_the_value_and_gradient_of_lightly_s_loss_over_the_same_queue(generator):
    """Two batches, so that the second one reads the stored keys of the first; no image comes twice.

    Further batches would differ. When the queue wraps round, lightly drops the keys that do not fit. When an image
    comes again, lightly takes the query's own older key as a negative.
    """
    method = build(partial(MoCoSettings, momentum=0.9, shuffle_groups=2))
    with torch.random.fork_rng(devices=[]):  # it fills the bank from the global generator
        criterion = lightly_loss.NTXentLoss(TEMPERATURE, memory_bank_size=tuple(method.queues[0].keys.shape))
    criterion.memory_bank.bank = method.queues[0].keys.clone()
    for index in torch.randperm(IMAGES, generator=generator)[: 2 * BATCH].split(BATCH):
        views = two_views(generator)
        step = method.loss(views, index, START)
        assert torch.autograd.grad(step.estimate.loss, views[1], retain_graph=True, allow_unused=True) == (None,)
        theirs = criterion(views[0].flatten(start_dim=1), views[1].detach().flatten(start_dim=1))
        assert_same(step.estimate.loss, theirs, views[0])
        method.after_step(index, step)
        torch.testing.assert_close(method.queues[0].keys, criterion.memory_bank.bank, rtol=0, atol=1e-12)
    assert (method.queues[0].images >= 0).sum() == 2 * BATCH
