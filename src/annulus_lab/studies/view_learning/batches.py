"""Batches for a view generator: views of all training images, and of the few images with a usable label."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from annulus.device.copies import to_device
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.views.recipe import augment
from annulus.views.splits import ColourSplit, keeping_colour
from annulus_lab.studies.view_learning.view_learning_params import GeneratorParams, OpponentSettings

ImageBatch = Float[Tensor, "b 3 h w"]


class LabelledRows(NamedTuple):
    """Rows of the labelled training images, and their labels; the other labels are dropped."""

    rows: Int64[Tensor, "k"]
    labels: Int64[Tensor, "k"]


class GeneratorBatch(NamedTuple):
    """Views of any images, and views of labelled images with their labels; None: the generator does not use them."""

    images: ImageBatch | None
    labelled: ImageBatch | None
    labels: Int64[Tensor, "b"] | None


def labelled_images(images: ImageSet, share: float, seed: int) -> LabelledRows:
    """Draws a share of the images that have a class, independent of the class.

    Raises:
        InputError: when a class has no image in the draw.
    """
    some = images.with_class
    count = round(share * len(some))
    rows = some[torch.randperm(len(some), generator=generator(seed, "labelled images"))[:count]].sort().values
    labels = images.labels[rows].clone()
    empty = sorted(set(range(len(images.classes))) - set(labels.tolist()))
    if empty:
        raise InputError(
            f"labelled_share: {share:g} gives a label to {count} of {len(some)} training images and to none of "
            f"{len(empty)} of the {len(images.classes)} classes ({images.classes[empty[0]]!r}, say); raise it"
        )
    return LabelledRows(rows, labels)


class GeneratorBatches:
    """Batches drawn with replacement, with views of the study's view set.

    Views are never grey, as for every split of colours: the channels of a grey view are equal.
    """

    def __init__(
        self, params: GeneratorParams, seen: OpponentSettings, images: ImageSet, seed: int, device: torch.device
    ) -> None:
        """
        Raises:
            InputError: when a class has no labelled image.
        """
        self.params, self.store, self.device = params, images.on(device).images, device
        self.views, self.size = keeping_colour(seen.views, ColourSplit(params.space)), seen.view_size
        self.labelled = labelled_images(images, params.labelled_share, seed) if params.sees_labels else None
        self.draws = generator(seed, "view learning")  # on the CPU: the same views on every device

    def draw(self) -> GeneratorBatch:
        """Draws the next batch."""
        views = labelled = labels = None
        if self.params.reduces_information:
            views = self._views(torch.randint(len(self.store), (self.params.batch_size,), generator=self.draws))
        if self.labelled is not None:
            chosen = torch.randint(len(self.labelled.rows), (self.params.batch_size,), generator=self.draws)
            labelled = self._views(self.labelled.rows[chosen])
            [labels] = to_device([self.labelled.labels[chosen]], self.device)
        return GeneratorBatch(views, labelled, labels)

    def _views(self, rows: Int64[Tensor, "b"]) -> ImageBatch:
        images, sizes = self.store.take(rows), self.store.image_sizes(rows)
        return augment(images, self.views, self.size, self.draws, sizes=sizes)
