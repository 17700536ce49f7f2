"""Sections that say which columns of the memory stand against a query, and which stand with it."""

import math
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from annulus.config.base import Count, Fraction, Params
from annulus.errors import InputError


class UniformParams(Params):
    """Negatives from the whole memory."""


class BallParams(Params):
    """Negatives from the closest share of the memory: ranks [0, outer)."""

    outer: float = Field(gt=0, le=1)


class RingParams(BallParams):
    """Negatives from ranks [inner, outer), as fractions of the memory, closest first."""

    inner: float = Field(ge=0, lt=1)  # closer rows may share the query's class

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.inner >= self.outer:
            raise ValueError(f"ring needs inner < outer, got inner={self.inner}, outer={self.outer}")
        return self


class CaveParams(BallParams):
    """The ball without the query's k-means cluster (keep: outside), or with nothing but it (inside)."""

    clusters: int = Field(ge=2)
    runs: Count  # independent clusterings; their own clusters are united
    iterations: Count
    keep: Literal["outside", "inside"]


SamplerParams = UniformParams | BallParams | RingParams | CaveParams


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


class StepAnneal(LinearAnneal):
    """The same in equal steps."""

    steps: int = Field(ge=1)


class AdaptiveEpochAnneal(Params):
    """One `delta` of the way further each epoch whose validation accuracy beats the window's mean."""

    delta: float = Field(gt=0, le=1)
    window: Count


class AdaptiveStepAnneal(AdaptiveEpochAnneal):
    """One `delta` of the way further each step whose training loss is below the window's mean."""


AnnealParams = ConstantAnneal | LinearAnneal | StepAnneal | AdaptiveEpochAnneal | AdaptiveStepAnneal


class Anneals(Params):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    none: ConstantAnneal
    linear: LinearAnneal
    step: StepAnneal
    adaptive_epoch: AdaptiveEpochAnneal
    adaptive_step: AdaptiveStepAnneal


class NoNeighbours(Params):
    """The query's own positive alone."""


class CloseNeighbours(Params):
    """The closest share of the memory too, growing from none at `start` to `share` at `until` (shares of training)."""

    share: float = Field(gt=0, lt=1)
    start: Fraction
    until: Fraction

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.start > self.until:
            raise ValueError(f"needs start <= until, got start={self.start}, until={self.until}")
        return self


class ClusterNeighbours(Params):
    """The query's k-means clusters too, united over `runs` clusterings, from `start` on (a share of training)."""

    clusters: int = Field(ge=2)
    runs: Count
    iterations: Count
    start: Fraction


NeighbourParams = NoNeighbours | CloseNeighbours | ClusterNeighbours


class NeighbourSets(Params):
    none: NoNeighbours
    s: CloseNeighbours
    k: ClusterNeighbours


def rank_limits(inner: float, outer: float, others: int) -> tuple[int, int]:
    """First rank kept and first rank beyond, of `others` ranked rows.

    Raises:
        InputError: when nothing lies between.
    """
    # Rounding first: 0.29 * 100 is 28.999..., and floor would lose a row to it.
    first, last = (math.floor(round(share * others, 6)) for share in (inner, outer))
    if first == last:
        raise InputError(
            f"negatives of ranks [{inner:.4g}, {outer:.4g}) hold none of the memory's {others} other rows; "
            "widen the sampler or take a larger memory"
        )
    return first, last
