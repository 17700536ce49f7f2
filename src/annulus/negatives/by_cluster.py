"""Negatives by cluster: cave is the ball without the query's cluster, or within that cluster alone."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.device.checks import check
from annulus.errors import InputError
from annulus.negatives.by_rank import Count, check_arguments, closest, draw_masked
from annulus.negatives.clusters import Clusters
from annulus.negatives.own import SelfIndex
from annulus.negatives.random_numbers import Random, fractions
from annulus.negatives.ranks import rank_limits
from annulus.negatives.selection import Selection

CAVE_QUERIES = 128  # at a time: early in annealing, the members of all queries take many times the scores' memory


def cave(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    outer: float,
    clusters: Clusters,
    k: Count,
    generator: Random,
    keep: Literal["outside", "inside"] = "outside",
    own: Literal["cluster", "class"] = "cluster",
) -> Selection:
    """Negatives from the ball outside the query's cluster, or inside it. Clusters are united over the clusterings.

    `own`: name of a cluster in the error of an empty set.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3 (outside); Wu et al. 2020, arXiv:2010.02037, Appendix F
    (IRCave, inside).

    Raises:
        InputError: if a query's set is empty, or an argument has a wrong type or shape.

    >>> random = torch.Generator().manual_seed(0)
    >>> scores = torch.tensor([[9.0, 3.0, 2.0, 1.0]])
    >>> clusters = annulus.negatives.Clusters(torch.tensor([[0, 0, 1, 1]]), queries=torch.tensor([[0]]))
    >>> annulus.negatives.cave(scores, torch.tensor([0]), 1.0, clusters, k=3, generator=random).gather(scores)
    tensor([[2., 2., 1.]])
    """
    check_arguments(scores, self_index, k, generator)
    if not isinstance(clusters, Clusters):
        raise InputError(f"clusters is a {type(clusters).__name__}; give annulus.negatives.Clusters(columns, queries)")
    clusters.check(*scores.shape)
    if keep not in ("outside", "inside"):
        raise InputError(f"keep {keep!r}: give outside or inside")
    first, last = rank_limits(0.0, outer, scores.shape[1] - (self_index is not None))
    drawn = None if k == "all" else fractions(len(scores), k, generator, at_once=CAVE_QUERIES)
    parts = []
    for start in range(0, len(scores), CAVE_QUERIES):
        some = slice(start, start + CAVE_QUERIES)
        members = closest(scores[some], None if self_index is None else self_index[some], first, last)
        parts.append(_select(members, clusters.pick(some), None if drawn is None else drawn[some], keep, own))
    index = torch.cat([part.index for part in parts])
    return Selection(index, torch.cat([part.mask for part in parts]) if k == "all" else None)


def _select(
    members: Selection,
    clusters: Clusters,
    drawn: Float[Tensor, "b k"] | None,
    keep: Literal["outside", "inside"],
    own: Literal["cluster", "class"],
) -> Selection:
    """Returns the members inside or outside the clusters: all, or the draws of numbers in [0, 1)."""
    inside = clusters.shared(members.index)
    mask = inside if keep == "inside" else ~inside
    if members.mask is not None:
        mask &= members.mask

    def fault(empty: float) -> str | None:
        if empty == 0:
            return None
        if own == "class":
            return (
                f"sampler other-class: {empty:.0f} queries have no candidate negatives (all of their "
                f"{members.index.shape[1]} nearest rows are of the query's own class). Increase its outer."
            )
        where, change = ("in", "") if keep == "outside" else ("outside", "decrease ")
        return (
            f"sampler cave: {empty:.0f} queries have no candidate negatives (all of their {members.index.shape[1]} "
            f"nearest rows are {where} the query's own cluster). Increase its outer or {change}"
            "its clusters. In a loop of your own, call METHOD.before_epoch, which computes the clusters."
        )

    check((mask.sum(dim=1) == 0).sum(), fault)
    return Selection(members.index, mask) if drawn is None else draw_masked(members.index, mask, drawn)
