"""Samplers, annealing and neighbours: which rows of the memory are a query's negatives, and which are positives."""

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from annulus.config.params import Count, Fraction, Params, Repeats


class SamplerParams(Params):
    """A set of negatives."""

    @property
    def shares(self) -> tuple[float, float]:
        """(inner, outer) border of the set, as fractions of the memory, closest first."""
        raise NotImplementedError


class UniformParams(SamplerParams):
    """Negatives from the whole memory."""

    @property
    def shares(self) -> tuple[float, float]:
        return 0.0, 1.0


class BallParams(SamplerParams):
    """Negatives from the closest share of the memory: ranks [0, outer)."""

    outer: float = Field(gt=0, le=1)

    @property
    def shares(self) -> tuple[float, float]:
        return 0.0, self.outer


class RingParams(SamplerParams):
    """Negatives from ranks [inner, outer), as fractions of the memory, closest first."""

    outer: float = Field(gt=0, le=1)
    inner: float = Field(ge=0, lt=1)  # closer rows may share the query's class

    @property
    def shares(self) -> tuple[float, float]:
        return self.inner, self.outer

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.inner >= self.outer:
            raise ValueError(f"ring needs inner < outer, got inner={self.inner}, outer={self.outer}")
        return self


class CaveParams(SamplerParams):
    """The ball without the query's k-means cluster (keep: outside), or with nothing but it (inside)."""

    outer: float = Field(gt=0, le=1)
    clusters: int = Field(ge=2, le=2**24)
    runs: Repeats  # independent clusterings; their own clusters are united
    iterations: Count
    keep: Literal["outside", "inside"]

    @property
    def shares(self) -> tuple[float, float]:
        return 0.0, self.outer


class Samplers(Params):
    uniform: UniformParams
    ball: BallParams
    ring: RingParams
    cave: CaveParams


class ConstantAnneal(Params):
    """The sampler's own set from the start."""


class LinearAnneal(Params):
    """From the whole memory to the sampler's set, in a straight line over this share of training."""

    until: float = Field(gt=0, le=1)


class StepAnneal(Params):
    """From the whole memory to the sampler's set, in equal steps over this share of training."""

    until: float = Field(gt=0, le=1)
    steps: Count


class AdaptiveEpochAnneal(Params):
    """One `delta` of the way further each epoch whose validation accuracy beats the window's mean."""

    delta: float = Field(gt=0, le=1)
    window: Count


class AdaptiveStepAnneal(Params):
    """One `delta` of the way further each step whose training loss is below the window's mean."""

    delta: float = Field(gt=0, le=1)
    window: Count


AnnealParams = ConstantAnneal | LinearAnneal | StepAnneal | AdaptiveEpochAnneal | AdaptiveStepAnneal


class Anneals(Params):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    none: ConstantAnneal
    linear: LinearAnneal
    step: StepAnneal
    adaptive_epoch: AdaptiveEpochAnneal
    adaptive_step: AdaptiveStepAnneal


class NoNeighbourParams(Params):
    """Only the query's own positive."""


class CloseNeighbourParams(Params):
    """The closest share of the memory too, growing from none at `start` to `share` at `until` (shares of training).

    in_denominator: whether neighbours are candidates too, which keeps the ceiling; without is the papers' formula.
    """

    share: float = Field(gt=0, lt=1)
    start: Fraction
    until: Fraction
    in_denominator: bool

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.start > self.until:
            raise ValueError(f"needs start <= until, got start={self.start}, until={self.until}")
        return self


class ClusterNeighbourParams(Params):
    """The query's k-means clusters too, united over `runs` clusterings, from `start` on (a share of training).

    in_denominator: as for the closest ones.
    """

    clusters: int = Field(ge=2, le=2**24)
    runs: Repeats
    iterations: Count
    start: Fraction
    in_denominator: bool


NeighbourParams = NoNeighbourParams | CloseNeighbourParams | ClusterNeighbourParams


class NeighbourSets(Params):
    none: NoNeighbourParams
    s: CloseNeighbourParams
    k: ClusterNeighbourParams
