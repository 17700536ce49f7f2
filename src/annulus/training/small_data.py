"""Adjusts batch size and cluster counts to a small data set."""

import logging
import math
from dataclasses import replace

from annulus.negatives.clusters import fewer_clusters
from annulus.negatives.neighbours import ClusterNeighbours
from annulus.negatives.samplers import Cave
from annulus.training.budget import Budget
from annulus.training.limits import LEAST_BATCH
from annulus.training.run import TrainingRun

log = logging.getLogger("annulus")

# The main line at scale demo: 8 epochs of 112 batches. On 103 photographs of COCO128 (32 px, ring, seed 0) the
# bound was -0.12 nats after 24 steps, 0.81 after 180 and 1.45 after 900, and two views of each of 25 unseen photographs
# found one another in 38, 58 and 77 % (one core: 0.5, 3 and 15 seconds).
ENOUGH_STEPS = 896


def enough_epochs(images: int, budget: Budget) -> int:
    """Epochs in which this number of images makes `ENOUGH_STEPS` steps, and at least the epochs of the budget.

    >>> budget = Budget(
    ...     epochs=8, batch_size=32, negatives=16, queue=1024, learning_rate=0.05, validation_images=None
    ... )
    >>> enough_epochs(103, budget), enough_epochs(3600, budget)
    (299, 8)
    """
    return max(budget.epochs, math.ceil(ENOUGH_STEPS / epoch_steps(images, budget)))


def epoch_steps(images: int, budget: Budget) -> int:
    """Whole batches in an epoch of this number of images; 1 if they are fewer than a batch."""
    return max(1, images // budget.batch_size)


def for_few_images(images: int, run: TrainingRun) -> TrainingRun:
    """The same run with batch size and cluster counts adjusted to a small data set; each change is a warning."""
    budget = run.budget
    if LEAST_BATCH <= images < budget.batch_size:
        fitting = images // LEAST_BATCH * LEAST_BATCH
        log.warning(
            "WARNING: scales.SCALE.pretrain.batch_size: %d is more than the %d training images; a batch is %d of them",
            *(budget.batch_size, images, fitting),
        )
        budget = replace(budget, batch_size=fitting)
    sampler, neighbours = run.sampler, run.neighbours
    if isinstance(sampler, Cave):
        sampler = replace(sampler, clusters=_fewer(sampler.clusters, images, "samplers.cave"))
    if isinstance(neighbours, ClusterNeighbours):
        neighbours = replace(neighbours, clusters=_fewer(neighbours.clusters, images, "neighbour_sets.k"))
    return replace(run, budget=budget, sampler=sampler, neighbours=neighbours)


def _fewer(asked: int, images: int, section: str) -> int:
    clusters = fewer_clusters(asked, images)
    if clusters < asked:
        log.warning(
            "WARNING: %s.clusters: %d is more than the %d training images; they are grouped into %d",
            *(section, asked, images, clusters),
        )
    return clusters
