"""Rank correlations of a ring's gain with the weight of the closest rows, and with the temperature that changes it.

They are computed over the points of the law. A point compares a ring with uniform negatives of its own setting.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from numpy import ndarray
from scipy.stats import rankdata

LEAST = 5  # points of a partial correlation with an interval
RESAMPLES = 4000


class Point(NamedTuple):
    """A ring's gain by kNN, in points of accuracy."""

    gain: float
    weight_percent: float  # of the closest tenth of the rows in the loss's gradient
    temperature: float


class Correlation(NamedTuple):
    """A rank correlation and its 95 % interval over points."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


class Separation(NamedTuple):
    """Spearman's correlations over points: of the gain with weight or temperature, plain and with the other one fixed.

    All but the first are None if the points have a single temperature.
    """

    gain_with_weight: Correlation
    gain_with_temperature: Correlation | None
    weight_with_temperature: Correlation | None
    weight_at_one_temperature: Correlation | None
    temperature_at_one_weight: Correlation | None


def separation(points: Sequence[Point]) -> Separation:
    """Returns the correlations over points, with intervals from resampled points.

    Raises:
        ValueError: with fewer than five points, or if all have the same gain or the same weight.
    """
    values = np.array(points, dtype=float)
    _check(values[:, :2])
    gain, weight, temperature = values.T
    resamples = _resample(values)

    def correlation(first: int, second: int) -> Correlation:
        return _with_interval(
            spearman(values[:, first], values[:, second]), spearman(resamples[first], resamples[second])
        )

    if (temperature == temperature[0]).all():
        return Separation(correlation(0, 1), None, None, None, None)
    return Separation(
        correlation(0, 1),
        correlation(0, 2),
        correlation(1, 2),
        _with_interval(partial(gain, weight, temperature), partial(*resamples)),
        _with_interval(partial(gain, temperature, weight), partial(*resamples[[0, 2, 1]])),
    )


def spearman(first: Shaped[ndarray, "... n"], second: Shaped[ndarray, "... n"]) -> Float[ndarray, "..."]:
    """Returns the correlation of ranks; NaN if all values of one argument are the same."""
    return _correlation(*(rankdata(values, axis=-1) for values in (first, second)))


def partial(
    first: Shaped[ndarray, "... n"], second: Shaped[ndarray, "... n"], fixed: Shaped[ndarray, "... n"]
) -> Float[ndarray, "..."]:
    """Returns the correlation of the first two ranks' residuals over the rank of `fixed`; NaN if one is constant."""
    ab, ac, bc = (spearman(*pair) for pair in ((first, second), (first, fixed), (second, fixed)))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))


def _correlation(first: Shaped[ndarray, "... n"], second: Shaped[ndarray, "... n"]) -> Float[ndarray, "..."]:
    a, b = (values - values.mean(axis=-1, keepdims=True) for values in (first, second))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def _check(values: Float[ndarray, "n c"]) -> None:
    if len(values) < LEAST or (values == values[:1]).all(axis=0).any():
        raise ValueError(f"has {len(values)} points that differ too little for a correlation")


def _resample(values: Float[ndarray, "n c"]) -> Float[ndarray, "c r n"]:
    """Returns the columns of resampled points."""
    random = np.random.default_rng(0)
    return np.moveaxis(values[random.integers(len(values), size=(RESAMPLES, len(values)))], -1, 0)


def _with_interval(value: Float[ndarray, ""], resampled: Float[ndarray, " r"]) -> Correlation:
    low, high = np.nanpercentile(np.where(np.isfinite(resampled), resampled, np.nan), [2.5, 97.5])
    return Correlation(float(value), float(low), float(high))
