"""Whole steps against plain code: views, loss, SGD, memory, annealing and learning rate in sequence.

The networks and the augmentations are the library's own; everything between them is written out here. The networks
compute in float64, since rounding in float32 grows a hundredfold over eight steps; embeddings are float32.
"""

import copy
import math

import pytest
import torch
from settings import observer, run

from annulus.device.rng import generator
from annulus.training.measurement import Measurement
from annulus.views.recipe import augment

EPOCHS, BATCH, BATCHES = 2, 16, 4
TEMPERATURE, RATE, BANK_RATE, KEY_MOMENTUM = 0.2, 0.3, 0.5, 0.8
SGD_MOMENTUM, WEIGHT_DECAY = 0.8, 0.5
OUTER, INNER = 0.5, 0.1  # the ring; its annealing ends after three quarters of training
SCALE = {"epochs": EPOCHS, "batch_size": BATCH, "negatives": 8, "queue": 32}
CHOICES = {
    "sampler": "ring",
    "samplers.ring": {"outer": OUTER, "inner": INNER},
    "anneal": "linear",
    "anneals.linear.until": 0.75,
    "optimizer": {"momentum": SGD_MOMENTUM, "weight_decay": WEIGHT_DECAY},
    "scales.tiny.pretrain": SCALE | {"learning_rate": RATE, "validation_images": None},
    **{"methods.ir.negatives": "all", "methods.ir.bank_rate": BANK_RATE},
    **{"methods.moco.momentum": KEY_MOMENTUM, "methods.moco.shuffle_groups": 1, "methods.simclr.warmup": 0.0},
}


def ring_columns(scores, excluded, others, progress):
    """Columns of one query's scores in the annealed ring, closest first."""
    ranked = sorted((c for c in range(len(scores)) if c not in excluded), key=lambda column: -float(scores[column]))
    first = math.floor(round(INNER * progress * others, 6))
    last = math.floor(round((1 - (1 - OUTER) * progress) * others, 6))
    return ranked if (first, last) == (0, others) else ranked[first:last]


def infonce(positive, negatives):
    return (positive.exp() + negatives.exp().sum()).log() - positive


class PlainIR:
    views = 1

    def __init__(self, method):
        self.bank = method.banks[0].rows.clone()

    def losses(self, encoder, views, index, progress):
        self.queries = encoder(views[0])
        for query, row in zip(self.queries, index.tolist(), strict=True):
            scores = self.bank @ query / TEMPERATURE
            yield infonce(scores[row], scores[ring_columns(scores.detach(), {row}, len(self.bank) - 1, progress)])

    def after_step(self, encoder, index):
        mixed = BANK_RATE * self.bank[index] + (1 - BANK_RATE) * self.queries.detach()
        self.bank[index] = mixed / mixed.norm(dim=-1, keepdim=True)

    def memories(self, method):
        return self.bank, method.banks[0].rows


class PlainMoCo:
    views = 2

    def __init__(self, method):
        self.keys, self.images = list(method.queues[0].keys.clone()), [-1] * len(method.queues[0].keys)
        self.key_encoder = copy.deepcopy(method.encoder)

    def losses(self, encoder, views, index, progress):
        with torch.no_grad():
            self.new = self.key_encoder(views[1])
        for query, key, image in zip(encoder(views[0]), self.new, index.tolist(), strict=True):
            scores = torch.stack(self.keys) @ query / TEMPERATURE
            own = {column for column, other in enumerate(self.images) if other == image}
            ring = ring_columns(scores.detach(), own, len(self.keys) - 1, progress)
            yield infonce(query @ key / TEMPERATURE, scores[ring])

    @torch.no_grad()
    def after_step(self, encoder, index):
        """The oldest keys leave at the front."""
        for slow, fast in zip(self.key_encoder.parameters(), encoder.parameters(), strict=True):
            slow.copy_(KEY_MOMENTUM * slow + (1 - KEY_MOMENTUM) * fast)
        self.keys = self.keys[len(index) :] + list(self.new)
        self.images = self.images[len(index) :] + index.tolist()

    def memories(self, method):
        oldest = int(method.queues[0].next)
        return torch.stack(self.keys), method.queues[0].keys.roll(-oldest, dims=0)


class PlainSimCLR:
    views = 2

    def __init__(self, method):
        """Nothing is kept."""

    def losses(self, encoder, views, index, progress):
        embeddings, count = encoder(torch.cat(views)), 2 * len(index)
        for query in range(count):
            other = (query + len(index)) % count
            scores = embeddings @ embeddings[query] / TEMPERATURE
            yield infonce(scores[other], scores[ring_columns(scores.detach(), {query, other}, count - 2, progress)])

    def after_step(self, encoder, index):
        pass

    def memories(self, method):
        return torch.zeros(0), torch.zeros(0)


@pytest.mark.parametrize(("name", "kind"), [("ir", PlainIR), ("moco", PlainMoCo), ("simclr", PlainSimCLR)])
def test_two_epochs_are_the_plain_steps_of_the_papers(name, kind):
    """Catches faults that the loss alone does not show: a reversed order, missing annealing or decay, equal views.

    `after_step` comes after the optimiser's step: the key encoder of MoCo follows the updated encoder, and backward
    has already read the memory that is overwritten.
    """
    training = run(CHOICES | {"method": name, f"methods.{name}.temperature": TEMPERATURE})
    for part in (training.method.encoder, getattr(training.method, "keys", None)):
        if part is not None:
            part.double()
    training.method.start(training._embed)
    encoder = copy.deepcopy(training.method.encoder).train()
    plain, weights = kind(training.method), [weight for weight in encoder.parameters() if weight.requires_grad]
    velocities, losses, random = [torch.zeros_like(weight) for weight in weights], [], generator(0, "views")
    for epoch in range(EPOCHS):
        order = torch.randperm(len(training.images), generator=generator(0, "order", epoch))
        for batch in range(BATCHES):
            index = order[batch * BATCH : (batch + 1) * BATCH]
            progress = (epoch * BATCHES + batch) / (EPOCHS * BATCHES)
            images = training.images.take(index)
            views = [augment(images, training.settings.views, 16, random) for _ in range(plain.views)]
            loss = torch.stack([*plain.losses(encoder, views, index, min(progress / 0.75, 1.0))]).mean()
            losses.append(loss.item())
            rate = RATE * BATCH / 256 * (1 + math.cos(math.pi * progress)) / 2
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():  # v <- momentum * v + gradient + decay * theta; theta <- theta - rate * v
                for weight, velocity, gradient in zip(weights, velocities, gradients, strict=True):
                    velocity.mul_(SGD_MOMENTUM).add_(gradient + WEIGHT_DECAY * weight)
                    weight.sub_(rate * velocity)
            plain.after_step(encoder, index)

    training.method.train()
    training_losses = []
    for epoch in range(EPOCHS):
        training.epoch, training.batch = epoch, 0
        order = training.order()
        assert len(order) == BATCHES
        for _ in range(BATCHES):
            training.step(order)
        training_losses += observer(training, Measurement).losses.tolist()

    assert training_losses == pytest.approx(losses, rel=1e-4)
    for weight, expected in zip(training.method.encoder.parameters(), encoder.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-4)
    plain_memory, memory = plain.memories(training.method)
    torch.testing.assert_close(memory, plain_memory, rtol=0, atol=1e-4)
