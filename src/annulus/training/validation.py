"""Validation accuracies during pretraining: of the nearest training image's label, and of the online linear probe."""

from collections.abc import Sequence
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.distributed import all_gather, rank, world_size
from annulus.device.rng import generator
from annulus.encoders.extract import extract
from annulus.encoders.features import Layer
from annulus.files.images import ImageSet
from annulus.files.subset import even_subset
from annulus.methods.step import Method
from annulus.training.nearest import nearest_label_accuracy
from annulus.training.online_probe import OnlineProbe


def embeddings(encoder: nn.Module, images: ImageSet, device: torch.device) -> Float[Tensor, "n d"]:
    """Current embeddings of all images, on the device; each process computes its share of them."""
    return layers_of(encoder, images, ["embedding"], device)["embedding"]


def layers_of(
    encoder: nn.Module, images: ImageSet, layers: Sequence[Layer], device: torch.device
) -> dict[Layer, Float[Tensor, "n _"]]:
    """`embeddings`, and other layers, of one pass."""
    own = images
    if world_size() > 1:
        share = -(-len(images) // world_size())  # the last process's share ends with copies of the last image
        own = images.take((torch.arange(share) + rank() * share).clamp(max=len(images) - 1))
    made = extract(encoder, own, layers, device).layers
    return {name: all_gather(values.to(device))[: len(images)] for name, values in made.items()}


class Validation:
    """The images of both sides of the comparison, on the device that trains."""

    def __init__(self, images: ImageSet, source: ImageSet, most: int | None, seed: int, device: torch.device) -> None:
        """`most`: largest number of embedded images, drawn evenly over classes; None: all.

        `source`: the training images.
        """
        self.source, self.most, self.seed, self.device = source, most, seed, device
        self.images = self._drawn(images, "validation images")

    @cached_property
    def nearest(self) -> ImageSet:
        """The training images among which to look where a method keeps no bank."""
        return self._drawn(self.source, "nearest images")

    def accuracies(self, method: Method, probe: OnlineProbe | None = None) -> dict[str, float]:
        """Percent of the images, by the name of the number; none without images, or without training images of a class.

        validation_nn1_percent: by the rows of the method's bank, or by embeddings of now where it keeps none.
        online_linear_top1_percent: by the probe, where there is one.

        Source: Wu et al. 2020, arXiv:2005.13149, Figure 1.
        """
        if len(self.images) == 0 or len(self.source.with_class) == 0:
            return {}
        stored, labels = method.stored, self.source.labels
        layers: list[Layer] = ["embedding"] if probe is None else ["embedding", "pooled"]
        seen = layers_of(method.encoder, self.images, layers, self.device)
        if stored is None:
            stored, labels = embeddings(method.encoder, self.nearest, self.device), self.nearest.labels
        elif len(known := self.source.with_class) < len(labels):  # else all rows, which are not copied
            stored, labels = stored[known.to(self.device)], labels[known]
        of_images, of_rows = self.images.labels.to(self.device), labels.to(self.device)
        found = {"validation_nn1_percent": nearest_label_accuracy(seen["embedding"], stored, of_images, of_rows)}
        if probe is not None:
            found["online_linear_top1_percent"] = probe.accuracy(seen["pooled"], of_images)
        return found

    def _drawn(self, images: ImageSet, name: str) -> ImageSet:
        known = images.with_class
        if self.most is None or len(known) <= self.most:
            return images.labelled()
        return images.take(known[even_subset(images.labels[known], self.most, generator(self.seed, name))])
