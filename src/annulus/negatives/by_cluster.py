"""Negatives by cluster: cave is the ball without the cluster of a query, or with only that cluster."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.device.checks import check
from annulus.errors import InputError
from annulus.negatives.by_rank import Count, check_arguments, closest, draw_kept
from annulus.negatives.clusters import Clusters
from annulus.negatives.draws import Random, fractions
from annulus.negatives.own import SelfIndex
from annulus.negatives.ranks import rank_limits
from annulus.negatives.selection import Selection

CAVE_QUERIES = 128  # at a time: early in annealing, the members of all would take the scores' memory many times


def cave(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    outer: float,
    clusters: Clusters,
    k: Count,
    generator: Random,
    keep: Literal["outside", "inside"] = "outside",
) -> Selection:
    """Negatives from the ball without the query's own cluster, united over the clusterings; inside: with only that.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3 (outside); Wu et al. 2020, arXiv:2010.02037, Appendix F
    (IRCave, inside).

    Raises:
        InputError: when a query's set is empty, or an argument has not its type or shape.

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
        parts.append(_of_members(members, clusters.of(some), None if drawn is None else drawn[some], keep))
    index = torch.cat([part.index for part in parts])
    return Selection(index, torch.cat([part.mask for part in parts]) if k == "all" else None)


def _of_members(
    members: Selection,
    clusters: Clusters,
    drawn: Float[Tensor, "b k"] | None,
    keep: Literal["outside", "inside"],
) -> Selection:
    """The members that the clusters keep; of these the ones that numbers in [0, 1) pick, or all."""
    inside = clusters.shared(members.index)
    kept = inside if keep == "inside" else ~inside
    if members.mask is not None:
        kept &= members.mask

    def fault(empty: float) -> str | None:
        if empty == 0:
            return None
        where, change = ("in", "") if keep == "outside" else ("outside", "decrease ")
        return (
            f"sampler cave: {empty:.0f} queries have no candidate negatives (all of their {members.index.shape[1]} "
            f"nearest rows are {where} the query's own cluster). Increase its outer or {change}"
            "its clusters. In a loop of your own, call METHOD.before_epoch, which makes the clusters."
        )

    check((kept.sum(dim=1) == 0).sum(), fault)
    return Selection(members.index, kept) if drawn is None else draw_kept(members.index, kept, drawn)
