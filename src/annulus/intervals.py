"""95 % intervals of what was measured: over seeds, and over test images.

Both are samples: other seeds and other test images would give other numbers. An accuracy of S seeds on n test images is
the mean of a table of right and wrong in which both are random effects that cross.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped
from scipy.special import stdtrit

COVERAGE = 0.95


class Interval(NamedTuple):
    """A mean, the variance of the mean, and the degrees of freedom that the variance was estimated with."""

    mean: float
    variance: float
    freedom: int | float

    @property
    def half(self) -> float | None:
        """Half of the interval's width (Student's t); None for one value, of which no variance is known."""
        if self.freedom == 0:
            return None
        return float(stdtrit(self.freedom, (1 + COVERAGE) / 2) * self.variance**0.5)

    def times(self, factor: int | float) -> "Interval":
        """The same in another unit."""
        return Interval(self.mean * factor, self.variance * factor**2, self.freedom)

    def minus(self, base: "Interval") -> "Interval":
        """The difference of two independent means.

        Source: Welch 1947, "The generalization of Student's problem when several different population variances are
        involved", Biometrika 34.
        """
        if self.freedom == 0 or base.freedom == 0:
            return Interval(self.mean - base.mean, 0.0, 0)
        parts = [(self.variance, self.freedom), (base.variance, base.freedom)]
        return Interval(self.mean - base.mean, self.variance + base.variance, _freedom(parts))


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean over seeds (Student's t)."""
    seeds = len(values)
    variance = float(np.var(values, ddof=1)) / seeds if seeds > 1 else 0.0
    return Interval(float(np.mean(values)), variance, seeds - 1)


def over_seeds_and_images(table: Shaped[np.ndarray, "s n"]) -> Interval:
    """The mean of a table, seeds by test images: of 0 and 1 for an accuracy; of -1, 0 and 1 for the difference of two
    runs that share seeds and images. Of one seed, the interval holds the images only; of one image, the seeds only.

    With the mean squares of seeds, of images and of the rest, the variance of the mean is estimated by
    (max(MS_seeds - MS_rest, 0) + max(MS_images - MS_rest, 0) + MS_rest) / (S n), and its degrees of freedom are
    Satterthwaite's, at least S - 1.

    Source: Cornfield and Tukey 1956, "Average values of mean squares in factorials", Annals of Mathematical Statistics
    27; Satterthwaite 1946, "An approximate distribution of estimates of variance components", Biometrics Bulletin 2.
    """
    table = np.asarray(table, dtype=np.float64)
    seeds, images = table.shape
    if images == 1:
        return over_seeds(table[:, 0].tolist())
    mean = table.mean()
    if seeds == 1:
        return Interval(float(mean), float(table.var(ddof=1)) / images, images - 1)
    of_seeds, of_images = table.mean(axis=1) - mean, table.mean(axis=0) - mean
    rest = table - mean - of_seeds[:, None] - of_images
    both = (seeds - 1) * (images - 1)
    effects = [
        (images * (of_seeds**2).sum() / (seeds - 1), seeds - 1),
        (seeds * (of_images**2).sum() / (images - 1), images - 1),
    ]
    noise = float((rest**2).sum()) / both
    parts = [(float(square), freedom) for square, freedom in effects if square > noise]
    parts.append(((1 - len(parts)) * noise, both))  # what is left of max(.., 0) + max(.., 0) + MS_rest
    variance = sum(part for part, _ in parts) / (seeds * images)
    return Interval(float(mean), float(variance), max(_freedom(parts), seeds - 1))


def verdict(difference: Interval, words: tuple[str, str] = ("better", "worse"), unit: str = "") -> str:
    """What a difference says: a word where its interval excludes 0, else the smallest difference that it could see."""
    if difference.half is None:
        return "one seed"
    if abs(difference.mean) > difference.half:
        return words[difference.mean < 0]
    return f"within noise (could see {difference.half:.2g}{unit})"


def _freedom(parts: Sequence[tuple[float, int | float]]) -> int | float:
    """Satterthwaite's degrees of freedom of a sum of independent estimates of variance."""
    total = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    return total**2 / spread if spread > 0 else min(freedom for _, freedom in parts)
