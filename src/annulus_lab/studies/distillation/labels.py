"""Rows of a memory by the labels of their images, so that a query can leave out its own class."""

import torch
from jaxtyping import Int
from torch import Tensor

from annulus.errors import InputError
from annulus.negatives.ranks import rank_limits


def rows_by_class(labels: Int[Tensor, "n"]) -> Int[Tensor, "classes most"]:
    """Rows of each class, padded with -1: the query's own columns of `annulus.negatives.own`."""
    order = labels.argsort(stable=True)
    counts = labels.bincount()
    padded = torch.nn.utils.rnn.pad_sequence(order.split(counts.tolist()), batch_first=True, padding_value=-1)
    return padded.to(labels.device)


def check_other_classes(labels: Int[Tensor, "n"], shares: tuple[float, float]) -> None:
    """Checks that a sampler's set holds images of other classes; the query's own class ranks after all others.

    Raises:
        InputError: when the largest class leaves no negative.
    """
    most, images = int(labels.bincount().max()), len(labels)
    first, last = rank_limits(*shares, images - 1)
    if first >= images - most:
        raise InputError(
            f"negatives_from: other-classes: a class has {most} of the {images} images, so ranks {first} to {last - 1} "
            "may hold none of another class; take negatives_from: all, a sampler of closer ranks, or images of more "
            "classes"
        )
