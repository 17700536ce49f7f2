"""Checks that the training images suffice for the batch, the queue and the sampler."""

from annulus.errors import InputError
from annulus.methods.step import MethodSettings
from annulus.negatives.ranks import rank_limits
from annulus.negatives.samplers import Sampler
from annulus.training.budget import Budget

LEAST_BATCH = 8  # images; a batch that is more than there are becomes a multiple, for processes and groups to share


def check_groups(method: MethodSettings, budget: Budget, scale: str = "SCALE") -> None:
    """Refuse groups of a shuffled batch-norm that the batch cannot be cut into.

    Raises:
        InputError: with the numbers and the keys to change.
    """
    groups, batch = method.norm_groups, budget.batch_size
    if batch % groups:
        raise InputError(
            f"methods.METHOD.shuffle_groups: {groups} does not divide scales.{scale}.pretrain.batch_size: {batch} into "
            "equal groups; take a number that does"
        )


def check_memory(images: int, method: MethodSettings, sampler: Sampler, budget: Budget, scale: str = "SCALE") -> None:
    """Refuse a queue or a sampler that `images` training images cannot serve.

    Fewer images than a batch, than negatives or than clusters are no fault: training.small_data adjusts them.

    Raises:
        InputError: with the numbers and the key to change.
    """
    place = f"scales.{scale}.pretrain"
    if images < min(budget.batch_size, LEAST_BATCH):
        raise InputError(
            f"{place}.batch_size: {budget.batch_size} is more than the {images} training "
            "images; take a smaller batch or more images"
        )
    if method.keeps_queue and budget.queue < budget.batch_size:
        raise InputError(
            f"{place}.queue: {budget.queue} is shorter than the batch of {budget.batch_size}, "
            "whose keys it must hold; take a longer queue or a smaller batch"
        )
    # Where a queue may hold keys of the query's own image, shares are of one column less.
    rank_limits(*sampler.shares, method.negative_columns(images, budget.batch_size, budget.queue) - method.keeps_queue)
