"""Selects the rows of a split to keep, and of those the validation rows: seeded, and fair to every class."""

import torch
from jaxtyping import Int64
from torch import Tensor


def even_subset(labels: Int64[Tensor, " n"], count: int, generator: torch.Generator) -> Int64[Tensor, " k"]:
    """`count` rows (all, when there are fewer), ascending, with equally many of each class.

    A class that has fewer gives all it has and the others share the rest. With the same seed a smaller subset is part
    of a larger one.
    """
    order = torch.randperm(len(labels), generator=generator)
    counts = even_counts(torch.bincount(labels), count)
    return first_of_each(labels, order, counts)


def held_out(labels: Int64[Tensor, " n"], fraction: float, generator: torch.Generator) -> Int64[Tensor, " k"]:
    """round(fraction * n) rows, ascending: the same share of every class, up to one row; never a class's last row."""
    order = torch.randperm(len(labels), generator=generator)
    sizes = torch.bincount(labels)
    shares = fraction * sizes.double()
    counts = shares.floor().long()
    missing = round(fraction * len(labels)) - int(counts.sum())
    # The rows that rounding down left over go to the classes that lost most by it, the first of equals.
    counts[(counts - shares).argsort(stable=True)[:missing]] += 1
    return first_of_each(labels, order, torch.minimum(counts, (sizes - 1).clamp(min=0)))


def even_counts(sizes: Int64[Tensor, " c"], total: int) -> Int64[Tensor, " c"]:
    """Rows to take from each class: `total` in all, as equal as sizes allow; of equal classes the last give one more.

    even_counts([5, 1, 5], 8) is [3, 1, 4].
    """
    counts, left = torch.zeros_like(sizes), total
    for rank, label in enumerate(sizes.argsort(stable=True).tolist()):  # the smallest class first
        # Rounded down, so what is left over is given to later, larger classes.
        counts[label] = some = min(int(sizes[label]), left // (len(sizes) - rank))
        left -= some
    return counts


def first_of_each(
    labels: Int64[Tensor, " n"], order: Int64[Tensor, " m"], counts: Int64[Tensor, " c"]
) -> Int64[Tensor, " k"]:
    """Of each class the first `counts` of its rows in `order`; ascending."""
    # One stable sort: a comparison with each class would take minutes of 20,000 classes.
    order = order[labels[order].argsort(stable=True)]
    classes = labels[order]
    sizes = torch.bincount(classes, minlength=len(counts))
    place_in_class = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[classes]
    return order[place_in_class < counts[classes]].sort().values
