"""The main line's headline numbers: where each is measured, and what the seeds say of it together."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from annulus.errors import InputError
from annulus.evals.intervals import Interval, Parts, between_tables, over_seeds, over_seeds_and_images, with_images
from annulus.files.right import Bits, Right
from annulus.files.strict import finite


class Headline(NamedTuple):
    """The stage that measures a number, and the name that the number has there."""

    stage: str
    number: str
    accuracy: bool = False  # of the test images: the stage says which are right
    images: str = ""  # the count beside a share of images of which no stage says which they are
    # Absent without a validation part, and where the sampler's set in a part of the images is empty.
    optional: bool = False


HEADLINES = {
    "knn_top1_percent": Headline("knn", "top1_percent", accuracy=True),
    "nn1_top1_percent": Headline("knn", "nn1_top1_percent", accuracy=True),
    "linear_top1_percent": Headline("linear", "top1_percent", accuracy=True),
    "pretrain_loss_nats": Headline("pretrain", "loss_nats"),
    "bound_nats": Headline("pretrain", "bound_nats"),
    "bound_ceiling_nats": Headline("pretrain", "ceiling_nats"),
    "validation_nn1_percent": Headline("pretrain", "validation_nn1_percent", images="validation_images", optional=True),
    "alignment": Headline("diagnostics", "alignment"),
    "uniformity": Headline("diagnostics", "uniformity"),
    "effective_rank": Headline("diagnostics", "effective_rank"),
    "false_negatives_percent": Headline("diagnostics", "false_negatives_training_percent", optional=True),
}

ROUNDED = 1e-3  # percent: metrics files have four digits, so that equal differences of shares seem to vary by less


class Measured(NamedTuple):
    """A number by seed; of an accuracy, also which test images are right, or else of how many images it is."""

    values: Mapping[int, float]
    right: Mapping[int, Bits] | None = None
    images: int | None = None

    def interval(self) -> Interval:
        """The mean, and an interval that holds the seeds, and of an accuracy the test images."""
        if self.right is None:
            return _over_seeds(list(self.values.values()), self._of_images())
        return over_seeds_and_images(np.stack(list(self.right.values()))).times(100)

    def of(self, seeds: Sequence[int]) -> "Measured":
        """The same of these seeds alone."""
        right = self.right
        return self._replace(
            values={s: self.values[s] for s in seeds}, right=None if right is None else {s: right[s] for s in seeds}
        )

    def minus(self, base: "Measured", same_images: bool) -> tuple[Interval, bool]:
        """The difference to a base, paired by test images and, where both have the same, by seeds; whether they have.

        Runs of one seed share weights, order and views, so pairs differ by less than the runs of two seeds do.
        """
        paired = set(self.values) == set(base.values)
        seeds = list(self.values)
        if self.right is None or base.right is None:
            if paired:
                differences = [self.values[seed] - base.values[seed] for seed in seeds]
                of_images = [*self._of_images(), *base._of_images()] if any(differences) else []
                return _over_seeds(differences, of_images), True
            return self.interval().minus(base.interval()), False
        tables = (
            np.stack(list(self.right.values())),
            np.stack([base.right[s] for s in (seeds if paired else base.right)]),
        )
        return between_tables(*tables, same_seeds=paired, same_images=same_images).times(100), paired

    def _of_images(self) -> Parts:
        """The variance of the mean, in percent squared, that so many images in each seed give a share; else none."""
        if self.images is None:
            return []
        share, seen = sum(self.values.values()) / len(self.values) / 100, self.images * len(self.values)
        likely = (share * seen + 1) / (seen + 2)  # by Laplace's rule: none or all of few images is not certain
        return [(100**2 * likely * (1 - likely) / seen, seen - 1)]


def _over_seeds(values: Sequence[float], of_images: Parts) -> Interval:
    """The interval over seeds; where shares of few images are alike in all of them by chance, that of the images."""
    seeds = over_seeds(values)
    alike = max(values) - min(values) < ROUNDED
    return with_images(seeds._replace(variance=0.0), [], of_images) if of_images and alike else seeds


def measured(
    stages: Mapping[str, Mapping[str, Mapping[str, Any]]], right: Mapping[str, Right], seeds: Sequence[int]
) -> dict[str, Measured]:
    """The headline numbers of these seeds, from what each stage measured by seed and which test images are right.

    Of images without a class there is no accuracy.

    Raises:
        InputError: when a stage lacks a number, or the bits, of a seed, or has something else in their place.
    """
    found = {}
    for name, (stage, number, accuracy, counted, optional) in HEADLINES.items():
        values = {
            seed: _finite(numbers[number], f"metrics/main/{stage}.json: {number} of seed {seed}")
            for seed in seeds
            if number in (numbers := stages[stage].get(str(seed), {}))
        }
        without_classes = accuracy and all(stages[stage].get(str(seed)) == {} for seed in seeds)
        if without_classes or (optional and len(values) < len(seeds)):
            continue
        files = {stage: values} | ({f"{stage}_right": right[stage].get(number, {})} if accuracy else {})
        for file, by_seed in files.items():
            for seed in seeds:
                if seed not in by_seed:
                    raise InputError(
                        f"metrics/main/{file}.json has no {number} of seed {seed}; run `dvc repro -f {stage}`"
                    )
        found[name] = Measured(*({seed: by_seed[seed] for seed in seeds} for by_seed in files.values()))
        if counted:
            count = stages[stage][str(seeds[0])].get(counted)
            found[name] = found[name]._replace(images=int(_finite(count, f"metrics/main/{stage}.json: {counted}")))
    return found


def _finite(value: Any, name: str) -> float:
    try:
        return finite(value, name)
    except ValueError as error:
        raise InputError(str(error)) from error
