"""Sections of stages/estimators/params.yaml: toys, critics and their training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen

from annulus.errors import InputError
from annulus.negatives.samplers import Ball, Ring
from annulus.settings import Depth, Fraction, Positive, Rate, Rows, Rule, Section, Steps, Temperature, Width
from annulus_lab.config.params import Name, Seeds, each_once


def first_seeds(seeds: Sequence[int], first: int, section: str) -> Sequence[int]:
    """First seeds of a study.

    Raises:
        InputError: when the study has fewer.
    """
    if first > len(seeds):
        raise InputError(
            f"{section}.first_seeds: {first} of {len(seeds)} seeds; name more seeds, or take fewer of them"
        )
    return seeds[:first]


def _candidates(m: int) -> None:
    if m < 2:
        raise InputError(f"m = {m} has no negative beside the positive; a bound needs at least 2 candidates")
    if m > 2**16:
        raise InputError(f"m = {m}: scores are a table of m rows and m columns; take at most {2**16}")


def _alpha(alpha: float) -> None:
    if alpha <= 0:
        raise InputError(
            f"alpha = {alpha:g}; it must be above 0 and below m: below 1 cpc is not a lower bound, below "
            "m/(n(m-1)+1) mlcpc is not, and at 0 neither has a ceiling"
        )
    if alpha < 1e-9:
        raise InputError(f"alpha = {alpha:g} is as good as 0 beside a weight of 1; take at least 1e-9")


def _correlation(rho: float) -> None:
    if not -1 < rho < 1:
        raise InputError(f"rho = {rho:g}; a correlation lies above -1 and below 1, where the information is finite")


Candidates = Annotated[int, Rule(_candidates)]  # m: a positive and its negatives
Alpha = Annotated[float, Rule(_alpha)]
Correlation = Annotated[float, Rule(_correlation)]


def _below_candidates(alphas: list[float], m: int) -> None:
    for alpha in alphas:
        if alpha >= m:
            raise InputError(
                f"alpha = {alpha:g} with m = {m}: from m on a negative's weight (m - alpha)/(m - 1) is not positive; "
                "take a smaller alpha or more pairs"
            )


@dataclass(frozen=True, kw_only=True)
class GaussiansParams(Section):
    """eqco Table 9: InfoNCE and EqCo on correlated Gaussians, each critic trained on its own bound."""

    dims: Width
    information: Annotated[list[Positive], MinLen(1), Rule(each_once)]  # nats
    # Per step: each query has its own pair, and the other pairs as negatives.
    pairs: Annotated[list[Candidates], MinLen(1), Rule(each_once)]
    hidden: Width
    layers: Depth  # hidden ones
    outputs: Width
    temperature: Temperature | None  # null: the plain product of the two networks' outputs
    eqco_alpha: Positive
    first_seeds: Steps  # number of the study's seeds, from the first
    steps: Steps
    learning_rate: Rate
    evaluations: Steps  # batches after training


@dataclass(frozen=True, kw_only=True)
class IdealParams(Section):
    """Every bound with the ideal critic of correlated Gaussians."""

    dims: Width
    information: Annotated[list[Positive], MinLen(1), Rule(each_once)]  # nats
    pairs: Candidates
    repeats: Annotated[int, Ge(2), Le(10**6)]
    alpha: Alpha  # of cpc
    eqco_alpha: Positive
    negatives: Rows  # drawn from the ball and from the ring
    ball: Ball
    ring: Ring

    def __post_init__(self) -> None:
        super().__post_init__()
        _below_candidates([self.alpha], self.pairs)


@dataclass(frozen=True, kw_only=True)
class BinaryParams(Section):
    """mlcpc Figures 1 and 2: X = Y, with n = m pairs a batch."""

    p: Annotated[float, Gt(0), Lt(1)]  # probability of (1, 1)
    candidates: Annotated[list[Candidates], MinLen(1), Rule(each_once)]  # m
    alphas: Annotated[list[Alpha], MinLen(1), Rule(each_once)]
    simulations: Annotated[int, Ge(2), Le(10**9)]  # batches drawn beside the closed form

    def __post_init__(self) -> None:
        super().__post_init__()
        _below_candidates(self.alphas, min(self.candidates))


@dataclass(frozen=True, kw_only=True)
class StaircaseParams(Section):
    """mlcpc Figure 3: critics under information that rises in steps."""

    critic: Literal["separable", "joint"]
    dims: Width
    information: Annotated[list[Positive], MinLen(1), Rule(each_once)]  # nats, level by level
    steps_per_level: Annotated[int, Ge(4), Le(10**9)]  # a level's estimate is the mean over its last quarter
    pairs: Candidates
    hidden: Width
    layers: Depth
    outputs: Width | None  # of the separable critic; null for the joint critic, which has a single score
    alphas: Annotated[list[Alpha], MinLen(1), Rule(each_once)]
    learning_rate: Rate
    points: Steps  # of the figure, per level
    first_seeds: Steps  # number of the study's seeds, from the first

    def __post_init__(self) -> None:
        super().__post_init__()
        _below_candidates(self.alphas, self.pairs)
        if (self.outputs is None) != (self.critic == "joint"):
            raise InputError(
                f"outputs: {self.outputs} with critic: {self.critic}; a separable critic has a number of outputs, "
                "a joint one null"
            )
        if self.steps_per_level % self.points:
            raise InputError(
                f"points: {self.points} does not divide steps_per_level: {self.steps_per_level}; a point of the figure "
                "is the mean over equally many steps"
            )


@dataclass(frozen=True, kw_only=True)
class ConditionalVariant(Section):
    """Score and training of the toy's critics."""

    # cosine: product of normalised embeddings, divided by the temperature. product: product of plain embeddings.
    # distance: product, but the embeddings' distance (mutualinfo) ranks the points, not the score (ring).
    score: Literal["cosine", "product", "distance"]
    learning_rate: Rate
    warm_start: Fraction  # share of the epochs, from the first on, with negatives from all points


@dataclass(frozen=True, kw_only=True)
class ConditionalParams(Section):
    """mutualinfo Table 3 and ring Table 5: NCE and CNCE of the two-dimensional toy, trained and measured."""

    seeds: Seeds  # in place of the study's
    points: Annotated[int, Ge(2), Le(2**24)]
    hidden: Width
    layers: Depth
    outputs: Width
    temperature: Temperature  # of score: cosine
    batch_size: Rows
    epochs: Steps
    negatives: Rows
    # Percent of the points: the closest ones, which give negatives; 100: NCE.
    percents: Annotated[list[int], MinLen(1), Rule(each_once)]
    draws: Rows  # of negatives per point, and of unseen points, in the measurement after training
    variants: Annotated[dict[Name, ConditionalVariant], MinLen(1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        for percent in self.percents:
            if not 0 < percent <= 100 or math.floor((self.points - 1) * percent / 100) < 1:
                raise InputError(
                    f"percents: {percent} % of {self.points} points; a set is more than 0 and at most 100 percent of "
                    "the other points, and holds at least one"
                )
        if self.batch_size > self.points:
            raise InputError(f"batch_size: {self.batch_size} is more than the {self.points} points")


@dataclass(frozen=True, kw_only=True)
class TheoremsParams(Section):
    """Bias and variance of NCE and CNCE with the ideal critic, a case that breaks the bound, and the ring."""

    dims: Width
    rho: Correlation
    memory: Annotated[int, Ge(20), Le(2**24)]  # number of candidates; a set holds a share of them
    negatives: Rows
    queries: Rows
    repeats: Annotated[int, Ge(2), Le(10**6)]
    ball: Ball  # the negatives of CNCE
    high: Ring  # ring of close candidates; the theorem's condition holds
    low: Ring  # ring of far candidates; the condition does not hold
    lowest: Ring  # ring of the farthest candidates, for the counterexample

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queries > self.memory:
            raise InputError(f"queries: {self.queries} of a memory of {self.memory}; take at most {self.memory}")
