"""Sizes of a pretraining: epochs, batch, negatives, queue, validation images."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from annulus.settings import Rate, Rows, Section, Steps


@dataclass(frozen=True, kw_only=True)
class Budget(Section):
    """Epochs, batch size, number of negatives, queue length, learning rate: `scales.SCALE.pretrain` of params.yaml."""

    epochs: Steps
    batch_size: Annotated[int, Ge(2), Le(2**24)]
    negatives: Rows  # K, for methods that sample negatives
    queue: Rows  # keys in moco's queue
    learning_rate: Rate  # per 256 images of a batch
    validation_images: Steps | None  # embedded after each epoch; without a bank, training images too
