"""Gradients of several batches for one optimiser's step, as in a user's own loop, against plain loops.

Each method has a network without batch-norm, in double precision, so that a batch's parts give the batch's gradient.
"""

import method_cases as cases
import pytest
import torch
import torch.nn.functional as F

from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import build_encoder
from annulus.methods.moco_jigsaw import MoCoJigsaw
from annulus.methods.pirl import PIRL

PARTS, RATE, MOMENTUM, BANK_RATE = 3, 0.5, 0.9, 0.25
ORDER = torch.randperm(cases.IMAGES, generator=torch.Generator().manual_seed(1))
# The second step repeats five images of the first, and its keys wrap round to the queue's start.
BATCHES = [ORDER[: PARTS * cases.BATCH], ORDER[(PARTS - 1) * cases.BATCH :][: PARTS * cases.BATCH]]
VIEWS = [cases.views_of(seed=9 + number, batch=len(index)) for number, index in enumerate(BATCHES)]


def build_method(name):
    method = cases.method_of(cases.PARAMS[name])
    for queue in getattr(method, "queues", ()):
        queue.images.fill_(-1)  # no key of an image yet
    return method


def train(method, parts, at_once=True):
    """Trains two steps of plain SGD with `parts` parts each; memories are written after each part or after the last."""
    optimizer = torch.optim.SGD(method.encoder.parameters(), lr=RATE)
    for index, views in zip(BATCHES, VIEWS, strict=True):
        rows, pending = torch.arange(len(index)).chunk(parts), []
        for number, some in enumerate(rows, start=1):
            step = method.loss([view[some] for view in views], index[some])
            (step.estimate.loss / parts).backward()
            pending.append((index[some], step))
            if number == parts:
                optimizer.step(), optimizer.zero_grad()
            if at_once or number == parts:
                for one in pending:
                    method.after_step(*one, follow=number == parts and one is pending[-1])
                pending.clear()
    return method


def infonce(positive, negatives):
    return torch.cat([positive[None], negatives]).logsumexp(dim=0) - positive


def plain_ir(weight, bank):
    """Weight and bank, after the two steps."""
    for index, [views, _] in zip(BATCHES, VIEWS, strict=True):
        gradient = torch.zeros_like(weight)
        for start in range(0, len(index), cases.BATCH):
            leaf, loss = weight.clone().requires_grad_(), 0.0
            queries = F.normalize(views[start : start + cases.BATCH].flatten(1) @ leaf, dim=1)
            own = index[start : start + cases.BATCH].tolist()
            for query, image in zip(queries, own, strict=True):
                scores = bank @ query / cases.TEMPERATURE
                loss += infonce(scores[image], torch.cat([scores[:image], scores[image + 1 :]])) / len(index)
            gradient += torch.autograd.grad(loss, leaf)[0]
            for query, image in zip(queries.detach(), own, strict=True):
                bank[image] = F.normalize(BANK_RATE * bank[image] + (1 - BANK_RATE) * query, dim=0)
        weight = weight - RATE * gradient
    return weight, bank


def plain_moco(weight, key_weight, keys):
    """Weight, key encoder's weight, and keys, oldest first, after the two steps."""
    keys, images = list(keys), [-1] * len(keys)
    for index, [views, others] in zip(BATCHES, VIEWS, strict=True):
        gradient = torch.zeros_like(weight)
        for start in range(0, len(index), cases.BATCH):
            leaf, loss = weight.clone().requires_grad_(), 0.0
            queries = F.normalize(views[start : start + cases.BATCH].flatten(1) @ leaf, dim=1)
            new = F.normalize(others[start : start + cases.BATCH].flatten(1) @ key_weight, dim=1)
            own = index[start : start + cases.BATCH].tolist()
            for query, key, image in zip(queries, new, own, strict=True):
                negatives = torch.stack([one for one, other in zip(keys, images, strict=True) if other != image])
                loss += infonce(query @ key / cases.TEMPERATURE, negatives @ query / cases.TEMPERATURE) / len(index)
            gradient += torch.autograd.grad(loss, leaf)[0]
            keys, images = keys[len(own) :] + list(new), images[len(own) :] + own
        weight = weight - RATE * gradient
        key_weight = MOMENTUM * key_weight + (1 - MOMENTUM) * weight  # once for all parts
    return weight, key_weight, torch.stack(keys), images


def test_of_ir_weights_and_bank_are_those_of_plain_loops():
    method = build_method("ir")
    weight, bank = plain_ir(method.encoder.weight.detach().clone(), method.banks[0].rows.clone())
    train(method, PARTS)
    torch.testing.assert_close([method.encoder.weight.detach(), method.banks[0].rows], [weight, bank])


def test_of_moco_the_key_encoder_follows_once_a_step_and_the_queue_gets_every_key_in_order():
    method = build_method("moco")
    start = [each.detach().clone() for each in (method.encoder.weight, method.keys.encoder.weight)]
    weight, key_weight, keys, images = plain_moco(*start, method.queues[0].keys.clone())
    train(method, PARTS)
    [queue], oldest = method.queues, -int(method.queues[0].next)
    actual = [method.encoder.weight.detach(), method.keys.encoder.weight, queue.keys.roll(oldest, dims=0)]
    torch.testing.assert_close(actual, [weight, key_weight, keys])
    assert queue.images.roll(oldest).tolist() == images


@pytest.mark.parametrize("name", ["ir", "moco"])
def test_memories_written_at_the_end_alone_make_the_parts_one_large_batch(name):
    """All columns are negatives. If each part is written at once, later parts see the embeddings of earlier ones."""
    parts, whole, mixed = (train(build_method(name), *how) for how in [(PARTS, False), (1,), (PARTS, True)])
    for [key, one], other in zip(parts.state_dict().items(), whole.state_dict().values(), strict=True):
        if torch.is_tensor(one) and key != "contrasts.0.generator":
            torch.testing.assert_close(one, other, msg=key)
    assert not torch.allclose(mixed.encoder.weight, whole.encoder.weight)


def moved(encoder):
    """Changes the encoder like an optimiser's step, so that an unwanted update of the keys shows."""
    with torch.no_grad():
        for weight in encoder.parameters():
            weight += 0.1
    return encoder


def test_of_simo_the_key_encoder_follows_when_asked_alone():
    method, [index, _], [views, _] = build_method("simo"), BATCHES, VIEWS
    slow = method.keys.encoder.weight.clone()
    moved(method.encoder)
    step = method.loss(views, index)
    method.after_step(index, step, follow=False)
    assert torch.equal(method.keys.encoder.weight, slow)
    method.after_step(index, step)
    torch.testing.assert_close(method.keys.encoder.weight, MOMENTUM * slow + (1 - MOMENTUM) * method.encoder.weight)


@pytest.mark.parametrize("kind", [PIRL, MoCoJigsaw])
def test_with_a_jigsaw_every_part_is_stored_and_the_key_encoder_waits(kind):
    config = EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    settings = {"queue": 64} if kind is MoCoJigsaw else {"bank_rate": 0.0}
    method, random = kind.create(build_encoder(config, seed=0), images=100, **settings), torch.Generator()
    slow = [weight.clone() for weight in method.keys.encoder.parameters()] if kind is MoCoJigsaw else []
    stored = []
    for index in torch.arange(24).split(8):
        step = method.loss([torch.rand(8, 3, 32, 32, generator=random) for _ in range(method.views)], index)
        stored.append(step.stored[0])
        moved(method.encoder)
        method.after_step(index, step, follow=False)
    assert kind is PIRL or all(map(torch.equal, slow, method.keys.encoder.parameters()))
    memory = method.queues[0].keys if kind is MoCoJigsaw else method.banks[0].rows
    torch.testing.assert_close(memory[:24], torch.cat(stored))
