"""Views for supervised training: crops of padded images, and flips."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from annulus.views.crop import Boxes, resized_crop
from annulus.waits import sent


def padded_crops(
    images: UInt8[Tensor, "b 3 s s"], padding: int, flip: float, generator: torch.Generator
) -> Float[Tensor, "b 3 s s"]:
    """Each image at a random place in its own frame, black where it leaves it, some mirrored; values in [0, 1].

    The generator lives on the CPU: the same views for every device.

    Source: He et al. 2016, arXiv:1512.03385, Section 4.2.
    """
    count, side = len(images), images.shape[-1]
    top, left = torch.randint(2 * padding + 1, (2, count), generator=generator)
    mirrored = (torch.rand(count, generator=generator) < flip).nonzero().squeeze(1)
    whole = torch.full((count,), side)
    top, left, whole, mirrored = sent([top, left, whole, mirrored], images.device)
    return resized_crop(F.pad(images, [padding] * 4), Boxes(top, left, whole, whole), mirrored, side)
