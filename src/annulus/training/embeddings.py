"""Embeddings of whole image sets during training; each process computes its share."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.distributed import all_gather, rank, world_size
from annulus.encoders.extract import extract
from annulus.encoders.features import Layer
from annulus.files.images import ImageSet


def embeddings(encoder: nn.Module, images: ImageSet, device: torch.device) -> Float[Tensor, "n d"]:
    """Returns the current embeddings of all images, on the device."""
    return embed_layers(encoder, images, ["embedding"], device)["embedding"]


def embed_layers(
    encoder: nn.Module, images: ImageSet, layers: Sequence[Layer], device: torch.device
) -> dict[Layer, Float[Tensor, "n _"]]:
    """Returns several layers of all images, from one pass."""
    own = images
    if world_size() > 1:
        share = -(-len(images) // world_size())  # the last process's share ends with copies of the last image
        own = images.take((torch.arange(share) + rank() * share).clamp(max=len(images) - 1))
    made = extract(encoder, own, layers, device).layers
    return {name: all_gather(values.to(device))[: len(images)] for name, values in made.items()}
