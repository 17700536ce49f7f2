"""MoCo against a plain loop over its queue, whose keys are kept here as a list, step after step."""

from collections import deque

import method_cases as cases
import pytest
import torch
from plain_objectives import assert_same, gradient, plain_embeddings, plain_of, plain_scores

from annulus.config.methods import MoCoParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = MoCoParams(**cases.section(momentum=0.9, shuffle_groups=2))
VIEWS = cases.views_of(2)


def moco(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0, images=None):
    """Its queue holds keys of images, two of the batch's among them, or is as `images` says."""
    method = cases.method_of(PARAMS, cases.config_of(sampler, neighbours, bound, negatives), seed)
    if images is None:
        images = torch.arange(1, cases.QUEUE + 1)  # images 3, 17 and 22 have older keys, 0 and 40 have none
        images[4] = 3  # two of image 3
    method.queues[0].images.copy_(images)
    return method


def plain(method, state=None, progress=cases.PROGRESS, views=VIEWS, index=cases.INDEX):
    queries = plain_embeddings(views[0], method.encoder.weight)
    keys = plain_embeddings(views[1], method.keys.encoder.weight)
    positive = torch.stack([(query * key).sum() / cases.TEMPERATURE for query, key in zip(queries, keys, strict=True)])
    images = method.queues[0].images
    places = [(images == image).nonzero().flatten().tolist() for image in index]
    own = torch.tensor([[*found, -1, -1][:2] for found in places])
    scores = plain_scores(queries, method.queues[0].keys, cases.TEMPERATURE)
    return plain_of(method.contrasts[0], progress, scores, index, own, positive, images, state)


@cases.each_pick
def test_value_and_gradient_are_those_of_the_plain_loops(sampler, neighbours, bound, negatives, progress):
    """MoCo (ring eq. 4), MoCoRing, and the same for ball and cave."""
    cases.assert_plain(moco(sampler, neighbours, bound, negatives), plain, VIEWS, progress)


def test_steps_equal_plain_steps_and_the_queue_a_plain_deque_entry_by_entry():
    """Seven batches through a queue of 23: twice past its end, with images that come again while they are in it."""
    method = moco("ring", negatives=9, images=torch.full((cases.QUEUE,), -1))
    held = deque(zip(method.queues[0].keys.clone(), [-1] * cases.QUEUE, strict=True), maxlen=cases.QUEUE)
    slow, again = method.keys.encoder.weight.clone(), 0
    for number, index in enumerate(cases.indices(10, images=25)):
        views = cases.views_of(2, seed=number)
        again += len({image for _, image in held} & set(index.tolist()))
        keys = plain_embeddings(views[1], slow)
        state, in_queue = method.contrasts[0].generator.get_state(), method.queues[0].keys.clone()
        expected = plain(method, state, views=views, index=index)
        step = method.loss(views, index, cases.PROGRESS)
        assert_same(step.estimate, expected, method.encoder.weight)
        assert torch.equal(method.queues[0].keys, in_queue), "the batch's keys go in after the step"
        method.encoder.weight.data -= 0.1 * gradient(step.estimate.loss, method.encoder.weight)[0]
        method.after_step(index, step)

        slow = 0.9 * slow + 0.1 * method.encoder.weight.detach()
        torch.testing.assert_close(method.keys.encoder.weight, slow)
        held.extend(zip(keys, index.tolist(), strict=True))
        oldest_first = (int(method.queues[0].next) + torch.arange(cases.QUEUE)) % cases.QUEUE
        torch.testing.assert_close(method.queues[0].keys[oldest_first], torch.stack([key for key, _ in held]))
        assert method.queues[0].images[oldest_first].tolist() == [image for _, image in held]
    assert again > 10, "hardly any image met an older key of its own"


def test_images_are_clustered_for_cave_and_k_neighbours_and_embedded_for_nothing_else():
    embedded = []

    def embed():
        embedded.append(1)
        return torch.randn(41, 6, generator=torch.Generator().manual_seed(0))

    for sampler, neighbours, needed in (("ring", "s", 0), ("outside", "none", 1), ("uniform", "k", 1)):
        embedded.clear()
        moco(sampler, neighbours).before_epoch(1, embed)
        assert len(embedded) == needed
