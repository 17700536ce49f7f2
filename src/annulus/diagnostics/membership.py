"""Candidate negatives of each sampler, and the share of false negatives among them (same label as the query).

Samplers never see labels. The candidate sets come from the sampler of training, which here returns them whole; one that
draws by weight has none, and its draws are counted.
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

# Draws of a query, where there is no set: of 100 queries a percentage has a standard error below 0.2. At a time so few
# that a sampler may draw different rows.
DRAWS, AT_A_TIME = 1024, 16
Comparison = tuple[Float[Tensor, "q d"], Float[Tensor, "n d"]]  # queries, and the rows that they are compared with


def members(
    scores: Float[Tensor, "q n"],
    self_index: Int[Tensor, "q"],
    sampler: Sampler,
    progress: float = 1.0,
    clusters: Clusters | None = None,
) -> Bool[Tensor, "q n"]:
    """Marks the rows in each query's set.

    Raises:
        InputError: when a set is empty.
    """
    # Nothing is drawn: the generator is for the interface.
    return sampler.draw(scores, self_index, "all", torch.Generator(), progress, clusters).marked(scores)


def counted(
    scores: Float[Tensor, "q n"],
    self_index: Int[Tensor, "q"],
    sampler: Sampler,
    progress: float,
    clusters: Clusters | None,
    random: torch.Generator,
) -> Int[Tensor, "q n"]:
    """Counts how often a sampler draws each row, in 1,024 draws of each query.

    Raises:
        InputError: when it can draw none.
    """
    draws = (sampler.draw(scores, self_index, AT_A_TIME, random, progress, clusters) for _ in range(DRAWS // AT_A_TIME))
    return sum(drawn.occurrences(scores) for drawn in draws)


def radii(similarity: Float[Tensor, "q n"], chosen: Bool[Tensor, "q n"]) -> tuple[float, float]:
    """(inner, outer): the similarity of each set's closest and of its farthest member, mean over queries."""
    closest = similarity.masked_fill(~chosen, -torch.inf).amax(dim=1)
    farthest = similarity.masked_fill(~chosen, torch.inf).amin(dim=1)
    return closest.mean().item(), farthest.mean().item()


def false_negative_percent(
    chosen: Bool[Tensor, "q n"] | Int[Tensor, "q n"], labels: Int[Tensor, "n"], self_index: Int[Tensor, "q"]
) -> float:
    """Percent of a set's rows, or of draws that were counted, that have the query's label, mean over queries."""
    same = labels == labels[self_index][:, None]
    shares = (chosen * same).sum(dim=1).double() / chosen.sum(dim=1)
    return 100 * shares.mean().item()


def chance_percent(labels: Int[Tensor, "n"]) -> float:
    """Percent of the pairs of different images that share a label: sum over classes of c (c - 1) / (n (n - 1))."""
    counts = torch.bincount(labels).double()
    return 100 * (counts * (counts - 1)).sum().item() / (len(labels) * (len(labels) - 1))


def progress_of(sampler: Sampler, inner_share: float, outer_share: float) -> float:
    """The annealing progress at which a set has these shares of the memory; inverse of `kept_shares`."""
    inner, outer = sampler.shares
    if outer < 1:
        return min((1 - outer_share) / (1 - outer), 1.0)
    if inner > 0:
        return min(inner_share / inner, 1.0)
    return 1.0


def cave_for(cave: Cave, images: int, train_images: int) -> Cave:
    """Cave for a part of the training images: fewer clusters in proportion, so that they keep their mean size.

    Two at least, and no more than there are images.
    """
    clusters = round(fewer_clusters(cave.clusters, train_images) * images / train_images)
    return replace(cave, clusters=min(max(clusters, 2), images))


@dataclass(frozen=True)
class CandidateSets:
    """For each side, similarities, and by sampler the members of each query's set.

    A sampler with an empty set is left out; `faults` has the reason. Of one that draws without a set, `drawn` has how
    often it drew each row.
    """

    similarity: list[Float[Tensor, "q n"]]
    chosen: dict[str, list[Bool[Tensor, "q n"]]]
    faults: dict[str, str]
    drawn: dict[str, list[Int[Tensor, "q n"]]] = field(default_factory=dict)


def candidate_sets(
    comparisons: Sequence[Comparison],
    self_index: Int[Tensor, "q"],
    samplers: Mapping[str, tuple[Sampler, float]],
    seed: int,
    temperature: float,
) -> CandidateSets:
    """Candidate sets of named samplers, each with its progress of annealing; caves share their clusters.

    Samplers see scores, as in training: similarities divided by the temperature.
    """
    asked = [sampler.clustering for sampler, _ in samplers.values()]
    clustering = next((each for each in asked if isinstance(each, Clustering)), None)
    sets = CandidateSets([], {}, {})
    for number, (queries, rows) in enumerate(comparisons):
        sets.similarity.append(queries @ rows.T)
        clusters = None
        if clustering is not None:
            assignments = kmeans(rows, *clustering, derive(seed, number))
            clusters = Clusters(assignments, assignments[:, self_index])
        for name, (sampler, progress) in samplers.items():
            if sampler.clustering == "images":
                sets.faults[name] = f"sampler {name} asks which images the rows are of, which snapshots do not say"
                continue
            asked_for = sets.similarity[-1] / temperature, self_index, sampler, progress, clusters
            try:
                found, of = members(*asked_for), sets.chosen
            except InputError as error:
                try:
                    found, of = counted(*asked_for, generator(seed, name, number)), sets.drawn
                except InputError:  # it has a set, which is empty
                    sets.faults[name] = str(error)
                    continue
            of.setdefault(name, []).append(found)
    for name in sets.faults:
        sets.chosen.pop(name, None)
        sets.drawn.pop(name, None)
    return sets
