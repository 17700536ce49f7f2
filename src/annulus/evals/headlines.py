"""The main line's headline numbers: their stages, and their intervals over seeds and test images."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from annulus.errors import InputError
from annulus.evals.intervals import Interval, Parts, between_tables, over_seeds, over_seeds_and_images, with_images
from annulus.files.right import Bits, Right
from annulus.files.strict import finite


class Headline(NamedTuple):
    """The stage that measures a number, and the number's name there."""

    stage: str
    number: str
    accuracy: bool = False  # of the test images: the stage also writes bits of the right images
    images: str = ""  # name of the image count, for a share of images without such bits
    # Absent without a validation part, if the sampler's set in a part of the images is empty, and with classes.
    optional: bool = False


CROPPED = "crop_retrieval_images"
HEADLINES = {
    "knn_top1_percent": Headline("knn", "top1_percent", accuracy=True),
    "nn1_top1_percent": Headline("knn", "nn1_top1_percent", accuracy=True),
    "crop_retrieval_percent": Headline("knn", "crop_retrieval_percent", images=CROPPED, optional=True),
    "crop_retrieval_pixels_percent": Headline("knn", "crop_retrieval_pixels_percent", images=CROPPED, optional=True),
    "crop_retrieval_colour_percent": Headline("knn", "crop_retrieval_colour_percent", images=CROPPED, optional=True),
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

ROUNDED = 1e-3  # percent: rounding in metrics files makes equal differences of shares vary by less than this


class HeadlineNumber(NamedTuple):
    """A number by seed. An accuracy has also the bits of the right test images; a share of images has their count."""

    values: Mapping[int, float]
    right: Mapping[int, Bits] | None = None
    images: int | None = None

    def interval(self) -> Interval:
        """The mean and its interval over seeds; for an accuracy over test images too."""
        if self.right is None:
            return _over_seeds(list(self.values.values()), self._image_parts())
        table = np.stack(list(self.right.values()))
        if table.all() or not table.any():  # few images; the variance of the bits is 0
            return _over_seeds(list(self.values.values()), [_binomial(float(table.mean()), table.shape[1])])
        return over_seeds_and_images(table).times(100)

    def pick(self, seeds: Sequence[int]) -> "HeadlineNumber":
        """The number of these seeds alone."""
        right = self.right
        return self._replace(
            values={s: self.values[s] for s in seeds}, right=None if right is None else {s: right[s] for s in seeds}
        )

    def minus(self, base: "HeadlineNumber", same_images: bool) -> tuple[Interval, bool]:
        """The difference to a base, and True if both have the same seeds: then it is paired by seeds.

        Accuracies are also paired by test images. Two runs with one seed share weights, order and views, so they differ
        by less than the runs of two seeds.
        """
        paired = set(self.values) == set(base.values)
        seeds = list(self.values)
        if self.right is None or base.right is None:
            if paired:
                differences = [self.values[seed] - base.values[seed] for seed in seeds]
                image_parts = [*self._image_parts(), *base._image_parts()] if any(differences) else []
                return _over_seeds(differences, image_parts), True
            return self.interval().minus(base.interval()), False
        tables = (
            np.stack(list(self.right.values())),
            np.stack([base.right[s] for s in (seeds if paired else base.right)]),
        )
        return between_tables(*tables, same_seeds=paired, same_images=same_images).times(100), paired

    def _image_parts(self) -> Parts:
        """Variance of a share's mean by its number of images, in percent squared; empty for other numbers."""
        if self.images is None:
            return []
        return [_binomial(sum(self.values.values()) / len(self.values) / 100, self.images * len(self.values))]


def _binomial(share: float, count: int) -> tuple[float, int]:
    """Variance of a share of this number of images in percent squared, and its degrees of freedom."""
    likely = (share * count + 1) / (count + 2)  # by Laplace's rule: none or all of few images is not certain
    return 100**2 * likely * (1 - likely) / count, count - 1


def _over_seeds(values: Sequence[float], image_parts: Parts) -> Interval:
    """The interval over seeds; if shares of few images are equal in all seeds by chance, the interval over images."""
    seeds = over_seeds(values)
    alike = max(values) - min(values) < ROUNDED
    return with_images(seeds._replace(variance=0.0), [], image_parts) if image_parts and alike else seeds


def headline_numbers(
    stages: Mapping[str, Mapping[str, Mapping[str, Any]]], right: Mapping[str, Right], seeds: Sequence[int]
) -> dict[str, HeadlineNumber]:
    """The headline numbers of these seeds, from each stage's metrics by seed and bits of right test images.

    Images without classes have no accuracy.

    Raises:
        InputError: if a stage lacks a number or the bits of a seed, or has another content in their place.
    """
    numbers_by_name = {}
    for name, (stage, number, accuracy, counted, optional) in HEADLINES.items():
        values = {
            seed: _finite(numbers[number], f"metrics/main/{stage}.json: {number} of seed {seed}")
            for seed in seeds
            if number in (numbers := stages[stage].get(str(seed), {}))
        }
        without_classes = accuracy and not values and not right[stage]
        if without_classes or (optional and len(values) < len(seeds)):
            continue
        files = {stage: values} | ({f"{stage}_right": right[stage].get(number, {})} if accuracy else {})
        for file, by_seed in files.items():
            for seed in seeds:
                if seed not in by_seed:
                    raise InputError(
                        f"metrics/main/{file}.json has no {number} of seed {seed}; run `dvc repro -f {stage}`"
                    )
        headline = HeadlineNumber(*({seed: by_seed[seed] for seed in seeds} for by_seed in files.values()))
        if counted:
            count = stages[stage][str(seeds[0])].get(counted)
            headline = headline._replace(images=int(_finite(count, f"metrics/main/{stage}.json: {counted}")))
        numbers_by_name[name] = headline
    return numbers_by_name


def _finite(value: Any, name: str) -> float:
    try:
        return finite(value, name)
    except ValueError as error:
        raise InputError(str(error)) from error
