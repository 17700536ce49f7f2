"""95 % intervals of measurements, over seeds and over test images.

Both are samples: other seeds and other test images would give other numbers. An accuracy of S seeds on n test images is
the mean of a table of 1 (right) and 0 (wrong). Its seeds and images are crossed random effects.
tests/benchmarks/bench_coverage.py simulates the share of intervals that hold the truth: 94 to 96 % with 3 and 5 seeds,
95 to 98 % with two, 99 to 100 % with 2 or 3 seeds against 10. It assumes normally distributed seeds. If every tenth run
fails, few seeds do not reveal it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Shaped
from scipy.special import nctdtrinc, stdtrit

from annulus.errors import InputError, abridge

COVERAGE = 0.95
FEW = 2  # degrees of freedom: of three seeds
POWER = 0.8  # share of cases in which the interval of a visible difference excludes 0

Parts = Sequence[tuple[float, int | float]]  # independent estimates of variance, with their degrees of freedom


class Interval(NamedTuple):
    """A mean, the variance of the mean, and the degrees of freedom of the variance's estimate.

    >>> interval = annulus.over_seeds([60.0, 62.0, 64.0])
    >>> f"{interval.mean:.1f} ± {interval.half:.1f}"
    '62.0 ± 5.0'
    """

    mean: float
    variance: float
    freedom: int | float

    @property
    def half(self) -> float | None:
        """Half of the interval's width (Student's t); None for one seed."""
        if self.freedom == 0:
            return None
        return float(stdtrit(self.freedom, (1 + COVERAGE) / 2) * self.variance**0.5)

    @property
    def visible(self) -> float | None:
        """The true difference whose interval excludes 0 in 80 % of cases; None for one seed.

        It is 1.29 (two seeds) to 1.43 times `half`, by the quantile of the non-central t distribution. The interval of
        a true difference of `half` excludes 0 in half of the cases.
        """
        if self.freedom == 0:
            return None
        needed = nctdtrinc(self.freedom, 1 - POWER, stdtrit(self.freedom, (1 + COVERAGE) / 2))
        return float(needed * self.variance**0.5)

    def times(self, factor: int | float) -> "Interval":
        """The interval in another unit."""
        return Interval(self.mean * factor, self.variance * factor**2, self.freedom)

    def minus(self, base: "Interval") -> "Interval":
        """The difference of two independent means.

        If a side has two or three seeds, the interval has that side's degrees of freedom: its variance is hardly known,
        and Welch's degrees of freedom follow the estimate.

        Source: Welch 1947, "The generalization of Student's problem when several different population variances are
        involved", Biometrika 34.
        """
        if self.freedom == 0 or base.freedom == 0:
            return Interval(self.mean - base.mean, 0.0, 0)
        variance, smaller = self.variance + base.variance, min(self.freedom, base.freedom)
        parts = [(self.variance, self.freedom), (base.variance, base.freedom)]
        known = variance > 0 and smaller > FEW
        return Interval(self.mean - base.mean, variance, _freedom(variance, parts) if known else smaller)


def over_seeds(values: Sequence[float]) -> Interval:
    """Mean and interval over seeds (Student's t).

    >>> annulus.over_seeds([60.0, 62.0, 64.0])
    Interval(mean=62.0, variance=1.3333333333333333, freedom=2)

    Raises:
        InputError: without a value, or if one is NaN or infinite.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"values {abridge(values.tolist())}: give a finite number of each seed, one seed or more")
    seeds = len(values)
    # For equal values it is exactly 0, without rounding: `with_images` tests this.
    alike = np.ptp(values) <= 1e-12 * np.abs(values).max()
    variance = 0.0 if alike else float(np.var(values, ddof=1)) / seeds
    return Interval(float(np.mean(values)), variance, seeds - 1)


def over_seeds_and_images(table: Shaped[np.ndarray, "s n"]) -> Interval:
    """Mean and interval of a table, seeds by test images.

    The table holds 0 and 1 for an accuracy, or -1, 0 and 1 for the difference of two runs that share seeds and images.
    With one image, the interval is over seeds alone. With one seed there is none (`half` is None), since other seeds
    may differ by more than images.

    With the mean squares of seeds, of images and of the rest, the variance of the mean is estimated by
    (MS_seeds + max(MS_images - MS_rest, 0)) / (S n). If the interval over the seeds alone is wider, it is returned.

    >>> correct = torch.rand(3, 1000, generator=torch.Generator().manual_seed(0)) < 0.8  # three seeds, 1000 images
    >>> accuracy = annulus.over_seeds_and_images(correct.numpy()).times(100)
    >>> f"{accuracy.mean:.1f} ± {accuracy.half:.1f} %"
    '80.5 ± 2.8 %'

    Raises:
        InputError: unless the argument is a table of numbers whose rows are alike in length.
    """
    table = _table("table", table)
    return with_images(over_seeds(table.mean(axis=1).tolist()), [_images(table)], [_rest(table)])


def between_tables(
    head: Shaped[np.ndarray, "s n"], base: Shaped[np.ndarray, "t m"], same_seeds: bool, same_images: bool
) -> Interval:
    """The difference of two tables' means, paired by the seeds, the test images, or both that they share.

    If runs share the images but not the seeds, they are compared image by image, by the means over each side's seeds.

    >>> head = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 1]]).numpy()  # two seeds, four test images
    >>> base = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0]]).numpy()
    >>> difference = annulus.between_tables(head, base, same_seeds=True, same_images=True)
    >>> difference.mean
    0.25

    Raises:
        InputError: unless both are tables, with equal numbers of the seeds or images that they share.
    """
    head, base = _table("head", head), _table("base", base)
    for axis, (name, same) in enumerate((("seeds", same_seeds), ("images", same_images))):
        if same and head.shape[axis] != base.shape[axis]:
            raise InputError(
                f"head has {head.shape[axis]} {name}, base {base.shape[axis]}: give same_{name}=False, or both tables "
                f"of the same {name}, in the same order"
            )
    if same_seeds and same_images:
        return over_seeds_and_images(head - base)
    head_means, base_means = head.mean(axis=1), base.mean(axis=1)
    if same_seeds:
        seeds = over_seeds((head_means - base_means).tolist())
    else:
        seeds = over_seeds(head_means.tolist()).minus(over_seeds(base_means.tolist()))
    if same_images:
        images = [_images(head.mean(axis=0, keepdims=True) - base.mean(axis=0))]
    else:
        images = [_images(head), _images(base)]
    return with_images(seeds, images, [_rest(head), _rest(base)])


def with_images(seeds: Interval, images: Parts, rest: Parts) -> Interval:
    """Adds to an interval over seeds the variance that all seeds share through their test images.

    `seeds` includes the variance between seeds and the rest of each image within a seed. `images` is the variance of
    the mean by test images alone, and `rest` its part that the seeds do not share. The difference is added if it is
    positive. The new interval has Satterthwaite's degrees of freedom, at least as in `seeds`. The wider of both
    intervals is returned: if few seeds are alike by chance, the new one would nearly ignore their differences.

    Source: Cornfield and Tukey 1956, "Average values of mean squares in factorials", Annals of Mathematical Statistics
    27; Satterthwaite 1946, "An approximate distribution of estimates of variance components", Biometrics Bulletin 2.
    """
    shared = sum(part for part, _ in images) - sum(part for part, _ in rest)
    if seeds.freedom == 0:
        return Interval(seeds.mean, sum(part for part, _ in images), 0)
    if shared <= 0:
        if seeds.variance == 0 < sum(part for part, _ in rest):  # few seeds are alike by chance, but vary
            return _from_parts(seeds.mean, rest)
        return seeds
    variance = seeds.variance + shared
    freedom = _freedom(variance, [(seeds.variance, seeds.freedom), *images, *rest])
    return max(seeds, Interval(seeds.mean, variance, max(freedom, seeds.freedom)), key=lambda interval: interval.half)


def _from_parts(mean: float, parts: Parts) -> Interval:
    variance = sum(part for part, _ in parts)
    return Interval(mean, variance, _freedom(variance, parts))


def verdict(difference: Interval, words: tuple[str, str] = ("better", "worse"), unit: str = "") -> str:
    """A word for a difference: one of `words` if its interval excludes 0, else `within noise` with `Interval.visible`.

    A true difference of `visible` gets a word in 80 % of cases. `equal`: no seed has a difference, for example between
    two runs of one setting. `one seed`: no word, since other seeds may differ by more.

    >>> annulus.verdict(annulus.over_seeds([2.0, 2.2, 2.1]))
    'better'
    >>> annulus.verdict(annulus.over_seeds([2.0, -2.2, 0.1]), unit=" %")
    'within noise (could see 6.9 %)'
    """
    if not isinstance(difference, Interval):
        raise InputError(f"difference is a {type(difference).__name__}; give an annulus.Interval, as of over_seeds")
    half, visible = difference.half, difference.visible
    if difference.mean == difference.variance == 0:
        return "equal"
    if half is None or visible is None:
        return "one seed"
    if abs(difference.mean) > half:
        return words[difference.mean < 0]
    return f"within noise (could see {visible:.2g}{unit})"


def _table(name: str, values: Shaped[np.ndarray, "s n"]) -> Float64[np.ndarray, "s n"]:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:  # rows of several lengths, words
        raise InputError(
            f"{name} {abridge(values)}: give a table of numbers, each seed's row as long as the others"
        ) from error
    if table.ndim != 2 or table.size == 0:
        raise InputError(f"{name} of shape {table.shape}: give a table, a row of each seed and a column of each image")
    return table


def _images(table: Shaped[np.ndarray, "s n"]) -> tuple[float, int]:
    """MS_images / (S n), the variance of the mean by images, each a mean over seeds; and its degrees of freedom."""
    images = table.shape[1]
    return (float(table.mean(axis=0).var(ddof=1)) / images, images - 1) if images > 1 else (0.0, 1)


def _rest(table: Shaped[np.ndarray, "s n"]) -> tuple[float, int]:
    """MS_rest / (S n), and its degrees of freedom."""
    seeds, images = table.shape
    if min(seeds, images) == 1:
        return 0.0, 1
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    freedom = (seeds - 1) * (images - 1)
    return float((rest**2).sum()) / freedom / table.size, freedom


def _freedom(variance: float, parts: Parts) -> float:
    """Satterthwaite's degrees of freedom of sums and differences of independent estimates of variance."""
    return variance**2 / sum(part**2 / freedom for part, freedom in parts)
