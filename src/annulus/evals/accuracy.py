"""Accuracies in percent, from scores and labels."""

import re
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.files.results import Number

NOT_PROPOSED = 2**62
CLASSES_LISTED = 20  # with more classes, a metrics file names only the worst and the best one


def label_ranks(scores: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
    """Rank of each true class among its row's scores: 0 for the highest, c - 1 for the lowest.

    Equal scores rank by class number, lowest first. A class with score -inf was not proposed: its rank is
    `NOT_PROPOSED`, so it never counts as right, with any number of classes.

    Raises:
        ValueError: for NaN.
    """
    if scores.isnan().any():
        raise ValueError("scores hold NaN, so they have no ranks")
    own = scores.gather(1, labels[:, None])  # (n, 1)
    lower = torch.arange(scores.shape[1], device=scores.device) < labels[:, None]  # (n, c)
    ahead = (scores > own) | ((scores == own) & lower)
    return ahead.sum(dim=1).masked_fill(own.squeeze(1) == -torch.inf, NOT_PROPOSED)


def percent(right: Bool[Tensor, "n"]) -> float:
    """Share of the rows that are right, in percent."""
    return 100 * right.double().mean().item()


def class_percents(right: Bool[Tensor, "n"], labels: Int[Tensor, "n"], classes: Sequence[str]) -> dict[str, Number]:
    """Top-1 of every class that has images, as `class_NAME_top1_percent`.

    With more than 20 classes: only the names of the worst and the best class, and their top-1.
    """
    percents = {
        name: percent(right[labels == number])
        for number, name in enumerate(_metric_names(classes))
        if (labels == number).any()
    }
    if len(classes) <= CLASSES_LISTED:
        return {f"class_{name}_top1_percent": value for name, value in percents.items()}
    worst, best = min(percents, key=percents.__getitem__), max(percents, key=percents.__getitem__)
    return {
        "worst_class": worst,
        "worst_class_top1_percent": percents[worst],
        "best_class": best,
        "best_class_top1_percent": percents[best],
    }


def confusion_rows(
    predicted: Int[Tensor, "n"], labels: Int[Tensor, "n"], classes: Sequence[str]
) -> list[dict[str, Number]]:
    """One row per image, for DVC's confusion template; sorted, so a diff shows real changes."""
    pairs = sorted(zip(labels.tolist(), predicted.tolist(), strict=True))
    return [{"actual": classes[actual], "predicted": classes[answer]} for actual, answer in pairs]


def _metric_names(classes: Sequence[str]) -> list[str]:
    """Class names with the characters of a metric's name; numbered if two would be equal."""
    names = [re.sub(r"[^\w-]+", "_", name) for name in classes]
    if len(set(names)) == len(names):
        return names
    return [f"{number}_{name}" for number, name in enumerate(names)]
