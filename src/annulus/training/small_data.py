"""Adjusts batch size and cluster counts where a data set is small."""

import logging
from dataclasses import replace

from annulus.negatives.clusters import fewer_clusters
from annulus.negatives.neighbours import ClusterNeighbours
from annulus.negatives.samplers import Cave
from annulus.training.limits import LEAST_BATCH
from annulus.training.run import Run

log = logging.getLogger("annulus")


def for_few_images(images: int, run: Run) -> Run:
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
