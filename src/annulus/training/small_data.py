"""What a few images make of settings that were chosen for many."""

import logging
from typing import TypeVar

from annulus.config.checks import LEAST_BATCH
from annulus.config.negatives import NeighbourParams, SamplerParams
from annulus.config.training import PretrainScale
from annulus.negatives.clusters import fewer_clusters

log = logging.getLogger("annulus")

Chosen = TypeVar("Chosen", SamplerParams, NeighbourParams)


def for_few_images(
    images: int, scale: PretrainScale, sampler: SamplerParams, neighbours: NeighbourParams
) -> tuple[PretrainScale, SamplerParams, NeighbourParams]:
    """The same settings, with a batch and with clusters that so many images can fill; each change is a warning."""
    if LEAST_BATCH <= images < scale.batch_size:
        fitting = images // LEAST_BATCH * LEAST_BATCH
        log.warning(
            "WARNING: scales.SCALE.pretrain.batch_size: %d is more than the %d training images; a batch is %d of them",
            *(scale.batch_size, images, fitting),
        )
        scale = scale.model_copy(update={"batch_size": fitting})
    return (
        scale,
        _with_fewer_clusters(sampler, images, "samplers.cave"),
        _with_fewer_clusters(neighbours, images, "neighbour_sets.k"),
    )


def _with_fewer_clusters(chosen: Chosen, images: int, section: str) -> Chosen:
    if "clusters" not in type(chosen).model_fields:
        return chosen
    clusters = fewer_clusters(chosen.clusters, images)
    if clusters < chosen.clusters:
        log.warning(
            "WARNING: %s.clusters: %d is more than the %d training images; they are grouped into %d",
            *(section, chosen.clusters, images, clusters),
        )
    return chosen.model_copy(update={"clusters": clusters})
