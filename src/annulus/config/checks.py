"""What a memory of a given size cannot serve."""

from annulus.config.methods import AnyMethod
from annulus.config.negatives import CaveParams, ClusterNeighbourParams, NeighbourParams, SamplerParams
from annulus.config.training import PretrainScale
from annulus.errors import InputError
from annulus.ranks import rank_limits


def check_memory(
    images: int,
    method: AnyMethod,
    sampler: SamplerParams,
    neighbours: NeighbourParams,
    pretrain: PretrainScale,
    scale: str = "SCALE",
) -> None:
    """Refuse a batch, a queue, a number of negatives or a sampler that `images` training images cannot serve.

    Raises:
        InputError: with the numbers and the key to change.
    """
    place = f"scales.{scale}.pretrain"
    if pretrain.batch_size > images:
        raise InputError(
            f"{place}.batch_size: {pretrain.batch_size} is more than the {images} training "
            "images; take a smaller batch or more images"
        )
    if method.keeps_queue:
        _check_queue(pretrain, place)
    others = method.negative_columns(images, pretrain)
    if method.negatives == "sampled" and pretrain.negatives > others:
        raise InputError(
            f"{place}.negatives: {pretrain.negatives} is more than the memory's {others} other rows; "
            "take fewer, `negatives: all` of the method, or a larger memory (images, queue or batch)"
        )
    for section, clustering in (("samplers.cave", sampler), ("neighbour_sets.k", neighbours)):
        if isinstance(clustering, CaveParams | ClusterNeighbourParams) and clustering.clusters > images:
            raise InputError(
                f"{section}.clusters: {clustering.clusters} is more than the memory's {images} rows; "
                "take fewer clusters or more images"
            )
    # Where a queue may hold keys of the query's own image, shares are of one column less.
    rank_limits(*sampler.shares, others - method.keeps_queue)


def _check_queue(pretrain: PretrainScale, place: str) -> None:
    if pretrain.queue < pretrain.batch_size:
        raise InputError(
            f"{place}.queue: {pretrain.queue} is shorter than the batch of {pretrain.batch_size}, "
            "whose keys it must hold; take a longer queue or a smaller batch"
        )
