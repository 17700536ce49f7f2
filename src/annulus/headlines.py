"""The main line's headline numbers: where each is measured, and what the seeds say of it together."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from annulus.files.right import Bits
from annulus.intervals import Interval, over_seeds, over_seeds_and_images


class Headline(NamedTuple):
    """The stage that measures a number, and the name that the number has there."""

    stage: str
    number: str
    accuracy: bool = False  # of the test images: the stage says which are right
    # Absent without a validation part, and where the sampler's set in a part of the images is empty.
    optional: bool = False


HEADLINES = {
    "knn_top1_percent": Headline("knn", "top1_percent", accuracy=True),
    "nn1_top1_percent": Headline("knn", "nn1_top1_percent", accuracy=True),
    "linear_top1_percent": Headline("linear", "top1_percent", accuracy=True),
    "pretrain_loss_nats": Headline("pretrain", "loss_nats"),
    "bound_nats": Headline("pretrain", "bound_nats"),
    "bound_ceiling_nats": Headline("pretrain", "ceiling_nats"),
    "validation_nn1_percent": Headline("pretrain", "validation_nn1_percent", optional=True),
    "alignment": Headline("diagnostics", "alignment"),
    "uniformity": Headline("diagnostics", "uniformity"),
    "effective_rank": Headline("diagnostics", "effective_rank"),
    "false_negatives_percent": Headline("diagnostics", "false_negatives_training_percent", optional=True),
}


class Measured(NamedTuple):
    """A number by seed; of an accuracy, also which test images are right."""

    values: Mapping[int, float]
    right: Mapping[int, Bits] | None = None

    def interval(self) -> Interval:
        """The mean, and an interval that holds the seeds, and of an accuracy the test images."""
        if self.right is None:
            return over_seeds(list(self.values.values()))
        return over_seeds_and_images(np.stack(list(self.right.values()))).times(100)

    def minus(self, base: "Measured", same_images: bool) -> tuple[Interval, bool]:
        """The difference to a base, and whether it is paired: seed by seed, and image by image where both saw the same.

        Runs of one seed share weights, order and views, so pairs differ by less than the runs of two seeds do.
        """
        if set(self.values) != set(base.values):
            return self.interval().minus(base.interval()), False
        seeds = list(self.values)
        if self.right is None or base.right is None or not same_images:
            return over_seeds([self.values[seed] - base.values[seed] for seed in seeds]), True
        table = np.stack([self.right[seed].astype(np.int8) - base.right[seed] for seed in seeds])
        return over_seeds_and_images(table).times(100), True
