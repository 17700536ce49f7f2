"""Measures of a run's embeddings and of its negatives, from its snapshots.

Samplers rank the rows of the bank, or for a method with a queue or only the batch the images' current embeddings.
Similarity is the dot product of unit vectors, without a learned critic.
"""

import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.rng import derive
from annulus.diagnostics.membership import (
    CandidateSets,
    QueriesAndRows,
    annealing_progress,
    candidate_sets,
    chance_percent,
    false_negative_percent,
    radii,
)
from annulus.errors import InputError
from annulus.evals.geometry import alignment, effective_rank, tolerance, uniformity
from annulus.files.images import UNLABELLED
from annulus.files.packed import Damaged, check_about, check_tensors, read_packed
from annulus.files.results import Number
from annulus.negatives.samplers import Sampler

EMBEDDINGS = {"queries": "q", "second": "q", "current": "n", "memory": "n"}  # and their numbers of rows

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class Snapshot:
    """Embeddings of one epoch, as unit vectors."""

    epoch: int
    queries: Float[Tensor, "q d"]
    second: Float[Tensor, "q d"]
    current: Float[Tensor, "n d"]
    memory: Float[Tensor, "n d"] | None  # zeros for an image that is not in a queue
    self_index: Int[Tensor, "q"]  # the queries' images among the n
    whole: bool  # True for a bank, which holds every image
    crossed: bool  # True with a split: a part's queries are compared with the other half of the memory's rows

    def comparisons(self) -> list[QueriesAndRows]:
        """Pairs of queries and rows to compare; with a split, one pair for each part, with the other part's rows."""
        rows = self.memory if self.whole else self.current
        if not self.crossed:
            return [(self.queries, rows)]
        halves = zip(self.queries.chunk(2, dim=1), reversed(rows.chunk(2, dim=1)), strict=True)
        return [(F.normalize(queries, dim=1), F.normalize(others, dim=1)) for queries, others in halves]

    def positive_similarity(self) -> float:
        """Mean similarity of a query and its positive: its own row in a bank, else the other view of the image."""
        pairs = [(queries, rows[self.self_index]) for queries, rows in self.comparisons()]
        if not self.whole:
            pairs = [(self.queries, self.second)]
        return statistics.fmean((queries * positives).sum(dim=1).mean().item() for queries, positives in pairs)


@dataclass(frozen=True)
class RunSnapshots:
    """Snapshots of a training run in order of epochs, with the training-split positions of their images and queries.

    `temperature` divides the similarities, for samplers that use more than the order of scores.
    """

    snapshots: Sequence[Snapshot]
    images: Int[Tensor, "n"]
    query_images: Int[Tensor, "q"]
    train_images: int
    temperature: float


def load_run(path: Path, temperature: float) -> RunSnapshots:
    """Reads a file of `Snapshots.write`, of a run with this temperature.

    Raises:
        InputError: if the file is missing, has another content, or is damaged.
    """
    tensors, about = read_packed(path)
    if "query_images" not in tensors:
        raise InputError(f"{path} is a file of annulus, but holds no snapshots; run `dvc repro -f pretrain`")
    self_index = _check_run(path, tensors, about)
    names = [name for name in EMBEDDINGS if name in tensors]
    snapshots = []
    for place, epoch in enumerate(tensors["epochs"].tolist()):
        vectors = {name: F.normalize(tensors[name][place].float(), dim=1) for name in names}  # float16 rounds lengths
        compared = {"whole": about["memory"] == "bank", "crossed": about["crossed"]}
        snapshots.append(
            Snapshot(epoch, memory=vectors.pop("memory", None), self_index=self_index, **vectors, **compared)
        )
    return RunSnapshots(snapshots, tensors["images"], tensors["query_images"], about["train_images"], temperature)


def _check_run(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Int[Tensor, "q"]:
    """Checks that snapshots are unedited and of this version; returns the queries' places among the images."""
    check_about(path, about, {"memory": str, "crossed": bool, "train_images": int}, "pretrain")
    expected = {name: (torch.float16, f"s {rows} d") for name, rows in EMBEDDINGS.items()}
    if about["memory"] == "batch":
        del expected["memory"]
    expected |= {"epochs": (torch.int64, "s"), "images": (torch.int64, "n"), "query_images": (torch.int64, "q")}
    sizes = check_tensors(path, tensors, expected, "pretrain")
    images, queries = tensors["images"], tensors["query_images"]
    rising = all((tensors[name].diff() > 0).all() for name in ("epochs", "images", "query_images"))
    inside = (
        sizes["n"] > 1 and images[0] >= 0 and images[-1] < about["train_images"] and torch.isin(queries, images).all()
    )
    if not (rising and inside and sizes["s"] > 0 and sizes["q"] > 0 and sizes["d"] % (1 + about["crossed"]) == 0):
        raise Damaged(
            path,
            "its epochs, images or queries are not ascending, or not within the run",
            "pretrain",
        )
    if about["memory"] not in ("bank", "queue", "batch"):
        raise Damaged(path, f"its memory is {about['memory']!r}, expected bank, queue or batch", "pretrain")
    for name in EMBEDDINGS.keys() & tensors.keys():
        if name != "memory" and not tensors[name].any(dim=2).all():  # a queue may lack images
            raise Damaged(path, f"{name} holds an embedding of zeros, expected unit vectors", "pretrain")
    return torch.searchsorted(images, queries)


def staleness(memory: Float[Tensor, "n d"], current: Float[Tensor, "n d"]) -> float | None:
    """Mean of 1 - cosine between stored and current embedding, over the images whose row is not zero.

    It is above 0 even for a constant encoder: a row comes from random views, and in a queue from the momentum encoder.
    None: the memory has no row of these images.
    """
    held = memory.norm(dim=1) > 0
    if not held.any():
        return None
    return 1 - F.cosine_similarity(memory[held], current[held]).mean().item()


def measure(snapshot: Snapshot, sets: CandidateSets, labels: Int[Tensor, "n"]) -> dict[str, Number]:
    """Computes the numbers of one snapshot. Numbers of candidate sets are means over its comparisons.

    `ring` and `training` have the similarity at both borders. If all images have a class, every set, or the draws of a
    sampler without a set, has the false negatives and their chance level. Numbers without a value are omitted.
    """
    numbers: dict[str, Number | None] = {
        "alignment": alignment(snapshot.queries, snapshot.second),
        "uniformity": uniformity(snapshot.current),
        "tolerance": tolerance(snapshot.current, labels),
        "effective_rank": effective_rank(snapshot.current),
        "staleness": None if snapshot.memory is None else staleness(snapshot.memory, snapshot.current),
        "positive_similarity": snapshot.positive_similarity(),
    }
    for name in ("ring", "training"):
        if name in sets.chosen:
            borders = [radii(*side) for side in zip(sets.similarity, sets.chosen[name], strict=True)]
            inner, outer = (statistics.fmean(border) for border in zip(*borders, strict=True))
            numbers |= {f"{name}_inner_similarity": inner, f"{name}_outer_similarity": outer}
    if (labels != UNLABELLED).all():
        numbers["false_negatives_chance_percent"] = chance_percent(labels)
        for name, comparisons in (sets.chosen | sets.drawn).items():
            rates = [false_negative_percent(chosen, labels, snapshot.self_index) for chosen in comparisons]
            numbers[f"false_negatives_{name}_percent"] = statistics.fmean(rates)
    return {name: value for name, value in numbers.items() if value is not None}


def curve_row(curve: Mapping[int, Mapping[str, float]], epoch: int) -> Mapping[str, float]:
    """The curve's row of a snapshot's epoch.

    Raises:
        InputError: if the curve lacks the epoch.
    """
    if epoch not in curve:
        raise InputError(f"pretraining's curve has no epoch {epoch}, but there is a snapshot of it; run `dvc repro`")
    return curve[epoch]


def over_training(
    run: RunSnapshots,
    curve: Mapping[int, Mapping[str, float]],
    labels: Int[Tensor, "n"],
    samplers: Mapping[str, Sampler],
    selected: str,
    seed: int,
) -> tuple[list[dict[str, Number]], CandidateSets]:
    """Measures all snapshots of a run. Returns one row per snapshot, and the sets of the last one.

    `curve` is pretraining's history by epoch: the bound, its ceiling, and the annealed shares of the memory. The sets
    are the candidate sets of all samplers without annealing, and as `training` the selected sampler's set at the epoch.

    Raises:
        InputError: if the curve lacks an epoch.
    """
    rows, faults = [], {}
    for snapshot in run.snapshots:
        trained = curve_row(curve, snapshot.epoch)
        progress = annealing_progress(samplers[selected], trained["inner_share"], trained["outer_share"])
        annealed = {name: (sampler, 1.0) for name, sampler in samplers.items()}
        annealed["training"] = samplers[selected], progress
        epoch_seed = derive(seed, "diagnostics", snapshot.epoch)
        sets = candidate_sets(snapshot.comparisons(), snapshot.self_index, annealed, epoch_seed, run.temperature)
        faults |= sets.faults
        share = trained["bound_nats"] / trained["ceiling_nats"]
        rows.append({"epoch": snapshot.epoch, "bound_share_of_ceiling": share} | measure(snapshot, sets, labels))
    for name, fault in faults.items():
        log.warning("diagnostics: %s is left out: %s", name, fault)
    everywhere = [name for name in rows[0] if all(name in row for row in rows)]  # a plotted curve needs all points
    return [{name: row[name] for name in everywhere} for row in rows], sets
