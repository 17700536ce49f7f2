"""Mixed negatives: unit vectors between the hardest rows, and between these and the query, as scores."""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from jaxtyping import Float, Int
from torch import Tensor

from annulus.negatives.by_rank import closest, draw_masked
from annulus.negatives.own import SelfIndex
from annulus.negatives.random_numbers import Random, fractions
from annulus.negatives.ranks import kept_shares, rank_limits
from annulus.negatives.samplers import Sampler
from annulus.negatives.scores import Scores

Mixes = Annotated[int, Ge(0), Le(2**20)]


@dataclass(frozen=True, kw_only=True)
class MoCHi(Sampler):
    """Uniform negatives, and beside them mixes of the hardest: the closest share `outer` of the memory.

    pairs: mixes a n_i + (1 - a) n_j of two of the hardest rows, a in [0, 1). queries: mixes b q + (1 - b) n of the
    query and one of them, b in [0, 1/2). Both become unit vectors and are constants. Annealing narrows the hardest from
    all other columns; at progress 0 it adds none.

    Source: Kalantidis et al. 2020, arXiv:2010.01028, Section 4.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> mochi = annulus.negatives.MoCHi(outer=0.25, pairs=16, queries=8)
    >>> contrast = annulus.ContrastConfig(mochi, negatives=64)
    >>> method = annulus.IR.create(network, images=100, dim=16, contrast=contrast)
    >>> method.loss([torch.rand(8, 3, 8, 8)], torch.arange(8)).estimate.ceiling_nats  # log(1 + 64 + 16 + 8)
    tensor(4.4886)
    """

    outer: Annotated[float, Gt(0), Le(1)]
    pairs: Mixes
    queries: Mixes

    def synthetic(
        self, scores: Scores, self_index: SelfIndex, generator: Random, progress: float
    ) -> Float[Tensor, "b s"] | None:
        """Scores of the mixes, pairs first.

        Raises:
            InputError: if the scores have no vectors, as scores within a batch; if there are too few rows.
        """
        if progress == 0 or self.pairs + self.queries == 0:
            return None
        table, parts = scores.table, [self.pairs, self.pairs, self.queries]
        _, last = rank_limits(*kept_shares((0.0, self.outer), progress), table.shape[1] - (self_index is not None))
        hardest = closest(table, self_index, 0, last)
        drawn = fractions(len(table), 3 * self.pairs + 2 * self.queries, generator)
        places, shares = drawn.split([sum(parts), self.pairs + self.queries], dim=1)
        rows = _pick(hardest.index, hardest.mask, places).split(parts, dim=1)
        pair_shares, query_shares = shares.to(table.dtype).split([self.pairs, self.queries], dim=1)
        mixes = [scores.mixed(*rows[:2], pair_shares)] if self.pairs else []
        if self.queries:
            mixes.append(scores.mixed_with_query(rows[2], query_shares / 2))
        return torch.cat(mixes, dim=1)


def _pick(index: Int[Tensor, "b m"], mask: Tensor | None, places: Float[Tensor, "b k"]) -> Int[Tensor, "b k"]:
    """The rows at places in [0, 1) of each query's list."""
    if mask is None:
        return index.gather(1, (places * index.shape[1]).long())
    return draw_masked(index, mask, places).index
