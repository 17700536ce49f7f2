"""Sections of stages/estimators/params.yaml: toys, critics, and how they are trained."""

import math
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from annulus.config.params import Name, Params
from annulus.errors import InputError
from annulus.negatives.samplers import Ball, Ring
from annulus.settings import Depth, Fraction, Positive, Rate, Rows, Steps, Temperature, Width


def _candidates(m: int) -> int:
    if m < 2:
        raise InputError(f"m = {m} has no negative beside the positive; a bound needs at least 2 candidates")
    if m > 2**16:
        raise InputError(f"m = {m}: scores are a table of m rows and m columns; take at most {2**16}")
    return m


def _alpha(alpha: float) -> float:
    if alpha <= 0:
        raise InputError(
            f"alpha = {alpha:g}; it must be above 0 and below m: below 1 cpc is not a lower bound, below "
            "m/(n(m-1)+1) mlcpc is not, and at 0 neither has a ceiling"
        )
    if alpha < 1e-9:
        raise InputError(f"alpha = {alpha:g} cannot be told from 0 beside a weight of 1; take at least 1e-9")
    return alpha


def _correlation(rho: float) -> float:
    if not -1 < rho < 1:
        raise InputError(f"rho = {rho:g}; a correlation lies above -1 and below 1, where the information is finite")
    return rho


Candidates = Annotated[int, AfterValidator(_candidates)]  # m: a positive and its negatives
Alpha = Annotated[float, AfterValidator(_alpha)]
Correlation = Annotated[float, AfterValidator(_correlation)]


def _below_candidates(alphas: list[float], m: int) -> None:
    for alpha in alphas:
        if alpha >= m:
            raise InputError(
                f"alpha = {alpha:g} with m = {m}: from m on a negative's weight (m - alpha)/(m - 1) is not positive; "
                "take a smaller alpha or more pairs"
            )


class GaussiansParams(Params):
    """eqco Table 9: InfoNCE and EqCo on correlated Gaussians, each critic trained on its own bound."""

    dims: Width
    information: list[Positive] = Field(min_length=1)  # nats
    pairs: list[Candidates] = Field(min_length=1)  # per step: each query's own pair and the others as negatives
    hidden: Width
    layers: Depth  # hidden ones
    outputs: Width
    temperature: Temperature | None  # null: the plain product of the two networks' outputs
    eqco_alpha: Positive
    first_seeds: Steps  # how many of the study's seeds
    steps: Steps
    learning_rate: Rate
    evaluations: Steps  # batches after training


class IdealParams(Params):
    """Every bound with the ideal critic of correlated Gaussians."""

    dims: Width
    information: list[Positive] = Field(min_length=1)  # nats
    pairs: Candidates
    repeats: int = Field(ge=2, le=10**6)
    alpha: Alpha  # of cpc
    eqco_alpha: Positive
    negatives: Rows  # drawn from the ball and from the ring
    ball: Ball
    ring: Ring

    @model_validator(mode="after")
    def _alpha_below_m(self) -> Self:
        _below_candidates([self.alpha], self.pairs)
        return self


class BinaryParams(Params):
    """mlcpc Figures 1 and 2: X = Y, with n = m pairs a batch."""

    p: float = Field(gt=0, lt=1)  # probability of (1, 1)
    candidates: list[Candidates] = Field(min_length=1)  # m
    alphas: list[Alpha] = Field(min_length=1)
    simulations: int = Field(ge=2, le=10**9)  # batches drawn beside the closed form

    @model_validator(mode="after")
    def _alphas_below_m(self) -> Self:
        _below_candidates(self.alphas, min(self.candidates))
        return self


class StaircaseParams(Params):
    """mlcpc Figure 3: critics that follow information which rises in steps."""

    critic: Literal["separable", "joint"]
    dims: Width
    information: list[Positive] = Field(min_length=1)  # nats, level by level
    steps_per_level: int = Field(ge=4, le=10**9)  # a level's estimate is the mean over its last quarter
    pairs: Candidates
    hidden: Width
    layers: Depth
    outputs: Width | None  # of the separable critic; null: the joint one has a single score
    alphas: list[Alpha] = Field(min_length=1)
    learning_rate: Rate
    points: Steps  # of the figure, per level

    @model_validator(mode="after")
    def _consistent(self) -> Self:
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
        return self


class ConditionalVariant(Params):
    """One way to score and to train the toy's critics."""

    # cosine: product of normalised embeddings, divided by the temperature. product: of embeddings as they are.
    # distance: as product, but the closest are chosen by embeddings' distance (mutualinfo), not by the score (ring).
    score: Literal["cosine", "product", "distance"]
    learning_rate: Rate
    warm_start: Fraction  # share of the epochs, from the first on, with negatives from all points


class ConditionalParams(Params):
    """mutualinfo Table 3 and ring Table 5: NCE and CNCE of the two-dimensional toy, trained and measured."""

    points: int = Field(ge=2, le=2**24)
    hidden: Width
    layers: Depth
    outputs: Width
    temperature: Temperature  # of score: cosine
    batch_size: Rows
    epochs: Steps
    negatives: Rows
    percents: list[int] = Field(min_length=1)  # of the points, closest first, from which negatives come; 100: NCE
    draws: Rows  # of negatives per point, when the trained critics are measured
    variants: dict[Name, ConditionalVariant] = Field(min_length=1)

    @model_validator(mode="after")
    def _sets_hold_points(self) -> Self:
        for percent in self.percents:
            if not 0 < percent <= 100 or math.floor((self.points - 1) * percent / 100) < 1:
                raise InputError(
                    f"percents: {percent} % of {self.points} points; a set is more than 0 and at most 100 percent of "
                    "the other points, and holds at least one"
                )
        if self.batch_size > self.points:
            raise InputError(f"batch_size: {self.batch_size} is more than the {self.points} points")
        return self


class TheoremsParams(Params):
    """Bias and variance of NCE and CNCE with the ideal critic, a distribution that breaks the bound, and the ring."""

    dims: Width
    rho: Correlation
    memory: int = Field(ge=20, le=2**24)  # candidates, of which a set keeps a share
    negatives: Rows
    queries: Rows
    repeats: int = Field(ge=2, le=10**6)
    ball: Ball  # the negatives of CNCE
    high: Ring  # a ring of close candidates, where the theorem's condition holds
    low: Ring  # a ring of far ones, where it does not
    lowest: Ring  # the farthest ones of all, for the counterexample

    @model_validator(mode="after")
    def _queries_are_in_the_memory(self) -> Self:
        if self.queries > self.memory:
            raise InputError(f"queries: {self.queries} of a memory of {self.memory}; take at most as many as it holds")
        return self
