"""MoCo against a plain loop over its queue, whose keys are kept here as a list, step after step."""

from collections import deque

import pytest
import torch
from method_cases import (
    BATCH,
    COMBINATIONS,
    INDEX,
    PROGRESS,
    QUEUE,
    SAMPLERS,
    TEMPERATURE,
    assert_resumes,
    at,
    config_of,
    indices,
    learn,
    method_of,
    section,
    views_of,
)
from plain_objectives import assert_same, gradient, plain_embeddings, plain_of, plain_scores

from annulus.config.methods import MoCoParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = MoCoParams(**section(momentum=0.9, shuffle_groups=2))
VIEWS = views_of(2)


def moco(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0, images=None):
    """Its queue holds keys of images, two of the batch's among them, or is as `images` says."""
    method = method_of(PARAMS, config_of(sampler, neighbours, bound, negatives), seed)
    if images is None:
        images = torch.arange(1, QUEUE + 1)  # images 3, 17 and 22 have older keys, 0 and 40 have none
        images[4] = 3  # two of image 3
    method.queue.images.copy_(images)
    return method


def plain(method, state=None, progress=PROGRESS, views=VIEWS, index=INDEX):
    queries = plain_embeddings(views[0], method.encoder.weight)
    keys = plain_embeddings(views[1], method.keys.encoder.weight)
    positive = torch.stack([(query * key).sum() / TEMPERATURE for query, key in zip(queries, keys, strict=True)])
    images = method.queue.images
    places = [(images == image).nonzero().flatten().tolist() for image in index]
    own = torch.tensor([[*found, -1, -1][:2] for found in places])
    scores = plain_scores(queries, method.queue.keys, TEMPERATURE)
    return plain_of(method.contrast, progress, scores, index, own, positive, images, state)


# --- the loss -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("negatives", [15, "all"])
def test_every_sampler_has_the_value_and_gradient_of_the_plain_loops(sampler, negatives):
    """MoCo (ring eq. 4), MoCoRing, and the same for ball and cave."""
    method = moco(sampler, negatives=negatives)
    state = method.contrast.generator.get_state()
    estimate = method.loss(VIEWS, INDEX, PROGRESS).estimate
    assert_same(estimate, plain(method, state), method.encoder.weight)


@pytest.mark.parametrize(("bound", "neighbours"), COMBINATIONS, ids=[" + ".join(pair) for pair in COMBINATIONS])
def test_every_bound_and_neighbours_have_the_value_and_gradient_of_the_plain_loops(bound, neighbours):
    method = moco("ring", neighbours, bound)
    assert_same(method.loss(VIEWS, INDEX, PROGRESS).estimate, plain(method), method.encoder.weight)


@pytest.mark.parametrize("progress", [at(0.0, 0.0), at(0.3, 0.5), at(0.9, 1.0)], ids=str)
def test_the_progress_reaches_sampler_and_neighbours(progress):
    method = moco("ring", "s")
    assert_same(method.loss(VIEWS, INDEX, progress).estimate, plain(method, progress=progress), method.encoder.weight)


def test_all_is_the_whole_queue_but_for_the_query_s_own_older_key():
    """Equation 4 written out, image by image."""
    method = moco()
    losses = []
    for query, image in enumerate(INDEX.tolist()):
        q, k = (
            plain_embeddings(view, weight)[query]
            for view, weight in zip(VIEWS, (method.encoder.weight, method.keys.encoder.weight), strict=True)
        )
        others = [key for key, of in zip(method.queue.keys, method.queue.images.tolist(), strict=True) if of != image]
        assert len(others) == QUEUE - {3: 2, 17: 1, 22: 1}.get(image, 0)
        top = (q @ k / TEMPERATURE).exp()
        losses.append(-(top / (top + sum((q @ key / TEMPERATURE).exp() for key in others))).log())
    found = method.loss(VIEWS, INDEX, PROGRESS).estimate
    torch.testing.assert_close(found.loss, (sum(losses) / BATCH).detach())


@pytest.mark.parametrize("sampler", ["uniform", "ring"])
@pytest.mark.parametrize("negatives", [500, "all"])
def test_the_query_s_own_older_key_counts_for_nothing_wherever_it_lies(sampler, negatives):
    method, gradients = moco(sampler, negatives=negatives), []
    state = method.contrast.generator.get_state()
    place = int((method.queue.images == 17).nonzero())
    row = INDEX.tolist().index(17)
    for key in (plain_embeddings(VIEWS[0], method.encoder.weight)[row], -method.queue.keys[place]):
        method.queue.keys[place] = key.detach()
        method.contrast.generator.set_state(state)
        step = method.loss(VIEWS, INDEX, PROGRESS)
        gradients.append(gradient(step.estimate.loss, step.queries)[0])
    assert torch.equal(gradients[0][row], gradients[1][row])
    assert not torch.equal(gradients[0], gradients[1]), "for the others it is a negative like any"


def test_queries_and_keys_are_not_the_same_and_keys_get_no_gradient():
    method = moco()
    views = [view.clone().requires_grad_() for view in VIEWS]
    method.loss(views, INDEX, PROGRESS).estimate.loss.backward()
    assert views[0].grad.abs().sum() > 0
    assert views[1].grad is None
    assert [name for name, weight in method.named_parameters() if weight.requires_grad] == ["encoder.weight"]
    swapped = method.loss(VIEWS[::-1], INDEX, PROGRESS).estimate
    assert swapped.loss != method.loss(VIEWS, INDEX, PROGRESS).estimate.loss_nats


def test_the_keys_are_made_by_the_momentum_encoder():
    method = moco()
    before = method.loss(VIEWS, INDEX, PROGRESS)
    method.keys.encoder.weight.data.copy_(torch.eye(6))
    after = method.loss(VIEWS, INDEX, PROGRESS)
    assert torch.equal(before.queries, after.queries)
    torch.testing.assert_close(after.stored[0], plain_embeddings(VIEWS[1], torch.eye(6, dtype=torch.float64)))
    assert not torch.equal(before.stored[0], after.stored[0])


# --- the queue and the momentum encoder ---------------------------------------------------------------


def test_steps_equal_plain_steps_and_the_queue_a_plain_deque_entry_by_entry():
    """Seven batches through a queue of 23: twice past its end, with images that come again while they are in it."""
    method = moco("ring", negatives=9, images=torch.full((QUEUE,), -1))
    held = deque(zip(method.queue.keys.clone(), [-1] * QUEUE, strict=True), maxlen=QUEUE)
    slow, again = method.keys.encoder.weight.clone(), 0
    batches = indices(10, images=25)
    for number, index in enumerate(batches):
        views = views_of(2, seed=number)
        again += len({image for _, image in held} & set(index.tolist()))
        keys = plain_embeddings(views[1], slow)
        state, in_queue = method.contrast.generator.get_state(), method.queue.keys.clone()
        expected = plain(method, state, views=views, index=index)
        step = method.loss(views, index, PROGRESS)
        assert_same(step.estimate, expected, method.encoder.weight)
        assert torch.equal(method.queue.keys, in_queue), "the batch's keys go in after the step"
        method.encoder.weight.data -= 0.1 * gradient(step.estimate.loss, method.encoder.weight)[0]
        method.after_step(index, step)

        slow = 0.9 * slow + 0.1 * method.encoder.weight.detach()
        torch.testing.assert_close(method.keys.encoder.weight, slow)
        held.extend(zip(keys, index.tolist(), strict=True))
        oldest_first = (int(method.queue.next) + torch.arange(QUEUE)) % QUEUE
        torch.testing.assert_close(method.queue.keys[oldest_first], torch.stack([key for key, _ in held]))
        assert method.queue.images[oldest_first].tolist() == [image for _, image in held]
    assert again > 10, "hardly any image met an older key of its own"


def test_a_batch_written_before_backward_is_refused_by_autograd():
    method = moco()
    step = method.loss(VIEWS, INDEX, PROGRESS)
    method.after_step(INDEX, step)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        step.estimate.loss.backward()


def test_images_are_clustered_for_cave_and_k_neighbours_and_embedded_for_nothing_else():
    embedded = []

    def embed():
        embedded.append(1)
        return torch.randn(41, 6, generator=torch.Generator().manual_seed(0))

    for sampler, neighbours, needed in (("ring", "s", 0), ("outside", "none", 1), ("uniform", "k", 1)):
        embedded.clear()
        moco(sampler, neighbours).before_epoch(1, embed)
        assert len(embedded) == needed


def test_nothing_is_stored_of_every_image():
    method = moco()
    before = method.queue.keys.clone()
    method.start(lambda: pytest.fail("no embeddings are needed"))
    assert torch.equal(method.queue.keys, before)
    assert method.stored is None


@pytest.mark.parametrize(("sampler", "bound"), [("uniform", "infonce"), ("outside", "binary-nce moving-average")])
def test_a_loaded_method_goes_on_like_the_one_that_was_saved(sampler, bound):
    """Both encoders, the queue with its images and pointer, clusters, partition and two generators."""
    config = config_of(sampler, bound=bound, negatives=10)
    assert_resumes(PARAMS, config, [views_of(2, seed=number) for number in range(14)])


def test_the_seed_repeats_the_queue_and_the_negatives():
    first, again, other = (moco(negatives=5, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.queue.keys, again.queue.keys)
    assert not torch.equal(first.queue.keys, other.queue.keys)
    losses = [[learn(m, VIEWS).estimate.loss_nats.item() for _ in range(3)] for m in (first, again)]
    assert losses[0] == losses[1]
    assert len(set(losses[0])) == 3
