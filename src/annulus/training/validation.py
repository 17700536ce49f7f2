"""Validation accuracies during pretraining: of the nearest training image's label, and of the online linear probe."""

from functools import cached_property

import torch

from annulus.device.rng import generator
from annulus.encoders.features import Layer
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.files.subset import even_subset
from annulus.methods.step import Method
from annulus.training.embeddings import embed_layers, embeddings
from annulus.training.loop import Observer, Training
from annulus.training.nearest import nearest_label_accuracy
from annulus.training.online_probe import OnlineProbe


class Validation(Observer):
    """Accuracies of validation images after each epoch, computed on the training device."""

    def __init__(
        self,
        images: ImageSet,
        source: ImageSet,
        most: int | None,
        seed: int,
        device: torch.device,
        probe: OnlineProbe | None = None,
    ) -> None:
        """`most`: largest number of embedded images, drawn evenly over classes; None: all.

        `source`: the training images. `probe`: learns beside the encoder, before this observer in the list.
        """
        self.source, self.most, self.seed, self.device, self.probe = source, most, seed, device, probe
        self.images = self._drawn(images, "validation images")

    def after_epoch(self, training: Training, row: dict[str, Number]) -> None:
        row |= self.accuracies(training.method)

    def at_end(self, training: Training, metrics: dict[str, Number]) -> None:
        metrics["validation_images"] = len(self.images)

    @cached_property
    def nearest(self) -> ImageSet:
        """The training images to compare with, for a method without a bank."""
        return self._drawn(self.source, "nearest images")

    def accuracies(self, method: Method) -> dict[str, float]:
        """Accuracies in percent by name; empty without validation images, or without training images of a class.

        validation_nn1_percent: by the nearest row of the method's bank, or without a bank by current embeddings.
        online_linear_top1_percent: by the probe, if there is one.

        Source: Wu et al. 2020, arXiv:2005.13149, Figure 1.
        """
        if len(self.images) == 0 or len(self.source.with_class) == 0:
            return {}
        stored, labels = method.stored, self.source.labels
        layers: list[Layer] = ["embedding"] if self.probe is None else ["embedding", "pooled"]
        seen = embed_layers(method.encoder, self.images, layers, self.device)
        if stored is None:
            stored, labels = embeddings(method.encoder, self.nearest, self.device), self.nearest.labels
        elif len(known := self.source.with_class) < len(labels):  # else all rows, which are not copied
            stored, labels = stored[known.to(self.device)], labels[known]
        image_labels, row_labels = self.images.labels.to(self.device), labels.to(self.device)
        percents = {
            "validation_nn1_percent": nearest_label_accuracy(seen["embedding"], stored, image_labels, row_labels)
        }
        if self.probe is not None:
            percents["online_linear_top1_percent"] = self.probe.accuracy(seen["pooled"], image_labels)
        return percents

    def _drawn(self, images: ImageSet, name: str) -> ImageSet:
        known = images.with_class
        if self.most is None or len(known) <= self.most:
            return images.labelled()
        return images.take(known[even_subset(images.labels[known], self.most, generator(self.seed, name))])
