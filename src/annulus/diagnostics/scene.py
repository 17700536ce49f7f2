"""The memory around one query: angles, directions and candidate sets, after training and at some epochs.

The query is typical: its own row lies in the inner ball, and its class is about as frequent in its candidate sets as on
average over queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from annulus.device.rng import derive
from annulus.diagnostics.measures import RunSnapshots, Snapshot, curve_row
from annulus.diagnostics.membership import (
    CandidateSets,
    annealing_progress,
    candidate_sets,
    cave_for,
    false_negative_percent,
)
from annulus.errors import InputError
from annulus.files.images import UNLABELLED
from annulus.negatives.samplers import Ring, Sampler

EPOCHS = 5  # of the annealing


@dataclass(frozen=True)
class Scene:
    """The memory around one query. `members` are the samplers' candidate sets."""

    angle: Float[Tensor, "n"]  # degrees between the query and each row
    direction: Float[Tensor, "n"]  # radians; pi is towards the query's cluster
    query: int  # place among the run's queries
    members: dict[str, Bool[Tensor, "n"]]  # for uniform, ball, ring, cave and the inner ball
    positive: tuple[float, float]  # angle and direction of the image's own row
    same_class_percent: dict[str, float | None]  # in the sets, mean over all queries of the run; None without classes
    share: dict[str, float]  # inner and outer border of the ring: shares of the memory


def build_scene(run: RunSnapshots, labels: Tensor, samplers: Mapping[str, Sampler], seed: int) -> Scene:
    """Computes the scene around a typical query of the last snapshot. `samplers` holds uniform, ball, ring and cave.

    Raises:
        InputError: if a sampler has no candidates for a query, or no query's own row is closer than the ring.
    """
    snapshot = run.snapshots[-1]
    self_index = snapshot.self_index
    ring = samplers["ring"]
    assert isinstance(ring, Ring)
    all_samplers = {**samplers, "inner": Ring(inner=0.0, outer=ring.inner)}
    all_samplers["cave"] = cave_for(all_samplers["cave"], len(run.images), run.train_images)
    whole = {name: (sampler, 1.0) for name, sampler in all_samplers.items()}
    sets = candidate_sets(snapshot.comparisons(), self_index, whole, derive(seed, "picture"), run.temperature)
    _check_sets(sets)
    chosen = {name: first for name, (first, *_) in sets.chosen.items()}

    percent = {name: _same_class_percent(members, labels, self_index) for name, members in chosen.items()}
    rates_by_set = [_percent_by_query(members, labels, self_index) for members in chosen.values()]
    unlike = sum((rates - rates.mean()).abs() for rates in rates_by_set)
    similarity = sets.similarity[0]
    own_similarity = similarity.gather(1, self_index[:, None])
    closest = own_similarity[:, 0] >= similarity.masked_fill(~chosen["inner"], torch.inf).amin(dim=1)
    if not closest.any():
        raise InputError(
            f"no picture: none of {len(self_index)} queries has its own row within the inner ball; train longer"
        )
    query = int(unlike.masked_fill(~closest, torch.inf).argmin())

    queries, rows = snapshot.comparisons()[0]
    members = {name: some[query] for name, some in chosen.items()}
    cluster = members["ball"] & ~members["cave"]
    angle = similarity[query].clamp(-1, 1).arccos().rad2deg()
    direction = _directions(queries[query], rows, members["ball"], cluster)
    mine = int(self_index[query])
    shares = {"inner": ring.inner, "outer": ring.outer}
    return Scene(angle, direction, query, members, (float(angle[mine]), float(direction[mine])), percent, shares)


def _check_sets(sets: CandidateSets) -> None:
    """Raises InputError unless every sampler has a set."""
    faults = [*sets.faults.values(), *(f"sampler {name} draws by weight and has no set" for name in sets.drawn)]
    if faults:
        raise InputError(f"no picture: {'; '.join(faults)}")


def _same_class_percent(members: Bool[Tensor, "q n"], labels: Tensor, self_index: Tensor) -> float | None:
    return None if (labels == UNLABELLED).all() else false_negative_percent(members, labels, self_index)


def _percent_by_query(members: Bool[Tensor, "q n"], labels: Tensor, self_index: Tensor) -> Float[Tensor, "q"]:
    same = members & (labels == labels[self_index][:, None])
    return 100 * same.sum(dim=1) / members.sum(dim=1)


def _directions(
    query: Float[Tensor, "d"], rows: Float[Tensor, "n d"], ball: Bool[Tensor, "n"], cluster: Bool[Tensor, "n"]
) -> Float[Tensor, "n"]:
    """Direction of each row from the query, in the plane through the cluster and the widest spread of the ball."""
    tangents = torch.nn.functional.normalize(rows - (rows @ query)[:, None] * query, dim=1)
    across = tangents[cluster].mean(dim=0) if cluster.any() else tangents[ball].mean(dim=0)
    across = across / across.norm()
    rest = tangents[ball] - (tangents[ball] @ across)[:, None] * across
    up = torch.linalg.svd(rest - rest.mean(dim=0), full_matrices=False).Vh[0]
    return torch.atan2(tangents @ up, -(tangents @ across))


@dataclass(frozen=True)
class Moment:
    """Candidate set of one query at an epoch of training."""

    epoch: int
    angle: Float[Tensor, "n"]  # degrees between the query and each row
    direction: Float[Tensor, "n"]  # radians
    members: Bool[Tensor, "n"]
    shares: tuple[float, float]  # inner and outer border: shares of the memory
    same_class_percent: float | None  # in the sets, mean over all queries of the run; None without classes


def build_moments(
    run: RunSnapshots, curve: Mapping[int, Mapping[str, float]], labels: Tensor, sampler: Sampler, query: int, seed: int
) -> list[Moment]:
    """Computes the query's candidate set at up to five epochs, evenly spaced; `curve` as in `over_training`.

    Raises:
        InputError: if the sampler has no candidates for a query.
    """
    count = min(EPOCHS, len(run.snapshots))
    places = sorted({round(place * (len(run.snapshots) - 1) / max(count - 1, 1)) for place in range(count)})
    return [_moment(run.snapshots[place], curve, labels, sampler, query, seed, run.temperature) for place in places]


def _moment(
    snapshot: Snapshot,
    curve: Mapping[int, Mapping[str, float]],
    labels: Tensor,
    sampler: Sampler,
    query: int,
    seed: int,
    temperature: float,
) -> Moment:
    trained = curve_row(curve, snapshot.epoch)
    shares = trained["inner_share"], trained["outer_share"]
    annealed = {"training": (sampler, annealing_progress(sampler, *shares))}
    comparisons, index = snapshot.comparisons(), snapshot.self_index
    sets = candidate_sets(comparisons, index, annealed, derive(seed, "picture", snapshot.epoch), temperature)
    _check_sets(sets)
    members, (queries, rows) = sets.chosen["training"][0], comparisons[0]
    angle = sets.similarity[0][query].clamp(-1, 1).arccos().rad2deg()
    tangents = torch.nn.functional.normalize(rows - (rows @ queries[query])[:, None] * queries[query], dim=1)
    spread = tangents - tangents.mean(dim=0)  # centred on the query, since early embeddings lie to one side of it
    across, up = torch.linalg.svd(spread, full_matrices=False).Vh[:2]
    direction = torch.atan2(spread @ up, spread @ across)
    percent = _same_class_percent(members, labels, index)
    return Moment(snapshot.epoch, angle, direction, members[query], shares, percent)
