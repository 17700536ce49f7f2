"""Encoders: images to a map, to pooled features, to a unit embedding; saved as weights and a JSON beside.

`Encoder` is one network, `LabEncoder` cmc's two, of lightness and of colour; both take RGB images in [0, 1].
"""

import json
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
from annulus.encoders.convnets import build_alexnet, build_convnet
from annulus.encoders.lab import rgb_to_lab
from annulus.encoders.lower import in_lower
from annulus.encoders.small import for_small_maps
from annulus.errors import InputError
from annulus.files.regular import check_regular, read_text
from annulus.files.results import atomic_write

MapAndPooled = tuple[Float[Tensor, "b c y x"], Float[Tensor, "b c"]]


class Encoder(nn.Module):
    """Backbone and head. Takes RGB images in [0, 1]; colour space and the data set's normalisation are inside."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        planes = WIDTHS[config.channels]
        self.register_buffer("mean", torch.tensor(config.mean).view(planes, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(planes, 1, 1), persistent=False)
        self.backbone, width = _backbone(config)
        for_small_maps(self.backbone)
        self.head = _head(config, width)

    @property
    def view_size(self) -> int:
        return self.config.view_size

    def map(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c y x"]:
        """The feature map before pooling; a transformer's patches."""
        return self.map_and_pooled(images)[0]

    def pooled(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c"]:
        """What the probes read: the map's mean over space, or a transformer's class token."""
        return self.map_and_pooled(images)[1]

    def map_and_pooled(self, images: Float[Tensor, "b 3 h w"]) -> MapAndPooled:
        """`map` and `pooled` of one pass through the backbone."""
        if self.config.channels == "rgb":
            return self.of_channels(images)
        lightness, colour = rgb_to_lab(images).split([1, 2], dim=1)
        return self.of_channels(lightness if self.config.channels == "lab-l" else colour)

    def of_channels(self, planes: Float[Tensor, "b k h w"]) -> MapAndPooled:
        """`map_and_pooled` of images that are already in the encoder's own colour space."""
        normalised = (planes - self.mean) / self.std
        found = in_lower(self.backbone, normalised.contiguous(memory_format=torch.channels_last))
        return found if isinstance(found, tuple) else (found, found.mean(dim=(2, 3)))

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Pooled features to the unit sphere, where similarity is the dot product."""
        return F.normalize(in_lower(self.head, pooled).float(), dim=1)

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

    def map(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c y x"]:
        """Both feature maps, L's channels first."""
        return self.map_and_pooled(images)[0]

    def pooled(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c"]:
        """What the probes read: both networks' pooled features, L's first."""
        return self.map_and_pooled(images)[1]

    def map_and_pooled(self, images: Float[Tensor, "b 3 h w"]) -> MapAndPooled:
        """`map` and `pooled` of one pass through both networks."""
        maps, pooled = zip(*self.each(images), strict=True)
        return torch.cat(maps, dim=1), torch.cat(pooled, dim=1)

    def each(self, images: Float[Tensor, "b 3 h w"]) -> tuple[MapAndPooled, MapAndPooled]:
        """`map_and_pooled` of L's network and of ab's; colour is converted once."""
        lightness, colour = rgb_to_lab(images).split([1, 2], dim=1)
        return self.l.of_channels(lightness), self.ab.of_channels(colour)

    def pair(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b d"]]:
        """The unit embeddings of L and of ab, which CMC contrasts with each other."""
        (_, lightness), (_, colour) = self.each(images)
        return self.l.embed(lightness), self.ab.embed(colour)

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


def _backbone(config: EncoderConfig) -> tuple[nn.Module, int]:
    """The network, and the width of its features.

    torchvision is imported where it is needed: four seconds, which stages without its networks save.
    """
    match config.architecture:
        case "alexnet":
            return build_alexnet(config)
        case "convnet":
            return build_convnet(config)
        case "vit_small":
            from annulus.encoders.transformer import build_transformer

            return build_transformer(config)
        case _:
            from annulus.encoders.resnet import build_resnet

            return build_resnet(config)


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
