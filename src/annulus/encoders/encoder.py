"""Encoders: images to a map, to pooled features, to a unit embedding; saved as weights and a JSON beside.

`Encoder` is one network, `LabEncoder` cmc's two, of lightness and of colour; both take RGB images in [0, 1].
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from annulus.compute.rng import derive
from annulus.encoders.config import WIDTHS, EncoderConfig
from annulus.encoders.lab import rgb_to_lab
from annulus.encoders.small import for_small_maps
from annulus.errors import InputError
from annulus.files.regular import check_regular, read_text
from annulus.files.results import atomic_write


class Encoder(nn.Module):
    """Backbone and head. Takes RGB images in [0, 1]; colour space and the data set's normalisation are inside."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = WIDTHS[config.channels]
        self.register_buffer("mean", torch.tensor(config.mean).view(width, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(width, 1, 1), persistent=False)
        build = {"alexnet": _alexnet, "convnet": _convnet}.get(config.architecture, _resnet)
        self.backbone, width = build(config)
        for_small_maps(self.backbone)
        self.head = _head(config, width)

    @property
    def view_size(self) -> int:
        return self.config.view_size

    def map(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c y x"]:
        """The feature map before pooling."""
        if self.config.channels == "rgb":
            return self.map_channels(images)
        lightness, colour = rgb_to_lab(images).split([1, 2], dim=1)
        return self.map_channels(lightness if self.config.channels == "lab-l" else colour)

    def map_channels(self, planes: Float[Tensor, "b k h w"]) -> Float[Tensor, "b c y x"]:
        """`map` of images that are already in the encoder's own colour space."""
        normalised = (planes - self.mean) / self.std
        return self.backbone(normalised.contiguous(memory_format=torch.channels_last))

    def pooled(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c"]:
        """The map's mean over space: what the probes read."""
        return self.map(images).mean(dim=(2, 3))

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Pooled features to the unit sphere, where similarity is the dot product."""
        return F.normalize(self.head(pooled).float(), dim=1)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b d"]:
        return self.embed(self.pooled(images))


class LabEncoder(nn.Module):
    """Two encoders of one architecture: `l` sees lightness, `ab` colour, so that neither sees what the other does.

    Probes read both, one after the other along the channels.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 2, Appendix C.2 (CMC: two ResNet-18 of full width).
    """

    def __init__(self, config: EncoderConfig) -> None:
        """`config.channels` is lab; `mean` and `std` are those of L, a and b."""
        super().__init__()
        self.config = config
        self.l = Encoder(replace(config, channels="lab-l", mean=config.mean[:1], std=config.std[:1]))
        self.ab = Encoder(replace(config, channels="lab-ab", mean=config.mean[1:], std=config.std[1:]))

    @property
    def view_size(self) -> int:
        return self.config.view_size

    def maps(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b c y x"], Float[Tensor, "b c y x"]]:
        """The feature maps of L and of ab; colour is converted once."""
        lightness, colour = rgb_to_lab(images).split([1, 2], dim=1)
        return self.l.map_channels(lightness), self.ab.map_channels(colour)

    def map(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c y x"]:
        """Both feature maps, L's channels first."""
        return torch.cat(self.maps(images), dim=1)

    def pooled(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c"]:
        """The map's mean over space: what the probes read."""
        return torch.cat([one.mean(dim=(2, 3)) for one in self.maps(images)], dim=1)

    def pair(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b d"]]:
        """The unit embeddings of L and of ab, which CMC contrasts with each other."""
        lightness, colour = self.maps(images)
        return self.l.embed(lightness.mean(dim=(2, 3))), self.ab.embed(colour.mean(dim=(2, 3)))

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Pooled features to one unit vector: the two embeddings side by side, whose similarity is the mean of both."""
        lightness, colour = pooled.chunk(2, dim=1)
        return torch.cat([self.l.embed(lightness), self.ab.embed(colour)], dim=1) * 0.5**0.5

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b d"]:
        return self.embed(self.pooled(images))


def build_encoder(config: EncoderConfig, seed: int) -> Encoder | LabEncoder:
    """An encoder with fresh weights; the same seed gives the same weights."""
    build = LabEncoder if config.channels == "lab" else Encoder
    with torch.random.fork_rng(devices=[]):  # torchvision initialises from the global generator
        torch.default_generator.manual_seed(derive(seed, "weights"))  # torch.manual_seed would reseed GPUs too
        return build(config).to(memory_format=torch.channels_last)


def save_encoder(encoder: Encoder | LabEncoder, weights: Path) -> None:
    """Write the weights, and the configuration as JSON of the same name beside them."""
    with atomic_write(weights) as temporary:
        try:
            state = {name: tensor.contiguous().cpu() for name, tensor in encoder.state_dict().items()}
            save_file(state, temporary)
        except SafetensorError as error:
            raise OSError(str(error)) from error
    with atomic_write(weights.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(asdict(encoder.config), indent=2, sort_keys=True) + "\n")


def load_encoder(weights: Path) -> Encoder | LabEncoder:
    """The encoder that `save_encoder` wrote, in evaluation mode and frozen.

    Raises:
        InputError: when a file is missing or no encoder's, or the weights do not have the configuration's shapes.
    """
    try:
        check_regular(weights)
        config = EncoderConfig.checked(json.loads(read_text(weights.with_suffix(".json"))))
        state = load_file(weights)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise InputError(
            f"{weights} or its JSON is missing or not an encoder of annulus ({error}); run `dvc repro --force pretrain`"
        ) from error
    encoder = build_encoder(config, seed=0)  # weights that the file's replace
    if (fault := _difference(encoder.state_dict(), state)) is not None:
        raise InputError(
            f"{weights} does not have the shapes of {weights.with_suffix('.json').name} ({fault}); "
            "load the two files of one run"
        )
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise InputError(f"{weights}: {name} holds NaN or infinity; run `dvc repro --force pretrain`")
    encoder.load_state_dict(state)
    return encoder.eval().requires_grad_(False)


def _difference(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str | None:
    """The first tensor that is not what the configuration says, or None."""
    for name in [*expected, *(name for name in found if name not in expected)]:
        kinds = [
            "nothing" if name not in held else f"{held[name].dtype} {tuple(held[name].shape)}".removeprefix("torch.")
            for held in (found, expected)
        ]
        if kinds[0] != kinds[1]:
            return f"{name} is {kinds[0]}, expected {kinds[1]}"
    return None


def _resnet(config: EncoderConfig) -> tuple[nn.Module, int]:
    from torchvision import models  # four seconds, which stages without a ResNet save

    network = getattr(models, config.architecture)(weights=None)
    width, inputs = network.fc.in_features, WIDTHS[config.channels]
    if config.stem == "cifar":
        network.conv1 = nn.Conv2d(inputs, 64, kernel_size=3, stride=1, padding=1, bias=False)
        network.maxpool = nn.Identity()
    elif inputs != 3:
        network.conv1 = nn.Conv2d(inputs, 64, kernel_size=7, stride=2, padding=3, bias=False)
    if config.stem == "cifar" or inputs != 3:
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    # All but the pooling and the classifier, under torchvision's own names.
    layers = OrderedDict(network.named_children())
    del layers["avgpool"], layers["fc"]
    return nn.Sequential(layers), width


def _alexnet(config: EncoderConfig) -> tuple[nn.Module, int]:
    """A small AlexNet with batch normalisation: five convolutions, half of the original widths."""
    kernel, stride = (11, 4) if config.stem == "imagenet" else (3, 1)
    planes = WIDTHS[config.channels]
    layers: list[nn.Module] = []
    for position, (inputs, outputs, size, step) in enumerate(
        [(planes, 32, kernel, stride), (32, 96, 5, 1), (96, 192, 3, 1), (192, 128, 3, 1), (128, 128, 3, 1)]
    ):
        layers += [
            nn.Conv2d(inputs, outputs, size, stride=step, padding=size // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
        if position in (0, 1):
            layers.append(nn.MaxPool2d(kernel_size=3, stride=2, padding=1))
    return nn.Sequential(*layers), 128


def _convnet(config: EncoderConfig) -> tuple[nn.Module, int]:
    """Four convolutions for pictures of some twenty pixels, each with batch normalisation, ReLU between them.

    No ReLU behind the last one: features then have mean zero over a batch, and a linear head's embeddings point
    everywhere from the first step, where rectified features lie in a narrow cone that training takes long to leave.
    """
    planes, stride = WIDTHS[config.channels], 2 if config.stem == "imagenet" else 1
    layers: list[nn.Module] = []
    for inputs, outputs, step in [(planes, 32, stride), (32, 64, 2), (64, 128, 2), (128, 128, 1)]:
        layers += [
            nn.Conv2d(inputs, outputs, 3, stride=step, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers[:-1]), 128


def _head(config: EncoderConfig, width: int) -> nn.Module:
    """linear; mlp: one hidden layer as wide as the features (MoCo v2); mlp-bn: each layer batch-normalised (SiMo).

    The last batch normalisation has no ReLU behind it: an embedding may point anywhere. Layers before one have no bias,
    which it would take away.
    """
    if config.head == "linear":
        return nn.Linear(width, config.embedding_dim)
    if config.head == "mlp":
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, config.embedding_dim))
    return nn.Sequential(
        nn.Linear(width, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
        nn.Linear(width, config.embedding_dim, bias=False),
        nn.BatchNorm1d(config.embedding_dim),
    )
