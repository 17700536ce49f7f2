"""Selects a seeded subset of a split and its validation rows, balanced over the classes."""

import torch
from jaxtyping import Int64
from torch import Tensor


def even_subset(labels: Int64[Tensor, " n"], count: int, generator: torch.Generator) -> Int64[Tensor, " k"]:
    """Selects `count` rows, ascending, the same number from each class; all rows if there are fewer.

    A class with fewer rows gives all, and the others share the rest. With one seed, a smaller subset is part of a
    larger one.
    """
    order = torch.randperm(len(labels), generator=generator)
    counts = even_counts(torch.bincount(labels), count)
    return first_by_class(labels, order, counts)


def held_out(labels: Int64[Tensor, " n"], fraction: float, generator: torch.Generator) -> Int64[Tensor, " k"]:
    """Selects round(fraction * n) rows, ascending: the same share of every class up to one row, never its last row."""
    order = torch.randperm(len(labels), generator=generator)
    sizes = torch.bincount(labels)
    shares = fraction * sizes.double()
    counts = shares.floor().long()
    missing = round(fraction * len(labels)) - int(counts.sum())
    # Rounding down leaves rows over. They go to the classes that lost most by it, the first of equals.
    counts[(counts - shares).argsort(stable=True)[:missing]] += 1
    return first_by_class(labels, order, torch.minimum(counts, (sizes - 1).clamp(min=0)))


def even_counts(sizes: Int64[Tensor, " c"], total: int) -> Int64[Tensor, " c"]:
    """Rows to take from each class: `total` in all, as equal as sizes allow. Among equal classes the last get more.

    even_counts([5, 1, 5], 8) is [3, 1, 4].
    """
    counts, left = torch.zeros_like(sizes), total
    for rank, label in enumerate(sizes.argsort(stable=True).tolist()):  # the smallest class first
        # Rounded down, so later, larger classes get the rest.
        counts[label] = some = min(int(sizes[label]), left // (len(sizes) - rank))
        left -= some
    return counts


def first_by_class(
    labels: Int64[Tensor, " n"], order: Int64[Tensor, " m"], counts: Int64[Tensor, " c"]
) -> Int64[Tensor, " k"]:
    """Selects the first `counts` rows of each class in `order`; ascending."""
    # One stable sort: a comparison with each class would take minutes for 20,000 classes.
    order = order[labels[order].argsort(stable=True)]
    classes = labels[order]
    sizes = torch.bincount(classes, minlength=len(counts))
    place_in_class = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[classes]
    return order[place_in_class < counts[classes]].sort().values
