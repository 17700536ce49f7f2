"""Coverage of the 95 % intervals of annulus.evals.intervals on made-up tables of seeds by test images.

A difference is -1, 0 or 1 for a seed and an image. `ratio` is its true MS_seeds / MS_rest. MS_images is 1.3 times
MS_rest where seeds share the images that change, as pairs on CIFAR-10 do, else it equals MS_rest. An accuracy's logits
have a share of the image, of the seed, and of the seed with each of ten classes. Sides with unequal numbers of seeds
are compared by accuracies of the same images, and by numbers without images.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Float
from timing import write

from annulus.evals.intervals import Interval, between_tables, over_seeds, over_seeds_and_images

RUNS, IMAGES, CLASSES = 5000, 1000, 10
MANY = 10  # seeds of the other side
CHANGED = 0.3  # of the images, in a difference of two runs
LOGIT, OF_IMAGE = 0.8, 1.5  # an accuracy near 65 %
OUTLIERS, LOST = 0.1, 0.2  # every tenth run loses 20 points

Tables = Iterator[Float[np.ndarray, "s n"]]
Draws = np.random.Generator


def main() -> None:
    random, shares = np.random.default_rng(0), {}
    for seeds in (2, 3, 5):
        for ratio in (1, 2, 3, 5):
            for name, image_ratio in (("", 1.0), ("_images_shared", 1.3)):
                tables = differences(random, seeds, ratio, image_ratio)
                shares[f"difference_{seeds}_seeds_ratio_{ratio}{name}"] = coverage(
                    map(over_seeds_and_images, tables), 0
                )
        halves = ((table[:seeds], table[seeds:]) for table in accuracies(random, 2 * seeds, 0.1, 0.0))
        others = (between_tables(*both, same_seeds=False, same_images=True) for both in halves)
        shares[f"difference_{seeds}_other_seeds"] = coverage(others, 0)
        failing = map(over_seeds_and_images, outliers(random, seeds))
        shares[f"difference_{seeds}_seeds_outliers"] = coverage(failing, -OUTLIERS * LOST)
    for seeds in (3, 5):
        for name, seed_spread, class_spread in (("", 0.0, 0.0), ("_differ", 0.1, 0.0), ("_classes_differ", 0.1, 0.3)):
            tables = accuracies(random, seeds, seed_spread, class_spread)
            shares[f"accuracy_{seeds}_seeds{name}"] = coverage(
                map(over_seeds_and_images, tables), accuracy(seed_spread, class_spread)
            )
    shares |= unequal(np.random.default_rng(0))
    percents = {f"{name}_percent": 100 * share for name, share in shares.items()}
    write("coverage", torch.device("cpu"), runs=RUNS, images=IMAGES, **percents)


def unequal(random: Draws) -> dict[str, float]:
    """Coverage of differences between a side with few seeds and a side with many seeds of one variant."""
    shares = {}
    for seeds in (2, 3, 5):
        halves = ((table[:seeds], table[seeds:]) for table in accuracies(random, seeds + MANY, 0.1, 0.0))
        others = (between_tables(*both, same_seeds=False, same_images=True) for both in halves)
        shares[f"difference_{seeds}_against_{MANY}_seeds"] = coverage(others, 0)
        draws = (np.split(random.normal(size=seeds + MANY), [seeds]) for _ in range(RUNS))
        numbers = (over_seeds(few.tolist()).minus(over_seeds(many.tolist())) for few, many in draws)
        shares[f"numbers_{seeds}_against_{MANY}_seeds"] = coverage(numbers, 0)
    return shares


def coverage(intervals: Iterable[Interval], true: float) -> float:
    """Share of the intervals that hold the true value."""
    return float(np.mean([abs(one.mean - true) <= (one.half or 0) for one in intervals]))


def differences(random: Draws, seeds: int, ratio: float, image_ratio: float) -> Tables:
    """Tables of differences between two variants that are equal on average."""
    shared = CHANGED * (image_ratio - 1) / (seeds + image_ratio - 1)  # variances of images (shared) and of seeds
    seed_variance = (CHANGED - shared) * (ratio - 1) / IMAGES
    for _ in range(RUNS):
        images = shared**0.5 * random.choice([-1, 1], IMAGES)
        yield ternary(random, images + seed_variance**0.5 * random.normal(size=(seeds, 1)))


def outliers(random: Draws, seeds: int) -> Tables:
    for _ in range(RUNS):
        yield ternary(random, np.where(random.random((seeds, 1)) < OUTLIERS, -LOST, 0) + np.zeros(IMAGES))


def ternary(random: Draws, means: Float[np.ndarray, "s n"]) -> Float[np.ndarray, "s n"]:
    """Draws -1, 0 and 1 with these means."""
    uniform = random.random(means.shape)
    return (uniform < (CHANGED + means) / 2).astype(float) - (uniform > 1 - (CHANGED - means) / 2)


def accuracies(random: Draws, seeds: int, seed_spread: float, class_spread: float) -> Tables:
    classes = np.arange(IMAGES) % CLASSES
    for _ in range(RUNS):
        logits = LOGIT + OF_IMAGE * random.normal(size=IMAGES) + seed_spread * random.normal(size=(seeds, 1))
        logits = logits + class_spread * random.normal(size=(seeds, CLASSES))[:, classes]
        yield (random.random((seeds, IMAGES)) < 1 / (1 + np.exp(-logits))).astype(float)


def accuracy(seed_spread: float, class_spread: float) -> float:
    """True accuracy: the mean over the normal distribution of the logits."""
    points, weights = np.polynomial.hermite_e.hermegauss(101)
    spread = (OF_IMAGE**2 + seed_spread**2 + class_spread**2) ** 0.5
    return float((weights / (1 + np.exp(-LOGIT - spread * points))).sum() / weights.sum())


if __name__ == "__main__":
    main()
