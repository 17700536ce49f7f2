"""Rank correlations of a ring's gain with the weight of the closest rows, and with the temperature that moves it.

They are taken over the points of the law. A point is a ring beside uniform negatives of its own setting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from numpy import ndarray
from scipy.stats import rankdata

LEAST = 5  # points, for a partial correlation with an interval
RESAMPLES = 4000


class Point(NamedTuple):
    """A ring's gain by kNN, in points of accuracy."""

    gain: float
    weight_percent: float  # of the softmax, in the closest tenth of the rows
    temperature: float


class Correlation(NamedTuple):
    """A rank correlation and its 95 % interval over points."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


@dataclass(frozen=True)
class Separation:
    """Spearman's correlations of a gain, a weight and a temperature, and those with the third held fixed."""

    points: int
    gain_with_weight: float
    gain_with_temperature: float
    weight_with_temperature: float
    weight_at_one_temperature: Correlation
    temperature_at_one_weight: Correlation

    def __str__(self) -> str:
        return (
            f"over {self.points} points the gain has the rank correlation {self.gain_with_weight:+.2f} with the weight "
            f"and {self.gain_with_temperature:+.2f} with the temperature; these two have "
            f"{self.weight_with_temperature:+.2f}. With the temperature fixed, the weight's is "
            f"{self.weight_at_one_temperature}; with the weight fixed, the temperature's is "
            f"{self.temperature_at_one_weight}"
        )


def separation(points: Sequence[Point]) -> Separation:
    """Correlations over points, with intervals from resampled points.

    Raises:
        ValueError: with fewer than five points, or where a value is the same in all.
    """
    values = np.array(points, dtype=float)
    _check(values)
    gain, weight, temperature = values.T
    drawn = _resampled(values)
    return Separation(
        len(values),
        *(float(spearman(*pair)) for pair in ((gain, weight), (gain, temperature), (weight, temperature))),
        _with_interval(partial(gain, weight, temperature), partial(*drawn)),
        _with_interval(partial(gain, temperature, weight), partial(*drawn[[0, 2, 1]])),
    )


def of_gain_with(column: Literal["weight_percent", "temperature"], points: Sequence[Point]) -> Correlation:
    """Spearman's correlation of the gain with one of the others, with an interval from resampled points.

    Raises:
        ValueError: with fewer than five points, or where either is the same in all.
    """
    values = np.array([(point.gain, getattr(point, column)) for point in points], dtype=float)
    _check(values)
    gain, other = _resampled(values)
    return _with_interval(spearman(*values.T), spearman(gain, other))


def spearman(first: Shaped[ndarray, "... n"], second: Shaped[ndarray, "... n"]) -> Float[ndarray, "..."]:
    """Correlation of ranks; NaN where all values of one are the same."""
    return _correlation(*(rankdata(values, axis=-1) for values in (first, second)))


def partial(
    first: Shaped[ndarray, "... n"], second: Shaped[ndarray, "... n"], fixed: Shaped[ndarray, "... n"]
) -> Float[ndarray, "..."]:
    """Correlation of the first two ranks' residuals over the rank of `fixed`; NaN where a residual is constant."""
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


def _resampled(values: Float[ndarray, "n c"]) -> Float[ndarray, "c r n"]:
    """Columns of resampled points."""
    random = np.random.default_rng(0)
    return np.moveaxis(values[random.integers(len(values), size=(RESAMPLES, len(values)))], -1, 0)


def _with_interval(value: Float[ndarray, ""], resampled: Float[ndarray, " r"]) -> Correlation:
    low, high = np.nanpercentile(np.where(np.isfinite(resampled), resampled, np.nan), [2.5, 97.5])
    return Correlation(float(value), float(low), float(high))
