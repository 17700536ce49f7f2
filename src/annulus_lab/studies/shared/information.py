"""Estimates the information that two views share, with a trained encoder, on images outside of its training."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from annulus.bounds.infonce import infonce
from annulus.device.device import autocast
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.files.store import BATCH_SIZE
from annulus.methods.critics import scaled
from annulus.training.loop import Training
from annulus.views.patches import draw_views


def check_pairs(pairs: int, images: ImageSet) -> None:
    """Checks before any training that there are enough images for the pairs.

    Raises:
        InputError: when there are fewer images than pairs, with both numbers.
    """
    if len(images) < pairs:
        raise InputError(f"held_out_pairs: {pairs} is more than the {len(images)} test images; take fewer pairs")


@torch.no_grad()
def held_out(training: Training, images: ImageSet, pairs: int, seed: int) -> dict[str, Number]:
    """I_NCE of two views of each of `pairs` images among `pairs`, and its ceiling, the log of their number; in nats.

    Views are drawn as in training. The critic is the dot product over the method's temperature, without memory or
    learned critic. With a split into two networks, each network's embedding of one view is scored with the other's
    embedding of the other view. The estimate is then the mean.

    Source: Tian et al. 2020, arXiv:2005.10243, Eq. 3.2.

    Raises:
        InputError: when there are fewer images.
    """
    check_pairs(pairs, images)
    chosen = images.take(class_balanced_rows(images.labels, pairs))
    first, second = view_embeddings(training, chosen, "held-out views", 2, seed)
    temperature = training.method.params.temperature
    estimates = [
        _estimate(scaled(queries, temperature) @ keys.T) for queries, keys in zip(first, reversed(second), strict=True)
    ]
    return {"held_out_nats": sum(estimates) / len(estimates), "held_out_ceiling_nats": math.log(pairs)}


def class_balanced_rows(labels: Int64[Tensor, " n"], count: int) -> Int64[Tensor, " count"]:
    """Rows of `count` images: the first ones, or evenly spread ones if the set lists class after class.

    The first images of a sorted set, such as a folder's, have one class and are harder to distinguish.
    """
    class_after_class = (labels.diff() >= 0).all()
    return torch.arange(count) * len(labels) // count if class_after_class else torch.arange(count)


def view_embeddings(
    training: Training, images: ImageSet, name: str, count: int, seed: int
) -> list[list[Float[Tensor, "n d"]]]:
    """Embeddings by each network of the encoder, for each of `count` views of all images, drawn as in training."""
    encoder, store = training.method.encoder.eval(), images.images.on(training.device)
    random = [generator(seed, name, view) for view in range(count)]
    embeddings: list[list[tuple[Tensor, ...]]] = [[] for _ in range(count)]
    for index, chunk in store.in_turn(torch.arange(len(images)).split(BATCH_SIZE)):
        sizes = store.image_sizes(index)
        views = draw_views(chunk, training.settings.views, encoder.view_size, random, sizes=sizes)
        for view, view_batches in zip(views, embeddings, strict=True):
            with autocast(training.device):
                view_batches.append(encoder.embeddings(view))
    return [[torch.cat(parts).float() for parts in zip(*view_batches, strict=True)] for view_batches in embeddings]


def _estimate(scores: Float[Tensor, "n n"]) -> float:
    """log n minus InfoNCE of each row's own column among all columns, in nats."""
    negatives = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool, device=scores.device), -torch.inf)
    return math.log(len(scores)) - infonce(scores.diagonal()[:, None], negatives).item()
