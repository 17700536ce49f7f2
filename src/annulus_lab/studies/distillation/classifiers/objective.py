"""Losses of classifiers: the interface `Objective`, and cross-entropy on labels alone."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.distributed import local
from annulus_lab.studies.distillation.classifiers.classifier import Classifier


class Objective:
    """Loss of a classifier, which may have its own parameters and state; the defaults have none."""

    def loss(
        self, images: Float[Tensor, "b 3 h w"], rows: Int[Tensor, "all"], labels: Int[Tensor, "all"]
    ) -> Float[Tensor, ""]:
        """Mean loss of a batch of augmented images in [0, 1]; `rows` are their numbers in the training set.

        Each of several processes has its own images (`local`), and the rows and labels of all images.
        """
        raise NotImplementedError

    def after_step(self, rows: Int[Tensor, "all"]) -> None:
        """Runs after the optimiser's step: the place to write a memory."""

    def parameters(self) -> Iterable[nn.Parameter]:
        """Parameters to train besides the classifier's own."""
        return ()

    def state_dict(self) -> Mapping[str, Any]:
        """State to save besides the classifier: tensors, numbers, text, lists and dicts of them."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state of `state_dict`."""


class Supervised(Objective):
    """Cross-entropy with the labels: for a teacher, or a student without one."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier

    def loss(
        self, images: Float[Tensor, "b 3 h w"], rows: Int[Tensor, "all"], labels: Int[Tensor, "all"]
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy in nats; log(classes) at chance."""
        return F.cross_entropy(self.classifier(images).float(), local(labels))
