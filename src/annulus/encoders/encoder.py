"""Encoders: images to a map, to pooled features, to a unit embedding.

`Encoder` is one network, `SplitEncoder` two, each of a part of the image; both take RGB images in [0, 1].
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.checks import require_pixels
from annulus.device.rng import derive, first_weights
from annulus.encoders.config import EncoderConfig
from annulus.encoders.convnets import CONVNETS
from annulus.encoders.mixed_precision import in_lower
from annulus.encoders.small import for_small_maps
from annulus.errors import InputError

MapAndPooled = tuple[Float[Tensor, "b c y x"], Float[Tensor, "b c"]]


class _Seeing(nn.Module):
    """Shared part of both encoders, built on their `config`, `map_and_pooled` and `embed`."""

    checks_pixels = False  # whether pixels outside [0, 1] are refused: those of somebody else's images

    @property
    def view_size(self) -> int:
        return self.config.view_size

    def map(self, images: Float[Tensor, "b k h w"]) -> Float[Tensor, "b c y x"]:
        """The feature map before pooling; a transformer's patches."""
        return self.map_and_pooled(images)[0]

    def pooled(self, images: Float[Tensor, "b k h w"]) -> Float[Tensor, "b c"]:
        """Input of the probes: the map's mean over space, or a transformer's class token."""
        return self.map_and_pooled(images)[1]

    def forward(self, images: Float[Tensor, "b k h w"]) -> Float[Tensor, "b d"]:
        return self.embed(self.pooled(images))

    def _check(self, images: Tensor, channels: int) -> None:
        """Refuse input that is not a batch of images in [0, 1]; on a GPU pixels are checked as `require` does."""
        if not isinstance(images, Tensor):
            raise InputError(f"images are a {type(images).__name__}; give a tensor (batch, {channels}, height, width)")
        if not images.is_floating_point() or images.ndim != 4 or images.shape[1] != channels:
            raise InputError(
                f"images are {str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}; an encoder "
                f"takes floats in [0, 1] (bytes: images.float() / 255) of shape (batch, {channels}, height, width)"
            )

        # What torch.export writes down can hold no branch that depends on pixels.
        if self.checks_pixels and not torch.compiler.is_exporting():
            expected = (
                "an encoder takes RGB in [0, 1] and normalises by itself: divide 0..255 by 255, and leave out NaN"
            )
            require_pixels("images", images, expected)


class Encoder(_Seeing):
    """Backbone and head. Takes images in [0, 1], RGB or a split's part; the data set's normalisation is inside."""

    names: tuple[str, ...] = ("",)  # of its networks

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.tensor(config.mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(-1, 1, 1), persistent=False)
        self.backbone, self.width = _backbone(config)
        for_small_maps(self.backbone)
        self.head = _head(config, self.width)

    def map_and_pooled(self, images: Float[Tensor, "b k h w"]) -> MapAndPooled:
        """`map` and `pooled` of one pass through the backbone.

        Raises:
            InputError: for images that are no floats or have other channels, and of a loaded encoder other pixels.
        """
        self._check(images, self.config.planes)
        normalised = (images.to(self.mean.dtype) - self.mean) / self.std
        output = in_lower(self.backbone, normalised.contiguous(memory_format=torch.channels_last))
        return output if isinstance(output, tuple) else (output, output.mean(dim=(2, 3)))

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Pooled features to the unit sphere, where similarity is the dot product."""
        return F.normalize(in_lower(self.head, pooled).float(), dim=1)

    def embeddings(self, images: Float[Tensor, "b k h w"]) -> tuple[Float[Tensor, "b d"], ...]:
        """The embedding of each network; this encoder has one."""
        return (self(images),)

    def embeddings_and_pooled(self, images: Float[Tensor, "b k h w"]) -> tuple[Float[Tensor, "b _"], ...]:
        """`embeddings`, then the pooled features of each, without gradient, for a probe beside the encoder."""
        pooled = self.pooled(images)
        return self.embed(pooled), pooled.detach()


class SplitEncoder(_Seeing):
    """Two encoders of one architecture, each for one part of an image; neither receives the other part.

    Probes read both maps and both networks' pooled features, the first part's channels first.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 2, Appendix C.2 (CMC: two ResNet-18 of full width).
    """

    def __init__(self, config: EncoderConfig) -> None:
        """`config.mean` and `config.std` are those of the first part's channels, then of the second's."""
        super().__init__()
        self.config, self.names = config, config.split.names
        border = config.split.planes[0]
        self.parts = nn.ModuleList(
            Encoder(replace(config, split=None, mean=config.mean[some], std=config.std[some]))
            for some in (slice(border), slice(border, None))
        )
        self.width = self.parts[0].width  # of the pooled features of each

    def map_and_pooled(self, images: Float[Tensor, "b 3 h w"]) -> MapAndPooled:
        """`map` and `pooled` of one pass through both networks."""
        outputs = [network.map_and_pooled(part) for network, part in self._seen(images)]
        maps, pooled = zip(*outputs, strict=True)
        return torch.cat(maps, dim=1), torch.cat(pooled, dim=1)

    def embeddings(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b d"], ...]:
        """The unit embedding of each network, which a method contrasts with the other's."""
        return tuple(network(part) for network, part in self._seen(images))

    def embeddings_and_pooled(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b _"], ...]:
        """`embeddings`, then the pooled features of each network, without gradient."""
        outputs = [network.embeddings_and_pooled(part) for network, part in self._seen(images)]
        embeddings, pooled = zip(*outputs, strict=True)
        return *embeddings, *pooled

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Pooled features to one unit vector: the two embeddings side by side, whose similarity is the mean of both."""
        halves = zip(self.parts, pooled.chunk(2, dim=1), strict=True)
        return torch.cat([network.embed(half) for network, half in halves], dim=1) * 0.5**0.5

    def _seen(self, images: Float[Tensor, "b 3 h w"]) -> Iterator[tuple[Encoder, Float[Tensor, "b k h w"]]]:
        self._check(images, 3)
        return zip(self.parts, self.config.split(images), strict=True)


def build_encoder(config: EncoderConfig, seed: int) -> Encoder | SplitEncoder:
    """An encoder with fresh weights; the same seed gives the same weights.

    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> encoder = annulus.build_encoder(config, seed=0)
    >>> encoder(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 16])

    Raises:
        InputError: for a seed below 0; unless mean and std have a number for each channel, of RGB in [0, 1].
    """
    config.check_statistics()
    build = Encoder if config.split is None else SplitEncoder
    with first_weights(derive(seed, "weights")):
        return build(config).to(memory_format=torch.channels_last)


def _backbone(config: EncoderConfig) -> tuple[nn.Module, int]:
    """The network, and the width of its features.

    torchvision is imported where it is needed: four seconds, which stages without its networks save.
    """
    match config.architecture:
        case name if name in CONVNETS:
            return CONVNETS[name](config.planes, config.stem)
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
