"""Stages of an encoder's backbone: maps of growing stride, the levels of a detector's pyramid.

A stage ends before a layer that halves the map. ResNets have four stages: torchvision's `layer1` to `layer4`, with the
stem in the first. AlexNet and the convnet have three. Images are RGB in [0, 1]. The first step inside is the encoder's
own normalisation, and with two networks the split.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.errors import InputError
from annulus.views.splits import Split

PROBE = 64  # pixels a side of an image that measures strides and channels; a multiple of every stride


class InputPlanes(nn.Module):
    """Normalised input planes of RGB images: the split's planes or the image, minus the mean, over the deviation."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.split: Split | None = config.split
        self.register_buffer("mean", torch.tensor(config.mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(config.std).view(-1, 1, 1))

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b k h w"]:
        planes = images if self.split is None else torch.cat(self.split(images), dim=1)
        return (planes - self.mean) / self.std


class SideBySide(nn.Module):
    """Stage of two networks: each reads its own channels, and their maps are concatenated in order.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 2 (CMC's two networks as one).
    """

    def __init__(self, parts: Sequence[nn.Module], inputs: Sequence[int]) -> None:
        super().__init__()
        self.parts, self.inputs = nn.ModuleList(parts), list(inputs)

    def forward(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d y x"]:
        mine = maps.split(self.inputs, dim=1)
        return torch.cat([part(own) for part, own in zip(self.parts, mine, strict=True)], dim=1)


class Levels(nn.Module):
    """Stages of an encoder's backbone. `strides`: pixels of the image per pixel of a stage's map."""

    def __init__(self, encoder: Encoder | SplitEncoder) -> None:
        """The stages share the encoder's weights, without a copy.

        Raises:
            InputError: when the backbone has no maps of growing stride.
        """
        super().__init__()
        self.planes = InputPlanes(encoder.config)
        networks = list(encoder.parts) if isinstance(encoder, SplitEncoder) else [encoder]
        stages = [_stages(network) for network in networks]
        if len(networks) == 1:
            self.stages = nn.ModuleList(stages[0])
        else:
            inputs = list(encoder.config.split.planes)
            self.stages = nn.ModuleList()
            for parts in zip(*stages, strict=True):
                self.stages.append(SideBySide(parts, inputs))
                inputs = [_channels(part) for part in parts]
        self.to(next(encoder.parameters()).device)
        shapes = _shapes(self)
        self.strides = tuple(PROBE // side for _, side in shapes)
        self.channels = tuple(channels for channels, _ in shapes)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> list[Float[Tensor, "b c y x"]]:
        """Maps of all stages, the finest first."""
        return self.maps_from_planes(self.planes(images))

    def maps_from_planes(
        self, maps: Float[Tensor, "b k h w"], end: int | None = None
    ) -> list[Float[Tensor, "b c y x"]]:
        """Maps of the stages before `end` (None: of all), from the output of `planes`."""
        levels = []
        for stage in self.stages[:end]:
            maps = stage(maps)
            levels.append(maps)
        return levels


def _stages(encoder: Encoder) -> list[nn.Sequential]:
    architecture, layers = encoder.config.architecture, list(encoder.backbone.named_children())
    if architecture == "vit_small":
        raise InputError(
            "a vit_small has one map of one stride, and a detector takes maps of growing stride: no engine can hold "
            "this encoder; take one with a ResNet, alexnet or convnet (backbone: resnet18)"
        )
    if architecture in ("alexnet", "convnet"):
        return _halving(encoder.backbone)
    names = [name for name, _ in layers]
    first = names.index("layer1")
    stem = nn.Sequential(*(layer for _, layer in layers[: first + 1]))
    return [stem, *(nn.Sequential(layer) for _, layer in layers[first + 1 :])]


def _halving(backbone: nn.Sequential) -> list[nn.Sequential]:
    """Groups of layers; each group after the first begins with a layer that makes the map smaller."""
    groups: list[list[nn.Module]] = [[]]
    for layer in backbone:
        smaller = getattr(layer, "stride", 1) not in (1, (1, 1))
        if smaller and any(isinstance(before, nn.Conv2d) for before in groups[-1]):
            groups.append([])
        groups[-1].append(layer)
    return [nn.Sequential(*group) for group in groups]


@torch.no_grad()
def _shapes(levels: Levels) -> list[tuple[int, int]]:
    """Channels and side of each stage's map for an image of `PROBE` pixels; leaves batch statistics as they are."""
    modes = {module: module.training for module in levels.modules()}
    levels.eval()
    maps = levels(torch.zeros(1, 3, PROBE, PROBE, device=levels.planes.mean.device))
    for module, training in modes.items():
        module.training = training
    return [(level.shape[1], level.shape[2]) for level in maps]


def _channels(stage: nn.Module) -> int:
    """Channels of a stage's map, from its last batch normalisation."""
    return [module for module in stage.modules() if isinstance(module, nn.BatchNorm2d)][-1].num_features
