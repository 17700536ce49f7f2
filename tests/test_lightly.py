"""SimCLR and MoCo against lightly's NTXentLoss on the same embeddings: the same mathematics, written by others."""

from functools import partial

import pytest
import torch
from method_cases import Given
from torch import nn

from annulus.bounds.infonce import InfoNCE
from annulus.config.methods import MoCoParams, SimCLRParams
from annulus.methods.build import build_method
from annulus.methods.contrast import ContrastConfig, Progress
from annulus.methods.step import Setting
from annulus.negatives.samplers import Ring

lightly_loss = pytest.importorskip(
    "lightly.loss", reason="lightly is not installed; it comes with `make install`, or pip install 'annulus[bench]'"
)

IMAGES, BATCH, DIM, QUEUE = 96, 16, 48, 40
OBJECTIVE = ContrastConfig(Ring(0.0, 1.0), None, InfoNCE(), "all")
START = Progress(training=0.0, annealing=1.0)
each_temperature = pytest.mark.parametrize("temperature", [0.07, 0.5])
each_precision = pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])


def build(params, temperature):
    """Over `Given`, whose one weight here changes nothing."""
    encoder = Given(torch.Generator())
    encoder.weight = nn.Parameter(torch.eye(DIM))
    common = {"temperature": temperature, "negatives": "all", "embedding_dim": DIM, "head": "linear", "warmup": 0.0}
    setting = Setting(OBJECTIVE, IMAGES, IMAGES, QUEUE, seed=0, device=torch.device("cpu"))
    return build_method(encoder, params(**common), setting)


def lightly_s(temperature, keys=None):
    """lightly's loss; for MoCo with these keys in its memory bank."""
    with torch.random.fork_rng(devices=[]):  # it fills the bank from the global generator
        criterion = lightly_loss.NTXentLoss(temperature, memory_bank_size=0 if keys is None else tuple(keys.shape))
    if keys is not None:
        criterion.memory_bank.bank = keys.clone()
    return criterion


def views_of(generator, dtype):
    """Two views of each image, a little alike; not of unit length, which both sides see to."""
    common = torch.randn(BATCH, 3, 4, 4, generator=generator, dtype=dtype)
    return [common + 1.5 * torch.randn(common.shape, generator=generator, dtype=dtype) for _ in range(2)]


def value_and_gradients(function, views):
    leaves = [view.clone().requires_grad_() for view in views]
    value = function(leaves)
    value.backward()
    return value.item(), [leaf.grad for leaf in leaves if leaf.grad is not None]


def assert_same(ours, theirs, close):
    """To this share of the value, and of the gradient's length."""
    assert ours[0] == pytest.approx(theirs[0], rel=close)
    for mine, other in zip(ours[1], theirs[1], strict=True):
        assert (mine - other).norm() < close * other.norm()


@each_temperature
@each_precision
def test_simclr_has_the_value_and_gradient_of_lightly_s_loss(temperature, dtype, close, generator):
    method, criterion = build(SimCLRParams, temperature).to(dtype), lightly_s(temperature)
    views = views_of(generator, dtype)
    index = torch.randperm(IMAGES, generator=generator)[:BATCH]
    ours = value_and_gradients(lambda views: method.loss(views, index, START).estimate.loss, views)
    theirs = value_and_gradients(lambda views: criterion(*(view.flatten(start_dim=1) for view in views)), views)
    assert len(ours[1]) == 2  # both views are queries
    assert_same(ours, theirs, close)


@each_temperature
@each_precision
def test_moco_has_the_value_and_gradient_of_lightly_s_loss_over_the_same_queue(temperature, dtype, close, generator):
    """Two batches long, so that the second one meets what each side stored of the first; no image comes twice.

    No further: where the queue wraps round, lightly drops the keys that do not fit, and where an image comes again it
    takes the query's own older key as a negative.
    """
    method = build(partial(MoCoParams, momentum=0.9, shuffle_groups=2), temperature).to(dtype)
    criterion = lightly_s(temperature, method.queues[0].keys)
    order = torch.randperm(IMAGES, generator=generator)
    for index in order[: 2 * BATCH].split(BATCH):
        views, steps = views_of(generator, dtype), []

        def ours_of(views, index=index, steps=steps):
            steps.append(method.loss(views, index, START))
            return steps[0].estimate.loss

        ours = value_and_gradients(ours_of, views)
        theirs = value_and_gradients(
            lambda views: criterion(views[0].flatten(start_dim=1), views[1].detach().flatten(start_dim=1)), views
        )
        assert len(ours[1]) == 1  # no gradient into the keys
        assert_same(ours, theirs, close)
        method.after_step(index, *steps)
        torch.testing.assert_close(method.queues[0].keys, criterion.memory_bank.bank, rtol=0, atol=close)
    assert (method.queues[0].images >= 0).sum() == 2 * BATCH
