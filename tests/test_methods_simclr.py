"""SimCLR against NT-Xent written plainly, and with ring, cave and neighbours against plain loops."""

import method_cases as cases
import pytest
import torch
from plain_objectives import plain_embeddings, plain_of, plain_scores

from annulus.config.methods import SimCLRParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = SimCLRParams(**cases.section())
BOTH = 2 * cases.BATCH
VIEWS = cases.views_of(2)


def simclr(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0):
    return cases.method_of(PARAMS, cases.config_of(sampler, neighbours, bound, negatives), seed)


def columns_of(view):
    """All other images' views, from the next one round: what a view is compared with."""
    return [other % BOTH for other in range(view + 1, view + BOTH) if other % cases.BATCH != view % cases.BATCH]


def plain(method, state=None, progress=cases.PROGRESS):
    embeddings = plain_embeddings(torch.cat(VIEWS), method.encoder.weight)
    similarity = plain_scores(embeddings, embeddings, cases.TEMPERATURE)
    columns = torch.tensor([columns_of(view) for view in range(BOTH)])
    scores = torch.stack([similarity[view, columns[view]] for view in range(BOTH)])
    positive = torch.stack([similarity[view, (view + cases.BATCH) % BOTH] for view in range(BOTH)])
    images = torch.cat([cases.INDEX, cases.INDEX])
    return plain_of(method.contrasts[0], progress, scores, images, None, positive, images[columns], state)


def nt_xent(embeddings):
    """Chen et al. 2020, eq. 1: l(i, j) over all but the view itself, mean over both directions of all pairs."""
    losses = []
    for i in range(BOTH):
        j = (i + cases.BATCH) % BOTH
        similar = {k: (embeddings[i] @ embeddings[k] / cases.TEMPERATURE).exp() for k in range(BOTH) if k != i}
        losses.append(-(similar[j] / sum(similar.values())).log())
    return sum(losses) / BOTH


def test_simclr_is_nt_xent():
    """In value and gradient; so the positive stands once in a denominator, as itself."""
    method = simclr()
    plainly = nt_xent(plain_embeddings(torch.cat(VIEWS), method.encoder.weight))
    estimate = method.loss(VIEWS, cases.INDEX, cases.PROGRESS).estimate
    torch.testing.assert_close(estimate.loss, plainly, rtol=1e-12, atol=0)
    ours, theirs = (torch.autograd.grad(loss, method.encoder.weight)[0] for loss in (estimate.loss, plainly))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_its_ceiling_is_that_of_2b_minus_2_negatives():
    estimate = simclr().loss(VIEWS, cases.INDEX, cases.PROGRESS).estimate
    assert estimate.ceiling_nats.exp().item() == pytest.approx(BOTH - 1)


@cases.each_pick
def test_value_and_gradient_are_those_of_the_plain_loops(sampler, neighbours, bound, negatives, progress):
    method = cases.in_two_clusters(simclr(sampler, neighbours, bound, negatives))
    cases.assert_plain(method, plain, VIEWS, progress)


def test_both_views_share_one_pass_and_so_one_batch_norm(monkeypatch):
    method, seen = simclr(), []
    forward = method.encoder.forward
    monkeypatch.setattr(method.encoder, "forward", lambda images: seen.append(len(images)) or forward(images))
    method.loss(VIEWS, cases.INDEX, cases.PROGRESS)
    assert seen == [BOTH]
