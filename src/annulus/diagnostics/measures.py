"""Diagnostics: what the snapshots of a run say of its embeddings, and of the negatives among them.

The memory that samplers rank is the bank's rows; where a method keeps a queue or the batch alone, the embeddings that
the images have now stand for it. Similarity is the dot product of unit vectors; a learned critic is left out.
"""

import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from annulus.compute.rng import derive
from annulus.diagnostics.membership import (
    Sets,
    Side,
    chance_percent,
    false_negative_percent,
    progress_of,
    radii,
    sets_of,
)
from annulus.errors import InputError
from annulus.files.packed import read_packed
from annulus.files.results import Number
from annulus.negatives.samplers import Sampler

ROWS_AT_ONCE = 1024  # of the similarities of all with all

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class Snapshot:
    """What `snapshots` kept of one epoch, as unit vectors."""

    epoch: int
    queries: Float[Tensor, "q d"]
    second: Float[Tensor, "q d"]
    current: Float[Tensor, "n d"]
    memory: Float[Tensor, "n d"] | None  # zeros for an image that a queue does not hold
    self_index: Int[Tensor, "q"]  # the queries' images among the n
    whole: bool  # the memory holds every image, as a bank does
    crossed: bool  # queries meet the other half of the memory's rows, as in cmc

    def sides(self) -> list[Side]:
        """Queries, and the rows that they are compared with; for cmc L with the bank of ab, and ab with that of L."""
        rows = self.memory if self.whole else self.current
        if not self.crossed:
            return [(self.queries, rows)]
        halves = zip(self.queries.chunk(2, dim=1), reversed(rows.chunk(2, dim=1)), strict=True)
        return [(F.normalize(queries, dim=1), F.normalize(others, dim=1)) for queries, others in halves]

    def positive_similarity(self) -> float:
        """Mean similarity of a query and its positive: its self_index row in a bank, else the image's other view."""
        pairs = [(queries, rows[self.self_index]) for queries, rows in self.sides()]
        if not self.whole:
            pairs = [(self.queries, self.second)]
        return statistics.fmean((one * other).sum(dim=1).mean().item() for one, other in pairs)


@dataclass(frozen=True)
class Run:
    """The snapshots of a run in their order; positions in the training split of their images, and of the queries'."""

    snapshots: Sequence[Snapshot]
    images: Int[Tensor, "n"]
    query_images: Int[Tensor, "q"]
    train_images: int


def load_run(path: Path) -> Run:
    """Read what `Snapshots.write` wrote.

    Raises:
        InputError: when the file is missing or holds something else.
    """
    tensors, about = read_packed(path)
    if "query_images" not in tensors:
        raise InputError(f"{path} is a file of annulus, but holds no snapshots; run `dvc repro -f pretrain`")
    self_index = torch.searchsorted(tensors["images"], tensors["query_images"])
    kept = [name for name in ("queries", "second", "current", "memory") if name in tensors]
    found = []
    for place, epoch in enumerate(tensors["epochs"].tolist()):
        vectors = {name: F.normalize(tensors[name][place].float(), dim=1) for name in kept}  # float16 rounds lengths
        compared = {"whole": about["memory"] == "bank", "crossed": about["crossed"]}
        found.append(Snapshot(epoch, memory=vectors.pop("memory", None), self_index=self_index, **vectors, **compared))
    return Run(found, tensors["images"], tensors["query_images"], about["train_images"])


def alignment(one: Float[Tensor, "n d"], other: Float[Tensor, "n d"]) -> float:
    """Mean squared distance of two views of an image: 0 when they are equal, 2 for unrelated directions.

    Source: Wang and Isola 2020, arXiv:2005.10242, section 4.1, with exponent 2.
    """
    return (one - other).square().sum(dim=1).mean().item()


def uniformity(embeddings: Float[Tensor, "n d"]) -> float:
    """Log of the mean of exp(-2 distance^2) over pairs: 0 for a single direction, towards -4 for evenly spread ones.

    Source: Wang and Isola 2020, arXiv:2005.10242, section 4.1, with t = 2; over pairs of different images.
    """
    parts = []
    for start in range(0, len(embeddings), ROWS_AT_ONCE):
        similarity = embeddings[start : start + ROWS_AT_ONCE] @ embeddings.T
        similarity.diagonal(start).fill_(-torch.inf)
        parts.append((4 * similarity - 4).logsumexp(dim=1))  # of unit vectors, distance^2 is 2 - 2 similarity
    return torch.cat(parts).double().logsumexp(dim=0).item() - math.log(len(embeddings) * (len(embeddings) - 1))


def effective_rank(embeddings: Float[Tensor, "n d"]) -> float:
    """exp of the entropy of the singular values' shares: 1 when all lie on a line, d when no direction is preferred.

    Source: Roy and Vetterli 2007, "The effective rank", EUSIPCO, definition 1.
    """
    values = torch.linalg.svdvals(embeddings.double())
    return torch.special.entr(values / values.sum()).sum().exp().item()


def staleness(memory: Float[Tensor, "n d"], current: Float[Tensor, "n d"]) -> float | None:
    """Mean of 1 - cosine between what is stored and the embedding now, over the images of which a row is not zero.

    It is above 0 even when the encoder no longer moves: a row stems from random views, and from a slower encoder in
    a queue. None: nothing is stored of any of these images.
    """
    held = memory.norm(dim=1) > 0
    if not held.any():
        return None
    return 1 - F.cosine_similarity(memory[held], current[held]).mean().item()


def measure(snapshot: Snapshot, sets: Sets, labels: Int[Tensor, "n"]) -> dict[str, Number]:
    """The numbers of one snapshot, those of sets as means over its sides; what a run cannot have is left out.

    Of `ring` and `training` the similarity at both borders; of every set the false negatives, and chance beside them.
    """
    found: dict[str, Number | None] = {
        "alignment": alignment(snapshot.queries, snapshot.second),
        "uniformity": uniformity(snapshot.current),
        "effective_rank": effective_rank(snapshot.current),
        "staleness": None if snapshot.memory is None else staleness(snapshot.memory, snapshot.current),
        "positive_similarity": snapshot.positive_similarity(),
    }
    for name in ("ring", "training"):
        if name in sets.chosen:
            borders = [radii(*side) for side in zip(sets.similarity, sets.chosen[name], strict=True)]
            inner, outer = (statistics.fmean(border) for border in zip(*borders, strict=True))
            found |= {f"{name}_inner_similarity": inner, f"{name}_outer_similarity": outer}
    found["false_negatives_chance_percent"] = chance_percent(labels)
    for name, sides in sets.chosen.items():
        rates = [false_negative_percent(chosen, labels, snapshot.self_index) for chosen in sides]
        found[f"false_negatives_{name}_percent"] = statistics.fmean(rates)
    return {name: value for name, value in found.items() if value is not None}


def over_training(
    run: Run,
    curve: Mapping[int, Mapping[str, float]],
    labels: Int[Tensor, "n"],
    samplers: Mapping[str, Sampler],
    selected: str,
    seed: int,
) -> tuple[list[dict[str, Number]], Sets]:
    """One row per snapshot, and the sets of the last one.

    `curve` is pretraining's history by epoch: the bound, its ceiling, and which shares of the memory annealing had
    come to. The sets are those of all samplers, whole, and under `training` that of the selected one at that epoch.

    Raises:
        InputError: when the curve lacks an epoch.
    """
    rows, faults = [], {}
    for snapshot in run.snapshots:
        if snapshot.epoch not in curve:
            raise InputError(
                f"pretraining's curve has no epoch {snapshot.epoch}, of which there is a snapshot; run `dvc repro`"
            )
        trained = curve[snapshot.epoch]
        progress = progress_of(samplers[selected], trained["inner_share"], trained["outer_share"])
        looked_at = {name: (sampler, 1.0) for name, sampler in samplers.items()}
        looked_at["training"] = samplers[selected], progress
        sets = sets_of(snapshot.sides(), snapshot.self_index, looked_at, derive(seed, "diagnostics", snapshot.epoch))
        faults |= sets.faults
        share = trained["bound_nats"] / trained["ceiling_nats"]
        rows.append({"epoch": snapshot.epoch, "bound_share_of_ceiling": share} | measure(snapshot, sets, labels))
    for name, fault in faults.items():
        log.warning("diagnostics: %s is left out: %s", name, fault)
    everywhere = [name for name in rows[0] if all(name in row for row in rows)]  # a curve needs all of its points
    return [{name: row[name] for name in everywhere} for row in rows], sets
