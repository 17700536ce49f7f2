"""Queries against one memory: which columns are negatives, which are further positives, what their scores come to.

Everything here is scores (b, n) of queries against a memory's columns, whoever holds it: a bank, a queue, or the batch.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from annulus.bounds.alpha import cpc, cpc_ceiling, geometric, mlcpc, mlcpc_ceiling
from annulus.bounds.eqco import margin
from annulus.bounds.infonce import infonce, infonce_ceiling, present
from annulus.bounds.la import la, la_ceiling, la_original
from annulus.bounds.nce import nce
from annulus.bounds.partition import Partition
from annulus.compute.rng import derive, generator
from annulus.config.bounds import (
    BoundParams,
    CPCParams,
    InfoNCEParams,
    LAOriginalParams,
    LAParams,
    MLCPCParams,
    NCEParams,
    PartitionParams,
)
from annulus.config.negatives import CaveParams, CloseNeighbours, ClusterNeighbours, NeighbourParams, SamplerParams
from annulus.negatives.clusters import kmeans
from annulus.negatives.neighbours import closest, clustered, share_at
from annulus.negatives.samplers import Clusters, Negatives, draw

Own = Int[Tensor, "b"] | None
Columns = Int[Tensor, "n"] | Int[Tensor, "b n"] | None


class Moment(NamedTuple):
    """When in training a step is."""

    trained: float  # share of training that is done, in [0, 1)
    annealed: float  # how far the negatives are on their way to the sampler's own set, in [0, 1]


@dataclass(frozen=True)
class Objective:
    """The choices that are the same for every memory."""

    sampler: SamplerParams
    neighbours: NeighbourParams
    bound: BoundParams
    negatives: int | Literal["all"]  # K, drawn with replacement, or the sampler's whole set


@dataclass(frozen=True)
class Estimate:
    """What scores come to. All but `objective` are for reading: in nats, without gradient."""

    objective: Float[Tensor, ""]  # what is minimised
    loss: Float[Tensor, ""]  # the same before any scaling of its gradient
    bound: Float[Tensor, ""]  # estimate of the mutual information from below
    ceiling: Float[Tensor, ""]  # what that estimate cannot exceed

    def __add__(self, other: "Estimate") -> "Estimate":
        """Two objectives as one: losses add up; the estimate is the mean (mutualinfo Lemma 3.1, for CMC)."""
        return Estimate(
            self.objective + other.objective,
            self.loss + other.loss,
            (self.bound + other.bound) / 2,
            (self.ceiling + other.ceiling) / 2,
        )


class Contrast(nn.Module):
    """One memory's side of an objective; holds the random state of its draws, its clusters, its partition function."""

    def __init__(self, objective: Objective, images: int, seed: int, device: torch.device, name: str = "") -> None:
        """`images` is the size of the training set; `name` tells two memories of one method apart."""
        super().__init__()
        self.objective, self.seed, self.name = objective, seed, name
        self.generator = generator(seed, *filter(None, ["negatives", name]), device=device)
        for buffer, params in self._clusterings():
            runs = 0 if params is None else params.runs
            self.register_buffer(buffer, torch.zeros(runs, images, dtype=torch.int32))
        self.partition = Partition(objective.bound) if isinstance(objective.bound, PartitionParams) else None

    @property
    def needs_clusters(self) -> bool:
        """Whether `cluster` must be called before each epoch."""
        return any(params is not None for _, params in self._clusterings())

    def cluster(self, embeddings: Float[Tensor, "images d"], epoch: int) -> None:
        """Cluster the training images anew: for cave by its settings, for neighbours by theirs."""
        for buffer, params in self._clusterings():
            if params is not None:
                seed = derive(self.seed, *filter(None, ["clusters", self.name]), epoch)
                setattr(self, buffer, kmeans(embeddings, params.clusters, params.iterations, params.runs, seed))

    def forward(
        self,
        scores: Float[Tensor, "b n"],
        index: Int[Tensor, "b"],
        moment: Moment,
        own: Own = None,
        positive: Float[Tensor, "b"] | None = None,
        columns: Columns = None,
    ) -> Estimate:
        """The objective of queries `index` (their rows among the training images) with these scores.

        Scores are similarities divided by the temperature. `own`: each query's column that is never a negative, -1
        where it has none. `positive`: the score of the positive; by default that of the own column. `columns`: the
        training image of each column, -1 where there is none yet; by default column i is image i.
        """
        similarity = scores.detach()
        negatives = self._draw(similarity, index, own, columns, moment.annealed)
        others = self._neighbours(similarity, index, own, columns, moment.trained)
        if isinstance(self.objective.bound, LAParams | LAOriginalParams):
            positive = scores.gather(1, own[:, None]).squeeze(1) if positive is None else positive
            drawn = negatives.mask(gathered(scores, negatives))
            close = drawn.masked_fill(~self._members(negatives, others, similarity), -torch.inf)
            beside = positive[:, None]
            return self._aggregation(torch.cat([beside, close], 1), torch.cat([beside, drawn], 1), similarity)
        positives, drawn = self._candidates(scores, own, positive, others, negatives)
        return self._softmax(positives, drawn, similarity, moment.trained)

    # --- which columns ---

    def _draw(
        self, similarity: Float[Tensor, "b n"], index: Int[Tensor, "b"], own: Own, columns: Columns, annealed: float
    ) -> Negatives:
        sampler = self.objective.sampler
        clusters = self._labels(self.clusters, index, columns) if isinstance(sampler, CaveParams) else None
        return draw(similarity, own, self.objective.negatives, sampler, annealed, self.generator, clusters)

    def _neighbours(
        self, similarity: Float[Tensor, "b n"], index: Int[Tensor, "b"], own: Own, columns: Columns, trained: float
    ) -> Negatives | None:
        """Further positives, or None when there are none at this moment."""
        match self.objective.neighbours:
            case CloseNeighbours(share=share, start=start, until=until):
                found = closest(similarity, own, share_at(share, start, until, trained))
                return found if found.rows.shape[1] else None
            case ClusterNeighbours(start=start) if trained >= start:
                labels = self._labels(self.neighbour_clusters, index, columns)
                return clustered(labels.rows, labels.queries, own)
        return None

    def _labels(self, of_images: Int[Tensor, "runs images"], index: Int[Tensor, "b"], columns: Columns) -> Clusters:
        """The clusters of columns and queries, by the images that they are of."""
        if columns is None:
            return Clusters(of_images, of_images[:, index])
        found = of_images[:, columns.clamp_min(0)]
        return Clusters(found.where(columns >= 0, -1), of_images[:, index])

    def _members(
        self, negatives: Negatives, others: Negatives | None, similarity: Float[Tensor, "b n"]
    ) -> Bool[Tensor, "b k"]:
        """Which of the drawn columns are neighbours: local aggregation's C within B."""
        marked = torch.zeros_like(similarity, dtype=torch.bool)
        if others is not None:
            present = torch.ones_like(others.rows, dtype=torch.bool) if others.present is None else others.present
            # Padding may repeat a row that is there: adding up keeps it marked, whatever the order.
            counts = torch.zeros_like(similarity, dtype=torch.int32)
            marked = counts.scatter_add_(1, others.rows, present.int()) > 0
        return marked if negatives.rows is None else marked.gather(1, negatives.rows)

    @staticmethod
    def _candidates(
        scores: Float[Tensor, "b n"],
        own: Own,
        positive: Float[Tensor, "b"] | None,
        others: Negatives | None,
        negatives: Negatives,
    ) -> tuple[Float[Tensor, "b p"], Float[Tensor, "b k"]]:
        """Scores of positives and negatives, from one gather: backward then fills one tensor of the scores' size."""
        parts = [own[:, None]] if positive is None else []
        parts += [] if others is None else [others.rows]
        split = sum(part.shape[1] for part in parts)
        parts += [] if negatives.rows is None else [negatives.rows]
        found = scores.gather(1, torch.cat(parts, dim=1)) if parts else scores[:, :0]
        positives, drawn = found[:, :split], scores if negatives.rows is None else found[:, split:]
        if others is not None:
            width = others.rows.shape[1]
            masked = others.mask(positives[:, split - width :])
            positives = torch.cat([positives[:, : split - width], masked], dim=1)
        if positive is not None:
            positives = torch.cat([positive[:, None], positives], dim=1)
        return positives, negatives.mask(drawn)

    # --- what it comes to ---

    def _softmax(
        self,
        positives: Float[Tensor, "b p"],
        negatives: Float[Tensor, "b k"],
        similarity: Float[Tensor, "b n"],
        trained: float,
    ) -> Estimate:
        bound = self.objective.bound
        counts = present(positives), present(negatives)
        if isinstance(bound, NCEParams):
            log_partition = self.partition(similarity, negatives.detach())
            loss = nce(positives[:, 0], negatives, log_partition, similarity.shape[1])
            ceiling = infonce_ceiling(*counts)
            # The objective is no bound; the same scores make one.
            reached = ceiling - infonce(positives.detach(), negatives.detach())
            return Estimate(loss, loss.detach(), reached, ceiling)
        if bound.eqco_alpha is not None:
            negatives = margin(negatives, bound.eqco_alpha)
        scaling = 1.0
        match bound:
            case MLCPCParams():
                alpha = geometric(bound.alpha_start, bound.alpha_end, trained)
                loss = mlcpc(positives[:, 0], negatives, alpha)
                ceiling = mlcpc_ceiling(counts[1], alpha, bound.eqco_alpha)
                scaling = 1 / alpha if bound.divide_by_alpha else 1.0
            case CPCParams(alpha=alpha):
                loss = cpc(positives, negatives, alpha)
                ceiling = cpc_ceiling(*counts, alpha, bound.eqco_alpha)
            case InfoNCEParams():
                loss = infonce(positives, negatives)
                ceiling = infonce_ceiling(*counts, bound.eqco_alpha)
        return Estimate(loss * scaling, loss.detach(), ceiling - loss.detach(), ceiling)

    def _aggregation(
        self, close: Float[Tensor, "b c"], background: Float[Tensor, "b a"], similarity: Float[Tensor, "b n"]
    ) -> Estimate:
        if isinstance(self.objective.bound, LAOriginalParams):
            log_partition = self.partition(similarity, background.detach())
            loss = la_original(close, background, log_partition)
        else:
            loss = la(close, background)
        ceiling = la_ceiling(present(close), present(background))
        return Estimate(loss, loss.detach(), ceiling - loss.detach(), ceiling)

    def _clusterings(self) -> list[tuple[str, CaveParams | ClusterNeighbours | None]]:
        """The buffers that hold clusters, and the settings by which they are made."""
        sampler, neighbours = self.objective.sampler, self.objective.neighbours
        return [
            ("clusters", sampler if isinstance(sampler, CaveParams) else None),
            ("neighbour_clusters", neighbours if isinstance(neighbours, ClusterNeighbours) else None),
        ]

    def get_extra_state(self) -> dict[str, Any]:
        """The negatives' random state; checkpoints hold it beside the buffers."""
        return {"generator": self.generator.get_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())


def gathered(scores: Float[Tensor, "b n"], chosen: Negatives) -> Float[Tensor, "b k"]:
    """The scores of chosen columns, absent ones included."""
    return scores if chosen.rows is None else scores.gather(1, chosen.rows)
