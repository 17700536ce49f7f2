"""SimCLR against NT-Xent written plainly, and with ring, cave and neighbours against plain loops."""

import pytest
import torch
from method_cases import (
    BATCH,
    COMBINATIONS,
    INDEX,
    PROGRESS,
    SAMPLERS,
    TEMPERATURE,
    assert_resumes,
    at,
    config_of,
    method_of,
    section,
    views_of,
)
from plain_objectives import assert_same, plain_embeddings, plain_of, plain_scores

from annulus.config.methods import SimCLRParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = SimCLRParams(**section())
BOTH = 2 * BATCH
VIEWS = views_of(2)


def simclr(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0):
    return method_of(PARAMS, config_of(sampler, neighbours, bound, negatives), seed)


def columns_of(view):
    """All other images' views, from the next one round: what a view is compared with."""
    return [other % BOTH for other in range(view + 1, view + BOTH) if other % BATCH != view % BATCH]


def plain(method, state=None, progress=PROGRESS):
    embeddings = plain_embeddings(torch.cat(VIEWS), method.encoder.weight)
    similarity = plain_scores(embeddings, embeddings, TEMPERATURE)
    columns = torch.tensor([columns_of(view) for view in range(BOTH)])
    scores = torch.stack([similarity[view, columns[view]] for view in range(BOTH)])
    positive = torch.stack([similarity[view, (view + BATCH) % BOTH] for view in range(BOTH)])
    images = torch.cat([INDEX, INDEX])
    return plain_of(method.contrast, progress, scores, images, None, positive, images[columns], state)


def nt_xent(embeddings):
    """Chen et al. 2020, eq. 1: l(i, j) over all but the view itself, mean over both directions of all pairs."""
    losses = []
    for i in range(BOTH):
        j = (i + BATCH) % BOTH
        similar = {k: (embeddings[i] @ embeddings[k] / TEMPERATURE).exp() for k in range(BOTH) if k != i}
        losses.append(-(similar[j] / sum(similar.values())).log())
    return sum(losses) / BOTH


def test_simclr_is_nt_xent():
    """In value and gradient; so the positive stands once in a denominator, as itself."""
    method = simclr()
    plainly = nt_xent(plain_embeddings(torch.cat(VIEWS), method.encoder.weight))
    estimate = method.loss(VIEWS, INDEX, PROGRESS).estimate
    torch.testing.assert_close(estimate.loss, plainly, rtol=1e-12, atol=0)
    ours, theirs = (torch.autograd.grad(loss, method.encoder.weight)[0] for loss in (estimate.loss, plainly))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_its_ceiling_is_that_of_2b_minus_2_negatives():
    estimate = simclr().loss(VIEWS, INDEX, PROGRESS).estimate
    assert estimate.ceiling_nats.exp().item() == pytest.approx(BOTH - 1)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("negatives", [4, "all"])
def test_every_sampler_has_the_value_and_gradient_of_the_plain_loops(sampler, negatives):
    """Where the own cluster leaves a view nothing, cave is refused; the seeds here leave all of them something."""
    method = simclr(sampler, negatives=negatives)
    if sampler in ("outside", "inside"):  # few images: clusters that every image of the batch has another one in
        method.contrast.clusters = torch.zeros_like(method.contrast.clusters)
        method.contrast.clusters[:, INDEX[2:]] = 1
    state = method.contrast.generator.get_state()
    estimate = method.loss(VIEWS, INDEX, PROGRESS).estimate
    assert_same(estimate, plain(method, state), method.encoder.weight)


@pytest.mark.parametrize(("bound", "neighbours"), COMBINATIONS, ids=[" + ".join(pair) for pair in COMBINATIONS])
def test_every_bound_and_neighbours_have_the_value_and_gradient_of_the_plain_loops(bound, neighbours):
    method = simclr("ring", neighbours, bound)
    if neighbours == "k":
        method.contrast.neighbour_clusters[:, INDEX[:2]] = 9
        method.contrast.neighbour_clusters[:, INDEX[2:]] = 8
    assert_same(method.loss(VIEWS, INDEX, PROGRESS).estimate, plain(method), method.encoder.weight)


@pytest.mark.parametrize("progress", [at(0.0, 0.0), at(0.4, 0.5), at(0.9, 1.0)], ids=str)
def test_the_progress_reaches_sampler_and_neighbours(progress):
    method = simclr("ring", "s")
    assert_same(method.loss(VIEWS, INDEX, progress).estimate, plain(method, progress=progress), method.encoder.weight)


def test_a_view_meets_each_view_of_every_other_image_once_and_never_its_own_image(monkeypatch):
    method, seen = simclr(), {}

    def recorded(scores, index, progress, positive, column_images):
        seen.update(scores=scores, index=index, positive=positive, columns=column_images)
        return type(method.contrast).forward(method.contrast, scores, index, progress, None, positive, column_images)

    monkeypatch.setattr(method.contrast, "forward", recorded)
    step = method.loss(VIEWS, INDEX, PROGRESS)
    similarity = step.queries @ step.queries.T / TEMPERATURE
    assert seen["index"].tolist() == [*INDEX.tolist(), *INDEX.tolist()]
    for view, image in enumerate(seen["index"].tolist()):
        assert image not in seen["columns"][view]
        expected = sorted(
            (of, similarity[view, other].item()) for other, of in enumerate(seen["index"].tolist()) if of != image
        )
        found = sorted(zip(seen["columns"][view].tolist(), seen["scores"][view].tolist(), strict=True))
        assert [of for of, _ in found] == [of for of, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected])
        assert seen["positive"][view].item() == pytest.approx(similarity[view, (view + BATCH) % BOTH].item())


def test_both_views_are_queries_and_both_learn():
    method = simclr()
    views = [view.clone().requires_grad_() for view in VIEWS]
    step = method.loss(views, INDEX, PROGRESS)
    step.queries.retain_grad()
    step.estimate.loss.backward()
    assert step.queries.shape == (BOTH, 6)
    for view in views:
        assert (view.grad.flatten(start_dim=1).norm(dim=1) > 0).all()
    assert (step.queries.grad.norm(dim=1) > 0).all()


def test_the_two_directions_count_the_same():
    method = simclr()
    losses = [method.loss(views, INDEX, PROGRESS).estimate.loss_nats for views in (VIEWS, VIEWS[::-1])]
    torch.testing.assert_close(*losses)


def test_both_views_share_one_pass_and_so_one_batch_norm(monkeypatch):
    method, seen = simclr(), []
    forward = method.encoder.forward
    monkeypatch.setattr(method.encoder, "forward", lambda images: seen.append(len(images)) or forward(images))
    method.loss(VIEWS, INDEX, PROGRESS)
    assert seen == [BOTH]


def test_k_negatives_are_drawn_for_each_view_and_anew_at_each_step():
    method = simclr(negatives=3)
    estimates = [method.loss(VIEWS, INDEX, PROGRESS).estimate for _ in range(3)]
    assert len({estimate.loss_nats.item() for estimate in estimates}) == 3
    assert estimates[0].ceiling_nats.exp().item() == pytest.approx(4)


def test_nothing_is_stored():
    method = simclr()
    before = {name: value.clone() for name, value in method.named_buffers()}
    method.start(lambda: pytest.fail("no embeddings are needed"))
    method.after_step(INDEX, method.loss(VIEWS, INDEX, PROGRESS))
    assert method.stored is None
    assert all(torch.equal(value, before[name]) for name, value in method.named_buffers())


@pytest.mark.parametrize(("sampler", "bound"), [("uniform", "binary-nce first-batch"), ("ring", "la")])
def test_a_loaded_method_goes_on_like_the_one_that_was_saved(sampler, bound):
    config = config_of(sampler, bound=bound, negatives=3)
    assert_resumes(PARAMS, config, [views_of(2, seed=number) for number in range(6)])
