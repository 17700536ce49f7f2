"""Settings of a contrast, the same for every memory, and the progress of training and annealing."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from annulus.bounds.bound import Bound
from annulus.bounds.infonce import InfoNCE
from annulus.errors import InputError
from annulus.methods.trial import try_bound, try_sampler
from annulus.negatives.by_rank import check_count
from annulus.negatives.clusters import Clustering
from annulus.negatives.neighbours import NearestRow, Neighbours
from annulus.negatives.ranks import rank_limits
from annulus.negatives.samplers import Sampler, Uniform


class Progress(NamedTuple):
    """Progress of training and of annealing, as shares in [0, 1], and the temperature of an annealed one.

    >>> annealing = annulus.negatives.LinearAnnealing(until=0.5)
    >>> annulus.Progress(training=0.25, annealing=annealing.progress(0.25))
    Progress(training=0.25, annealing=0.5, temperature=1.0)
    """

    training: float  # completed share of training, in [0, 1]
    annealing: float  # from 0 (all other columns) to 1 (the sampler's own set)
    temperature: float = 1.0  # multiple of the method's


END = Progress(training=1.0, annealing=1.0)  # the last settings of training, with the sampler's own set


@dataclass(frozen=True)
class ContrastConfig:
    """Negatives, further positives and bound: the choices that are the same for every memory.

    The constructor tries sampler and bound on made-up scores (`methods/trial.py`), so that your own fail here.

    >>> ring = annulus.negatives.Ring(inner=0.01, outer=0.1)
    >>> config = annulus.ContrastConfig(ring, bound=annulus.bounds.InfoNCE(), negatives=4096)
    >>> config.warnings_for(columns=50_000, queries=256)
    []
    """

    sampler: Sampler = field(default_factory=Uniform)
    neighbours: Neighbours | None = None
    bound: Bound = field(default_factory=InfoNCE)
    negatives: int | Literal["all"] = "all"  # K, drawn with replacement, or the sampler's whole set

    def __post_init__(self) -> None:
        check_count(self.negatives)
        for name, kind, example in (
            ("sampler", Sampler, "negatives.Ring(inner=0.01, outer=0.1), or your own, of annulus.negatives.Sampler"),
            ("bound", Bound, "bounds.InfoNCE(), or your own, of annulus.bounds.Bound"),
            ("neighbours", Neighbours | None, "negatives.CloseNeighbours(...), or None"),
        ):
            given = getattr(self, name)
            if not isinstance(given, kind) or isinstance(given, type):  # a class has the protocol's attributes, too
                raise InputError(f"{name} is {_kind(given)}; give one such as annulus.{example}")
        clustering = self.sampler.clustering
        if clustering not in (None, "images", "classes") and not isinstance(clustering, Clustering):
            raise InputError(
                f'clustering of {type(self.sampler).__name__} is {clustering!r}; give "images" or "classes", by which '
                "`draw` gets the image or the class of each column, or leave it out"
            )
        replaces = isinstance(self.neighbours, NearestRow)  # it replaces the positive
        if replaces and self.bound.neighbours == "among negatives":
            raise InputError(
                f"{type(self.bound).__name__} takes neighbours among the negatives, but NearestRow replaces the "
                "positive; choose another bound, or other neighbours"
            )
        if self.neighbours is not None and not replaces and self.bound.neighbours == "refused":
            raise InputError(
                f"{type(self.bound).__name__} takes one positive per query, but {type(self.neighbours).__name__} "
                "gives several; choose another bound, or no neighbours"
            )
        if self.bound.neighbours == "candidates" and self.neighbours is not None and not self.neighbours.in_denominator:
            raise InputError(
                f"{type(self.bound).__name__} has every positive in its denominator, but in_denominator of "
                f"{type(self.neighbours).__name__} is False; give True"
            )
        try_sampler(self.sampler, self.negatives)
        try_bound(self.bound)

    @property
    def needs_classes(self) -> bool:
        """True if the sampler or the neighbours read the class of each training image."""
        return "classes" in (self.sampler.clustering, getattr(self.neighbours, "clustering", None))

    def warnings_for(self, columns: int, queries: int) -> list[str]:
        """Warnings for settings that run but give up a guarantee, one sentence each.

        `columns`: columns of the memory that may be negatives. `queries`: queries of a batch.
        """
        first, last = rank_limits(*self.sampler.shares, columns)
        warnings = [self._repeat_warning(columns), self._infonce_warning()]
        if self.neighbours is not None:
            warnings += [self.neighbours.warning, self._aggregation_warning(), self._denominator_warning()]
        warnings += self.bound.warnings(last - first if self.negatives == "all" else self.negatives, queries)
        return [warning for warning in warnings if warning is not None]

    def _repeat_warning(self, columns: int) -> str | None:
        if self.negatives == "all" or self.negatives <= columns:
            return None
        return (
            f"{self.negatives} negatives of a query are drawn, with replacement, "
            f"from a memory of {columns} other rows, so that rows repeat; lower negatives, or take a larger memory"
        )

    def _infonce_warning(self) -> str | None:
        if self.neighbours is not None or self.bound.neighbours not in ("candidates", "among negatives"):
            return None
        return (
            f"{type(self.bound).__name__} without neighbours has one positive, and is InfoNCE; add neighbours, such as "
            + ("the rows of the class" if self.bound.neighbours == "candidates" else "the rows of the same clusters")
        )

    def _denominator_warning(self) -> str | None:
        if self.neighbours.in_denominator or self.bound.neighbours != "positives":
            return None
        return (
            "in_denominator False of the neighbours is the papers' formula, whose loss is no bound: it may fall below "
            "0; bound_nats is the bound of the same scores with the neighbours in the denominator"
        )

    def _aggregation_warning(self) -> str | None:
        inner, _ = self.sampler.shares
        if self.bound.neighbours != "among negatives" or inner == 0:
            return None
        return (
            "la counts as neighbours only those that are negatives too, and the ring leaves out the closest "
            f"{inner:.2%}, where most neighbours are; take the sampler ball, or the bound infonce"
        )


def _kind(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"
