"""Whole steps, re-implemented plainly: views, loss, SGD, memory, annealing, learning rate, one after the other.

The networks and the augmentations are the library's own; everything between them is written out here. The networks
compute in float64, since rounding in float32 grows a hundredfold over eight steps; embeddings are float32.
"""

import copy
import math

import pytest
import torch
from settings import run

from annulus.compute.rng import generator
from annulus.views.recipe import augment

EPOCHS, BATCH, BATCHES = 2, 16, 4
TEMPERATURE, RATE, BANK_RATE, KEY_MOMENTUM = 0.2, 0.3, 0.5, 0.8
SGD_MOMENTUM, WEIGHT_DECAY = 0.8, 0.5
OUTER, INNER = 0.5, 0.1  # the ring; its annealing ends after three quarters of training
CHOICES = {
    "sampler": "ring",
    "samplers.ring": {"outer": OUTER, "inner": INNER},
    "anneal": "linear",
    "anneals.linear.until": 0.75,
    "optimizer": {"momentum": SGD_MOMENTUM, "weight_decay": WEIGHT_DECAY},
    "scales.tiny.pretrain": {
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "negatives": 8,
        "queue": 32,
        "learning_rate": RATE,
        "validation_images": None,
    },
}
METHODS = {
    "ir": {"methods.ir.negatives": "all", "methods.ir.bank_rate": BANK_RATE},
    "moco": {"methods.moco.momentum": KEY_MOMENTUM, "methods.moco.shuffle_groups": 1},
    "simclr": {"methods.simclr.warmup": 0.0},
}


class PlainSGD:
    """theta <- theta - rate * v with v <- momentum * v + gradient + decay * theta, from v = 0."""

    def __init__(self, network):
        self.weights = [weight for weight in network.parameters() if weight.requires_grad]
        self.velocity = [torch.zeros_like(weight) for weight in self.weights]

    @torch.no_grad()
    def step(self, loss, rate):
        gradients = torch.autograd.grad(loss, self.weights)
        for weight, velocity, gradient in zip(self.weights, self.velocity, gradients, strict=True):
            velocity.mul_(SGD_MOMENTUM).add_(gradient + WEIGHT_DECAY * weight)
            weight.sub_(rate * velocity)


def ring_of(scores, excluded, others, progress):
    """The columns in the annealed ring, closest first, of one query's scores."""
    ranked = sorted((c for c in range(len(scores)) if c not in excluded), key=lambda column: -float(scores[column]))
    first = math.floor(round(INNER * progress * others, 6))
    last = math.floor(round((1 - (1 - OUTER) * progress) * others, 6))
    return ranked if (first, last) == (0, others) else ranked[first:last]


def infonce(positive, negatives):
    return (positive.exp() + negatives.exp().sum()).log() - positive


def unit(rows):
    return rows / rows.norm(dim=-1, keepdim=True)


class PlainIR:
    views = 1

    def __init__(self, method):
        self.bank = method.banks[0].rows.clone()

    def loss(self, encoder, views, index, progress):
        self.queries = encoder(views[0])
        losses = []
        for query, row in zip(self.queries, index.tolist(), strict=True):
            scores = self.bank @ query / TEMPERATURE
            ring = ring_of(scores.detach(), {row}, len(self.bank) - 1, progress)
            losses.append(infonce(scores[row], scores[ring]))
        return torch.stack(losses).mean()

    def after_step(self, encoder, index):
        mixed = BANK_RATE * self.bank[index] + (1 - BANK_RATE) * self.queries.detach()
        self.bank[index] = unit(mixed)

    def memory(self, method):
        return self.bank, method.banks[0].rows


class PlainMoCo:
    views = 2

    def __init__(self, method):
        self.keys, self.images = list(method.queues[0].keys.clone()), [-1] * len(method.queues[0].keys)
        self.key_encoder = copy.deepcopy(method.encoder)

    def loss(self, encoder, views, index, progress):
        queries = encoder(views[0])
        with torch.no_grad():
            self.new = self.key_encoder(views[1])
        losses = []
        for query, key, image in zip(queries, self.new, index.tolist(), strict=True):
            scores = torch.stack(self.keys) @ query / TEMPERATURE
            own = {column for column, other in enumerate(self.images) if other == image}
            ring = ring_of(scores.detach(), own, len(self.keys) - 1, progress)
            losses.append(infonce(query @ key / TEMPERATURE, scores[ring]))
        return torch.stack(losses).mean()

    @torch.no_grad()
    def after_step(self, encoder, index):
        """The oldest keys leave at the front; the queue's own places are compared as a set of rows."""
        fast = dict(encoder.named_parameters())
        for name, slow in self.key_encoder.named_parameters():
            slow.copy_(KEY_MOMENTUM * slow + (1 - KEY_MOMENTUM) * fast[name])
        self.keys = self.keys[len(index) :] + list(self.new)
        self.images = self.images[len(index) :] + index.tolist()

    def memory(self, method):
        oldest = int(method.queues[0].next)
        return torch.stack(self.keys), method.queues[0].keys.roll(-oldest, dims=0)


class PlainSimCLR:
    views = 2

    def __init__(self, method):
        pass

    def loss(self, encoder, views, index, progress):
        embeddings = encoder(torch.cat(views))
        count, losses = len(index), []
        for query in range(2 * count):
            other = (query + count) % (2 * count)
            scores = embeddings @ embeddings[query] / TEMPERATURE
            ring = ring_of(scores.detach(), {query, other}, 2 * count - 2, progress)
            losses.append(infonce(scores[other], scores[ring]))
        return torch.stack(losses).mean()

    def after_step(self, encoder, index):
        pass

    def memory(self, method):
        return torch.zeros(0), torch.zeros(0)


PLAIN = {"ir": PlainIR, "moco": PlainMoCo, "simclr": PlainSimCLR}


@pytest.mark.parametrize("name", METHODS)
def test_two_epochs_are_the_plain_steps_of_the_papers(name):
    """Kills what the loss alone does not show: an order turned round, annealing or decay left out, equal views.

    `after_step` comes after the optimiser's step: the key encoder of MoCo follows the encoder as it then is, and
    backward has read the memory that is overwritten.
    """
    training = run(CHOICES | METHODS[name] | {"method": name, f"methods.{name}.temperature": TEMPERATURE})
    for part in (training.method.encoder, getattr(training.method, "keys", None)):
        if part is not None:
            part.double()
    training.method.start(training._embed)
    assert training.batches == BATCHES
    encoder = copy.deepcopy(training.method.encoder).train()
    plain, sgd = PLAIN[name](training.method), PlainSGD(encoder)
    sgd_views = generator(training.recipe.seed, "views")
    losses = []
    for epoch in range(EPOCHS):
        order = torch.randperm(len(training.images), generator=generator(training.recipe.seed, "order", epoch))
        for batch in range(BATCHES):
            index = order[batch * BATCH : (batch + 1) * BATCH]
            trained = (epoch * BATCHES + batch) / (EPOCHS * BATCHES)
            images = training.images.take(index)
            views = [augment(images, training.recipe.views, 16, sgd_views) for _ in range(plain.views)]
            loss = plain.loss(encoder, views, index, min(trained / 0.75, 1.0))
            rate = RATE * BATCH / 256 * (1 + math.cos(math.pi * trained)) / 2
            sgd.step(loss, rate)
            plain.after_step(encoder, index)
            losses.append(loss.item())

    training.method.train()
    measured = []
    for epoch in range(EPOCHS):
        training.epoch, training.batch = epoch, 0
        order = training._order()
        for _ in range(BATCHES):
            training.step(order)
        measured += training.measured[:, 0].tolist()

    assert measured == pytest.approx(losses, rel=1e-4)
    for weight, expected in zip(training.method.encoder.parameters(), encoder.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-4)
    memory, expected = plain.memory(training.method)
    torch.testing.assert_close(expected, memory, rtol=0, atol=1e-4)
