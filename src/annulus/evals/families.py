"""Several differences read together: survivors of a correction for all, and the number of verdicts by chance alone.

Of 40 rows without an effect, 2 are called better or worse on average over tables. A single table may differ: its rows
share their base, so one table of ten has 5 or more.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from annulus.evals.intervals import COVERAGE, Interval

TABLES = 20_000  # simulated


class ByChance(NamedTuple):
    """Verdicts in a table without an effect: mean, 90 % quantile, and percentage of tables with one or more."""

    mean: float
    one_of_ten: int
    any_percent: float


def p_value(difference: Interval) -> float:
    """Two-sided p value: 1 minus the coverage at which the interval ends at 0; 1 for one seed or no difference."""
    if difference.freedom == 0 or difference.mean == 0:
        return 1.0
    if difference.variance == 0:
        return 0.0
    return float(2 * stdtr(difference.freedom, -abs(difference.mean) / difference.variance**0.5))


def from_half(mean: float, half: float | None, seeds: int) -> Interval:
    """The interval of a mean from half of its width, with seeds - 1 degrees of freedom, the fewest possible."""
    if half is None or seeds < 2:
        return Interval(mean, 0.0, 0)
    return Interval(mean, float((half / stdtrit(seeds - 1, (1 + COVERAGE) / 2)) ** 2), seeds - 1)


def survivors(differences: Sequence[Interval]) -> list[bool]:
    """Returns True for each difference from 0 that survives a correction for all: any is false in at most 5 % of cases.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6.
    It holds under any dependence, so also for rows that share their base.
    """
    values = [p_value(difference) for difference in differences]
    rejections, rejecting = [False] * len(values), True
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        rejecting = rejecting and values[place] <= (1 - COVERAGE) / (len(values) - rank)
        rejections[place] = rejecting
    return rejections


@cache
def by_chance(rows: int, seeds: int) -> ByChance:
    """Simulates the verdicts of `rows` differences from one base without an effect.

    Each row and the base have a normally distributed number for each seed. Differences are paired by seeds, with
    Student's t over seeds.
    """
    if rows < 1 or seeds < 2:
        return ByChance(0.0, 0, 0.0)
    random, quantile = np.random.default_rng(0), stdtrit(seeds - 1, (1 + COVERAGE) / 2)
    counts = []
    for _ in range(0, TABLES, 1000):
        numbers = random.normal(size=(1000, rows + 1, seeds))
        differences = numbers[:, 1:] - numbers[:, :1]
        halves = quantile * differences.std(axis=2, ddof=1) / seeds**0.5
        counts.append((np.abs(differences.mean(axis=2)) > halves).sum(axis=1))
    verdicts = np.concatenate(counts)
    return ByChance((1 - COVERAGE) * rows, int(np.quantile(verdicts, 0.9)), 100 * float((verdicts > 0).mean()))
