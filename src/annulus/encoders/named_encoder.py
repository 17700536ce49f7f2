"""A library's network as an encoder, by its name: `timm/resnet18`, `torchvision/resnet18`."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.encoders.module_encoder import ModuleEncoder


class NamedEncoder(ModuleEncoder):
    """A library's network behind the library's own preprocessing: RGB in [0, 1], normalised inside.

    Bytes are resized and cropped as in the library's own evaluation. The state under `network.` is the library's.
    With `dim`, a linear head computes the embeddings.
    """

    width: int

    def __init__(self, name: str, network: nn.Module, width: int, dim: int | None, config: Mapping[str, Any]) -> None:
        """`config`: the preprocessing's numbers by the library's names, with `mean` and `std` of each channel."""
        head = None if dim is None else nn.Linear(width, dim)
        super().__init__(network, dim, head)
        self.name, self.width = name, width
        self.configure(config)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Replaces the preprocessing's numbers."""
        self.config = {key: tuple(value) if isinstance(value, list) else value for key, value in config.items()}
        for statistic in ("mean", "std"):
            values = torch.tensor(self.config[statistic]).view(-1, 1, 1)
            self.register_buffer(statistic, values, persistent=False)

    def prepared(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
        """Normalises the images."""
        return (images - self.mean) / self.std
