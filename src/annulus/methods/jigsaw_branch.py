"""Second query of each image, from the nine pieces of its jigsaw: PIRL's addition to the contrast with a memory."""

from dataclasses import replace

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus.bounds.bound import Estimate
from annulus.device.compiling import compiled
from annulus.device.device import autocast
from annulus.device.distributed import local_slice, world_size
from annulus.device.rng import Drawing, derive, first_weights, generator
from annulus.encoders.mixed_precision import in_lower
from annulus.encoders.module_encoder import AnyEncoder
from annulus.errors import InputError
from annulus.methods.step import Step
from annulus.views.crop import Crop
from annulus.views.jigsaw import CELLS, jigsaw
from annulus.views.settings import ViewSet


class JigsawHead(nn.Module):
    """Maps pooled features of nine patches to one unit embedding: each patch to `dim` numbers, all of them to `dim`."""

    def __init__(self, width: int, dim: int, seed: int, name: str) -> None:
        """`name` distinguishes the heads of two networks."""
        super().__init__()
        with first_weights(derive(seed, "jigsaw head", name)):
            self.each, self.all = nn.Linear(width, dim), nn.Linear(CELLS * dim, dim)

    def forward(self, pooled: Float[Tensor, "b 9 c"]) -> Float[Tensor, "b d"]:
        return F.normalize(in_lower(self.all, in_lower(self.each, pooled).flatten(1)).float(), dim=1)


class JigsawBranch(Drawing):
    """The encoder's backbone on the patches of a view's jigsaw, and a head for each of its networks.

    Source: Misra and van der Maaten 2020, arXiv:1912.01991, Section 2.
    """

    def __init__(self, encoder: AnyEncoder, dim: int, seed: int) -> None:
        """Builds a head for each network.

        Raises:
            InputError: for a plain module, since the width of the features before its head is unknown.
        """
        super().__init__()
        if encoder.width is None:
            raise InputError(
                "a jigsaw has a second head on the features before the encoder's own, and a module does not say how "
                "many those are; give an encoder of annulus.build_encoder, or a name such as 'timm/resnet18'"
            )
        self.heads = nn.ModuleList(JigsawHead(encoder.width, dim, seed, name) for name in encoder.names)
        # Without a CUDA graph: torch cannot capture one while the first branch waits for its backward.
        self.pooled = compiled(encoder.pooled)
        self.generator = generator(seed, "jigsaw")  # on the CPU: the same patches on every device

    def forward(self, views: Float[Tensor, "b 3 h h"]) -> list[Float[Tensor, "b d"]]:
        """Computes a query of each image by each network; `views` are this process's share of the batch."""
        batch = len(views) * world_size()
        patches = jigsaw(views, self.generator, batch, local_slice(batch))
        with autocast(patches.device):
            pooled = self.pooled(patches.flatten(0, 1)).unflatten(0, (-1, CELLS))
            parts = pooled.chunk(len(self.heads), dim=2)
            return [head(part) for head, part in zip(self.heads, parts, strict=True)]


def jigsaw_views(crop: Crop | None, views: ViewSet) -> ViewSet:
    """View set of a jigsaw: this crop and a flip, without colour; without a crop, the set of the other views."""
    return views if crop is None else ViewSet(crop=crop, flip=0.5)


def both_branches(step: Step, jigsaw: Estimate, weight: float) -> Step:
    """Returns the view's step with the loss (1 - weight) * loss of the view + weight * loss of the jigsaw."""
    return replace(step, estimate=step.estimate.times(1 - weight) + jigsaw.times(weight))
