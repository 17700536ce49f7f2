"""`Classifier`: from images to pooled features to logits of classes."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.encoders.mixed_precision import in_lower
from annulus.errors import InputError
from annulus_lab.studies.distillation.classifiers.config import ClassifierConfig

SMALLEST = 8  # pixels a side: VGG halves an image three times, and one pixel must remain


class Classifier(nn.Module):
    """Network, the mean over its last map, and a linear layer. Takes RGB images in [0, 1] and normalises them."""

    def __init__(self, config: ClassifierConfig, backbone: nn.Module, width: int) -> None:
        """`backbone` takes normalised images to a map of `width` channels."""
        super().__init__()
        self.config, self.width = config, width
        self.register_buffer("mean", torch.tensor(config.mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(-1, 1, 1), persistent=False)
        self.backbone = backbone
        self.head = nn.Linear(width, config.classes)

    def features(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b width"]:
        """Mean of the last map over space: input of the linear layer, and target of a student.

        Raises:
            InputError: when the images are smaller than 8 pixels a side.
        """
        height, width = images.shape[2:]
        if min(height, width) < SMALLEST:
            raise InputError(
                f"{self.config.name} got images of {height} x {width} pixels, expected at least {SMALLEST} x "
                f"{SMALLEST}; raise image_size"
            )
        normalised = (images - self.mean) / self.std
        return in_lower(self.backbone, normalised.contiguous(memory_format=torch.channels_last)).mean(dim=(2, 3))

    def classify(self, features: Float[Tensor, "b width"]) -> Float[Tensor, "b classes"]:
        """Logit of each class."""
        return in_lower(self.head, features)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b classes"]:
        return self.classify(self.features(images))
