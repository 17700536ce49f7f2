"""SimCLR against NT-Xent written plainly; test_methods_step.py has it with ring, cave and neighbours."""

import pytest
import torch
from method_cases import BATCH, INDEX, PARAMS, PROGRESS, TEMPERATURE, VIEWS, Given, method_of
from plain_objectives import plain_embeddings

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
VIEWS = VIEWS[Given]


@pytest.fixture
def simclr():
    return method_of(PARAMS["simclr"])


def nt_xent(embeddings):
    """Chen et al. 2020, eq. 1: l(i, j) over all but the view itself, mean over both directions of all pairs."""
    losses, count = [], 2 * BATCH
    for i in range(count):
        similar = {k: (embeddings[i] @ embeddings[k] / TEMPERATURE).exp() for k in range(count) if k != i}
        losses.append(-(similar[(i + BATCH) % count] / sum(similar.values())).log())
    return sum(losses) / count


def test_simclr_is_nt_xent(simclr):
    """In value and gradient; so the positive stands once in a denominator, as itself."""
    plainly = nt_xent(plain_embeddings(torch.cat(VIEWS), simclr.encoder.weight))
    loss = simclr.loss(VIEWS, INDEX, PROGRESS).estimate.loss
    torch.testing.assert_close(loss, plainly, rtol=1e-12, atol=0)
    ours, theirs = (torch.autograd.grad(each, simclr.encoder.weight)[0] for each in (loss, plainly))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_its_ceiling_is_that_of_2b_minus_2_negatives(simclr):
    estimate = simclr.loss(VIEWS, INDEX, PROGRESS).estimate
    assert estimate.ceiling_nats.exp().item() == pytest.approx(2 * BATCH - 1)


def test_both_views_share_one_pass_and_so_one_batch_norm(simclr, monkeypatch):
    seen, forward = [], simclr.encoder.forward
    monkeypatch.setattr(simclr.encoder, "forward", lambda images: seen.append(len(images)) or forward(images))
    simclr.loss(VIEWS, INDEX, PROGRESS)
    assert seen == [2 * BATCH]
