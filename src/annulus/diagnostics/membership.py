"""Candidate negatives of each sampler, and the share of false negatives among them (same label as the query).

Samplers never see labels. The sampler of training returns the whole candidate set here. A sampler that draws by weight
has no set, so its draws are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.rng import derive, generator
from annulus.errors import InputError
from annulus.negatives.clusters import Clustering, Clusters, fewer_clusters, kmeans
from annulus.negatives.samplers import Cave, Sampler

# Draws of a query without a set: with 100 queries a percentage has a standard error below 0.2. Few are drawn at a time,
# so that a sampler without replacement has enough rows.
DRAWS, AT_A_TIME = 1024, 16
QueriesAndRows = tuple[Float[Tensor, "q d"], Float[Tensor, "n d"]]  # queries, and the rows to compare them with


def members(
    scores: Float[Tensor, "q n"],
    self_index: Int[Tensor, "q"],
    sampler: Sampler,
    progress: float = 1.0,
    clusters: Clusters | None = None,
) -> Bool[Tensor, "q n"]:
    """Mask of the rows in each query's set.

    Raises:
        InputError: if a set is empty.
    """
    # "all" draws nothing, but the interface needs a generator.
    return sampler.draw(scores, self_index, "all", torch.Generator(), progress, clusters).marked(scores)


def count_draws(
    scores: Float[Tensor, "q n"],
    self_index: Int[Tensor, "q"],
    sampler: Sampler,
    progress: float,
    clusters: Clusters | None,
    random: torch.Generator,
) -> Int[Tensor, "q n"]:
    """Counts a sampler's draws of each row, in 1,024 draws of each query.

    Raises:
        InputError: if it cannot draw.
    """
    draws = (sampler.draw(scores, self_index, AT_A_TIME, random, progress, clusters) for _ in range(DRAWS // AT_A_TIME))
    return sum(drawn.occurrences(scores) for drawn in draws)


def radii(similarity: Float[Tensor, "q n"], chosen: Bool[Tensor, "q n"]) -> tuple[float, float]:
    """(inner, outer): similarity of each set's closest and farthest member, mean over queries."""
    closest = similarity.masked_fill(~chosen, -torch.inf).amax(dim=1)
    farthest = similarity.masked_fill(~chosen, torch.inf).amin(dim=1)
    return closest.mean().item(), farthest.mean().item()


def false_negative_percent(
    chosen: Bool[Tensor, "q n"] | Int[Tensor, "q n"], labels: Int[Tensor, "n"], self_index: Int[Tensor, "q"]
) -> float:
    """Percent of a set's rows, or of counted draws, with the query's label, mean over queries."""
    same = labels == labels[self_index][:, None]
    shares = (chosen * same).sum(dim=1).double() / chosen.sum(dim=1)
    return 100 * shares.mean().item()


def chance_percent(labels: Int[Tensor, "n"]) -> float:
    """Percent of pairs of different images with the same label: sum over classes of c (c - 1) / (n (n - 1))."""
    counts = torch.bincount(labels).double()
    return 100 * (counts * (counts - 1)).sum().item() / (len(labels) * (len(labels) - 1))


def annealing_progress(sampler: Sampler, inner_share: float, outer_share: float) -> float:
    """Annealing progress of a set with these shares of the memory; the inverse of `kept_shares`."""
    inner, outer = sampler.shares
    if outer < 1:
        return min((1 - outer_share) / (1 - outer), 1.0)
    if inner > 0:
        return min(inner_share / inner, 1.0)
    return 1.0


def cave_for(cave: Cave, images: int, train_images: int) -> Cave:
    """Cave for a part of the training images: fewer clusters in proportion, so that their mean size stays.

    There are at least two clusters, and at most one for each image.
    """
    clusters = round(fewer_clusters(cave.clusters, train_images) * images / train_images)
    return replace(cave, clusters=min(max(clusters, 2), images))


@dataclass(frozen=True)
class CandidateSets:
    """Similarities of each comparison, and by sampler the masks of each query's set.

    A sampler with an empty set is omitted; `faults` has the reason. `drawn` has the counts of draws of a sampler
    without a set.
    """

    similarity: list[Float[Tensor, "q n"]]
    chosen: dict[str, list[Bool[Tensor, "q n"]]]
    faults: dict[str, str]
    drawn: dict[str, list[Int[Tensor, "q n"]]] = field(default_factory=dict)


def candidate_sets(
    comparisons: Sequence[QueriesAndRows],
    self_index: Int[Tensor, "q"],
    samplers: Mapping[str, tuple[Sampler, float]],
    seed: int,
    temperature: float,
) -> CandidateSets:
    """Computes the candidate sets of named samplers, each with its annealing progress; caves share their clusters.

    Samplers get scores as in training: similarities divided by the temperature.
    """
    clusterings = [sampler.clustering for sampler, _ in samplers.values()]
    clustering = next((settings for settings in clusterings if isinstance(settings, Clustering)), None)
    sets = CandidateSets([], {}, {})
    for number, (queries, rows) in enumerate(comparisons):
        sets.similarity.append(queries @ rows.T)
        clusters = None
        if clustering is not None:
            assignments = kmeans(rows, *clustering, derive(seed, number))
            clusters = Clusters(assignments, assignments[:, self_index])
        for name, (sampler, progress) in samplers.items():
            if isinstance(sampler.clustering, str):  # images or classes
                needed = f"the {sampler.clustering} of the rows, which snapshots do not hold"
                sets.faults[name] = f"sampler {name} needs {needed}"
                continue
            arguments = sets.similarity[-1] / temperature, self_index, sampler, progress, clusters
            try:
                mask = members(*arguments)
            except InputError as error:
                try:
                    counts = count_draws(*arguments, generator(seed, name, number))
                except InputError:  # its set is empty
                    sets.faults[name] = str(error)
                else:
                    sets.drawn.setdefault(name, []).append(counts)
            else:
                sets.chosen.setdefault(name, []).append(mask)
    for name in sets.faults:
        sets.chosen.pop(name, None)
        sets.drawn.pop(name, None)
    return sets
