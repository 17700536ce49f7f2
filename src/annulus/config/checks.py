"""What a memory of a given size cannot serve."""

from annulus.config.methods import AnyMethod
from annulus.config.negatives import SamplerParams
from annulus.config.training import PretrainScale
from annulus.errors import InputError
from annulus.negatives.ranks import rank_limits

LEAST_BATCH = 8  # images; a batch that is more than there are becomes a multiple, for processes and groups to share


def check_memory(
    images: int, method: AnyMethod, sampler: SamplerParams, pretrain: PretrainScale, scale: str = "SCALE"
) -> None:
    """Refuse a queue or a sampler that `images` training images cannot serve.

    Fewer images than a batch, than negatives or than clusters are no fault: training.small_data adjusts them.

    Raises:
        InputError: with the numbers and the key to change.
    """
    place = f"scales.{scale}.pretrain"
    if images < min(pretrain.batch_size, LEAST_BATCH):
        raise InputError(
            f"{place}.batch_size: {pretrain.batch_size} is more than the {images} training "
            "images; take a smaller batch or more images"
        )
    if method.keeps_queue and pretrain.queue < pretrain.batch_size:
        raise InputError(
            f"{place}.queue: {pretrain.queue} is shorter than the batch of {pretrain.batch_size}, "
            "whose keys it must hold; take a longer queue or a smaller batch"
        )
    # Where a queue may hold keys of the query's own image, shares are of one column less.
    rank_limits(*sampler.shares, method.negative_columns(images, pretrain) - method.keeps_queue)
