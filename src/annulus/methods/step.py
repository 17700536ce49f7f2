"""Result of one batch, what every method is told about its surroundings, and what all methods have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.bounds.bound import Estimate
from annulus.methods.contrast import ContrastConfig, Progress


class Setting(NamedTuple):
    """What a method is built from, beside its encoder and its own parameters."""

    contrast: ContrastConfig
    images: int  # of the training set
    epoch_images: int  # that an epoch shows: whole batches
    queue: int  # keys, where a method keeps a queue
    seed: int
    device: torch.device


@dataclass(frozen=True)
class Step:
    """The estimate whose loss is minimised, its queries, and the embeddings that `after_step` stores."""

    estimate: Estimate
    queries: Float[Tensor, "b d"]  # with gradient, once backward has run
    stored: tuple[Float[Tensor, "b d"], ...] = ()


class Method(nn.Module):
    """What training asks of a method. The answers here are those of a method that keeps no memory of images."""

    views: ClassVar[int] = 2  # of each image, in a step
    queries_per_image: ClassVar[int] = 1
    channels: ClassVar[Literal["rgb", "lab"]] = "rgb"  # what its encoder sees
    memory: ClassVar[Literal["bank", "queue", "batch"]] = "batch"
    stored: Float[Tensor, "n d"] | None = None  # an embedding of every training image, where a method stores them

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Before the first step; `embed` gives the embeddings of all training images now."""

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Cluster the training images anew, where clusters are needed."""
        if self.contrast.needs_clusters:
            self.contrast.cluster(embed() if self.stored is None else self.stored, epoch)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], progress: Progress) -> Step:
        """The estimate of a batch of views of the images `index`."""
        raise NotImplementedError

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """After the optimiser's step: backward still needs what the scores were made from."""

    def stored_of(self, images: Int[Tensor, "m"]) -> Float[Tensor, "m d"] | None:
        """What is stored of these images now, zeros for an image of which nothing is; None: nothing ever is."""
        return None if self.stored is None else self.stored[images]
