"""`Classifier`: images to pooled features to scores of classes; saved as weights and a JSON beside."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from annulus.classifiers.config import ClassifierConfig
from annulus.encoders.encoder import difference
from annulus.encoders.lower import in_lower
from annulus.errors import InputError
from annulus.files.regular import check_regular, read_text
from annulus.files.results import atomic_write

SMALLEST = 8  # pixels a side: VGG halves an image three times, and a pixel must be left


class Classifier(nn.Module):
    """A network, the mean over its last map, and a linear layer. Takes RGB images in [0, 1], and normalises them."""

    def __init__(self, config: ClassifierConfig, backbone: nn.Module, width: int) -> None:
        """`backbone` takes normalised images to a map of `width` channels."""
        super().__init__()
        self.config, self.width = config, width
        self.register_buffer("mean", torch.tensor(config.mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(-1, 1, 1), persistent=False)
        self.backbone = backbone
        self.head = nn.Linear(width, config.classes)

    def features(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b width"]:
        """The last map's mean over space: what the linear layer reads, and what a student imitates.

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
        """The score (logit) of each class."""
        return in_lower(self.head, features)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b classes"]:
        return self.classify(self.features(images))


def save_classifier(classifier: Classifier, weights: Path) -> None:
    """Write the weights, and the configuration as JSON of the same name beside them."""
    with atomic_write(weights) as temporary:
        try:
            save_file({name: held.contiguous().cpu() for name, held in classifier.state_dict().items()}, temporary)
        except SafetensorError as error:
            raise OSError(str(error)) from error
    with atomic_write(weights.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(asdict(classifier.config), indent=2, sort_keys=True) + "\n")


def load_classifier(weights: Path) -> Classifier:
    """The classifier that `save_classifier` wrote, in evaluation mode and frozen.

    Raises:
        InputError: when a file is missing or no classifier's, or the weights do not have the configuration's shapes.
    """
    from annulus.classifiers.build import build  # it imports this module

    try:
        check_regular(weights)
        config = ClassifierConfig.checked(json.loads(read_text(weights.with_suffix(".json"))))
        state = load_file(weights)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise InputError(
            f"{weights} or its JSON is missing or not a classifier of annulus ({error}); train it again"
        ) from error
    classifier = build(config, seed=0)  # weights that the file's replace
    if (fault := difference(classifier.state_dict(), state)) is not None:
        raise InputError(
            f"{weights} does not have the shapes of {weights.with_suffix('.json').name} ({fault}); "
            "load the two files of one run"
        )
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise InputError(f"{weights}: {name} holds NaN or infinity; train it again")
    classifier.load_state_dict(state)
    return classifier.eval().requires_grad_(False)
