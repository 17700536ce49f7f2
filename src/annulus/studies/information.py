"""Estimates the information that two views share with a trained encoder, on images that no training has seen."""

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
from annulus.views.patches import views_of


def check_pairs(pairs: int, images: ImageSet) -> None:
    """Refuse more pairs than there are images, before anything is trained for them.

    Raises:
        InputError: with both numbers.
    """
    if len(images) < pairs:
        raise InputError(f"held_out_pairs: {pairs} is more than the {len(images)} test images; take fewer pairs")


@torch.no_grad()
def held_out(training: Training, images: ImageSet, pairs: int, seed: int) -> dict[str, Number]:
    """I_NCE of two views of each of `pairs` images among as many, and log of their number, which it cannot exceed.

    Views as in training; the method's temperature, without its memory or a learned critic. Where a split gives two
    networks, each one's embedding of a view finds the other's of the other view, and the estimate is the mean.

    Source: Tian et al. 2020, arXiv:2005.10243, Eq. 3.2.

    Raises:
        InputError: when there are fewer images.
    """
    check_pairs(pairs, images)
    chosen = images.take(of_all_classes(images.labels, pairs))
    first, second = view_embeddings(training, chosen, "held-out views", 2, seed)
    temperature = training.method.params.temperature
    estimates = [
        _estimate(scaled(queries, temperature) @ keys.T) for queries, keys in zip(first, reversed(second), strict=True)
    ]
    return {"held_out_nats": sum(estimates) / len(estimates), "held_out_ceiling_nats": math.log(pairs)}


def of_all_classes(labels: Int64[Tensor, " n"], count: int) -> Int64[Tensor, " count"]:
    """Rows of so many images: the first ones; where a set lists class after class, as folders do, evenly spread ones.

    The first images of such a set are of one class, and harder to tell apart.
    """
    class_after_class = (labels.diff() >= 0).all()
    return torch.arange(count) * len(labels) // count if class_after_class else torch.arange(count)


def view_embeddings(
    training: Training, images: ImageSet, name: str, count: int, seed: int
) -> list[list[Float[Tensor, "n d"]]]:
    """Of each of `count` views of all images, drawn as in training, the embeddings by each network of the encoder."""
    encoder, store = training.method.encoder.eval(), images.images.on(training.device)
    random = [generator(seed, name, view) for view in range(count)]
    found: list[list[tuple[Tensor, ...]]] = [[] for _ in range(count)]
    for index, chunk in store.in_turn(torch.arange(len(images)).split(BATCH_SIZE)):
        sizes = store.sizes_of(index)
        views = views_of(chunk, training.settings.views, encoder.view_size, random, sizes=sizes)
        for view, of_view in zip(views, found, strict=True):
            with autocast(training.device):
                of_view.append(encoder.embeddings(view))
    return [[torch.cat(parts).float() for parts in zip(*of_view, strict=True)] for of_view in found]


def _estimate(scores: Float[Tensor, "n n"]) -> float:
    """log n less the loss of finding each row's own column."""
    negatives = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool, device=scores.device), -torch.inf)
    return math.log(len(scores)) - infonce(scores.diagonal()[:, None], negatives).item()
