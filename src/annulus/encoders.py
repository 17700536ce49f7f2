"""Encoders: images to a map, to pooled features, to a unit embedding; saved as weights and a JSON beside."""

import json
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torchvision import models

from annulus.config import BackboneParams
from annulus.errors import InputError
from annulus.results import replacing
from annulus.rng import derive


@dataclass(frozen=True)
class EncoderConfig:
    """All that rebuilds an encoder; stands as JSON beside its weights."""

    architecture: str
    stem: str
    head: str  # linear | mlp
    embedding_dim: int
    view_size: int  # pixels a side that it was trained on
    mean: tuple[float, float, float]  # of the training images, in [0, 1], per channel
    std: tuple[float, float, float]

    @classmethod
    def of(cls, backbone: BackboneParams, **rest: Any) -> Self:
        return cls(architecture=backbone.architecture, stem=backbone.stem, **rest)


class Encoder(nn.Module):
    """Backbone and head. Takes images in [0, 1]; the data set's normalisation is inside."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.tensor(config.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(3, 1, 1), persistent=False)
        build = _alexnet if config.architecture == "alexnet" else _resnet
        self.backbone, width = build(config)
        self.head = _head(config, width)

    @property
    def view_size(self) -> int:
        return self.config.view_size

    def map(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c y x"]:
        """The feature map before pooling."""
        normalised = (images - self.mean) / self.std
        return self.backbone(normalised.contiguous(memory_format=torch.channels_last))

    def pooled(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c"]:
        """The map's mean over space: what the probes read."""
        return self.map(images).mean(dim=(2, 3))

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Pooled features to the unit sphere, where similarity is the dot product."""
        return F.normalize(self.head(pooled).float(), dim=1)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b d"]:
        return self.embed(self.pooled(images))


def build_encoder(config: EncoderConfig, seed: int) -> Encoder:
    """An encoder with fresh weights; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):  # torchvision initialises from the global generator
        torch.default_generator.manual_seed(derive(seed, "weights"))  # torch.manual_seed would reseed GPUs too
        return Encoder(config).to(memory_format=torch.channels_last)


def save_encoder(encoder: Encoder, weights: Path) -> None:
    """Write the weights, and the configuration as JSON of the same name beside them."""
    with replacing(weights) as temporary:
        try:
            state = {name: tensor.contiguous().cpu() for name, tensor in encoder.state_dict().items()}
            save_file(state, temporary)
        except SafetensorError as error:
            raise OSError(str(error)) from error
    with replacing(weights.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(asdict(encoder.config), indent=2, sort_keys=True) + "\n")


def load_encoder(weights: Path) -> Encoder:
    """The encoder that `save_encoder` wrote, in evaluation mode and frozen.

    Raises:
        InputError: when a file is missing, or the weights do not have the configuration's shapes.
    """
    try:
        described = json.loads(weights.with_suffix(".json").read_text())
        tuples = {"mean": tuple(described["mean"]), "std": tuple(described["std"])}  # JSON has no tuples
        encoder = build_encoder(EncoderConfig(**described | tuples), seed=0)  # weights that the next line replaces
        encoder.load_state_dict(load_file(weights))
    except (OSError, SafetensorError, TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{weights} or its JSON is missing or not an encoder of annulus ({error}); run `dvc repro`"
        ) from error
    except RuntimeError as error:  # torch lists every tensor that differs; the first says enough
        first = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
        raise InputError(
            f"{weights} does not have the shapes of {weights.with_suffix('.json').name} ({first}); "
            "load the two files of one run"
        ) from error
    return encoder.eval().requires_grad_(False)


def _resnet(config: EncoderConfig) -> tuple[nn.Module, int]:
    network = getattr(models, config.architecture)(weights=None)
    width = network.fc.in_features
    if config.stem == "cifar":
        network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    # All but the pooling and the classifier, under torchvision's own names.
    layers = OrderedDict(network.named_children())
    del layers["avgpool"], layers["fc"]
    return nn.Sequential(layers), width


def _alexnet(config: EncoderConfig) -> tuple[nn.Module, int]:
    """A small AlexNet with batch normalisation: five convolutions, half of the original widths."""
    kernel, stride = (11, 4) if config.stem == "imagenet" else (3, 1)
    layers: list[nn.Module] = []
    for position, (inputs, outputs, size, step) in enumerate(
        [(3, 32, kernel, stride), (32, 96, 5, 1), (96, 192, 3, 1), (192, 128, 3, 1), (128, 128, 3, 1)]
    ):
        layers += [
            nn.Conv2d(inputs, outputs, size, stride=step, padding=size // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
        if position in (0, 1):
            layers.append(nn.MaxPool2d(kernel_size=3, stride=2, padding=1))
    return nn.Sequential(*layers), 128


def _head(config: EncoderConfig, width: int) -> nn.Module:
    if config.head == "linear":
        return nn.Linear(width, config.embedding_dim)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, config.embedding_dim))
