"""Encoders: images to a map, to pooled features, to a unit embedding.

`Encoder` is one network, `SplitEncoder` two, each for a part of the image; both take RGB images in [0, 1].
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

    checks_pixels = False  # True in a loaded encoder: pixels outside [0, 1] raise an error

    @property
    def view_size(self) -> int:
        return self.config.view_size

    def map(self, images: Float[Tensor, "b k h w"]) -> Float[Tensor, "b c y x"]:
        """The feature map before pooling; of a transformer, its patches."""
        return self.map_and_pooled(images)[0]

    def pooled(self, images: Float[Tensor, "b k h w"]) -> Float[Tensor, "b c"]:
        """Input of the probes: the map's mean over space, or a transformer's class token."""
        return self.map_and_pooled(images)[1]

    def forward(self, images: Float[Tensor, "b k h w"]) -> Float[Tensor, "b d"]:
        return self.embed(self.pooled(images))

    def _check(self, images: Tensor, channels: int) -> None:
        """Raises InputError unless the input is a batch of floats with these channels.

        With `checks_pixels`, it also checks the pixels by `require_pixels`.
        """
        if not isinstance(images, Tensor):
            raise InputError(f"images are a {type(images).__name__}; give a tensor (batch, {channels}, height, width)")
        if not images.is_floating_point() or images.ndim != 4 or images.shape[1] != channels:
            raise InputError(
                f"images are {str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}; an encoder "
                f"takes floats in [0, 1] (bytes: images.float() / 255) of shape (batch, {channels}, height, width)"
            )

        # A program of torch.export cannot hold a branch that depends on pixels.
        if self.checks_pixels and not torch.compiler.is_exporting():
            expected = (
                "an encoder takes RGB in [0, 1] and normalises by itself: divide 0..255 by 255, and leave out NaN"
            )
            require_pixels("images", images, expected)


class Encoder(_Seeing):
    """Backbone and head. Takes RGB images in [0, 1] or a split's part; the data set's normalisation is inside."""

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
        """Computes `map` and `pooled` in one pass through the backbone.

        Raises:
            InputError: for images that are not floats or have other channels; in a loaded encoder for pixels outside
                [0, 1].
        """
        self._check(images, self.config.planes)
        normalised = (images.to(self.mean.dtype) - self.mean) / self.std
        output = in_lower(self.backbone, normalised.contiguous(memory_format=torch.channels_last))
        return output if isinstance(output, tuple) else (output, output.mean(dim=(2, 3)))

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Maps pooled features to the unit sphere, where similarity is the dot product."""
        return F.normalize(in_lower(self.head, pooled).float(), dim=1)

    def embeddings(self, images: Float[Tensor, "b k h w"]) -> tuple[Float[Tensor, "b d"], ...]:
        """The embedding of each network; this encoder has one."""
        return (self(images),)

    def embeddings_and_pooled(self, images: Float[Tensor, "b k h w"]) -> tuple[Float[Tensor, "b _"], ...]:
        """`embeddings`, then each network's pooled features without gradient, for a probe beside the encoder."""
        pooled = self.pooled(images)
        return self.embed(pooled), pooled.detach()


class SplitEncoder(_Seeing):
    """Two encoders of one architecture, each for one part of an image; neither receives the other part.

    Probes read both maps and both networks' pooled features, the first part's channels first.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 2, Appendix C.2 (CMC: two ResNet-18 of full width).
    """

    def __init__(self, config: EncoderConfig) -> None:
        """`config.mean` and `config.std` hold the first part's channels, then the second's."""
        super().__init__()
        self.config, self.names = config, config.split.names
        border = config.split.planes[0]
        self.parts = nn.ModuleList(
            Encoder(replace(config, split=None, mean=config.mean[some], std=config.std[some]))
            for some in (slice(border), slice(border, None))
        )
        self.width = self.parts[0].width  # of the pooled features of each

    def map_and_pooled(self, images: Float[Tensor, "b 3 h w"]) -> MapAndPooled:
        """Computes `map` and `pooled` in one pass through both networks."""
        outputs = [network.map_and_pooled(part) for network, part in self._seen(images)]
        maps, pooled = zip(*outputs, strict=True)
        return torch.cat(maps, dim=1), torch.cat(pooled, dim=1)

    def embeddings(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b d"], ...]:
        """The unit embeddings of both networks, which a method contrasts."""
        return tuple(network(part) for network, part in self._seen(images))

    def embeddings_and_pooled(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b _"], ...]:
        """`embeddings`, then each network's pooled features without gradient."""
        outputs = [network.embeddings_and_pooled(part) for network, part in self._seen(images)]
        embeddings, pooled = zip(*outputs, strict=True)
        return *embeddings, *pooled

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Maps pooled features to one unit vector: both embeddings side by side. Similarity is the mean of both."""
        halves = zip(self.parts, pooled.chunk(2, dim=1), strict=True)
        return torch.cat([network.embed(half) for network, half in halves], dim=1) * 0.5**0.5

    def _seen(self, images: Float[Tensor, "b 3 h w"]) -> Iterator[tuple[Encoder, Float[Tensor, "b k h w"]]]:
        self._check(images, 3)
        return zip(self.parts, self.config.split(images), strict=True)


def build_encoder(config: EncoderConfig, seed: int) -> Encoder | SplitEncoder:
    """Builds an encoder with new weights; the same seed gives the same weights.

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
    """Builds the network; returns it and the width of its features.

    torchvision is imported for its own networks only: the import takes four seconds.
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
    """Builds the head: linear; mlp, a hidden layer as wide as the features (MoCo v2); mlp-bn, batch-normalised (SiMo).

    No ReLU follows the last batch normalisation, so an embedding may point in any direction. Layers before batch
    normalisation have no bias, since it would subtract the bias.
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
