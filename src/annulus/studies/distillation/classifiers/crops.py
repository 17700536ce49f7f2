"""Views for supervised training: crops of padded images, and flips."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from annulus.device.copies import to_device
from annulus.views.crop import CropBoxes, resized_crop
from annulus.views.shown import Shown, whole


def padded_crops(
    images: UInt8[Tensor, "v 3 s s"],
    padding: int,
    flip: float,
    generator: torch.Generator,
    shown: Shown | None = None,
) -> Float[Tensor, "v 3 s s"]:
    """Each image at a random place in its own frame, black where it leaves it, some mirrored; values in [0, 1].

    The images are a batch, or the rows `shown` of one, for the whole of which the generator draws. It lives on the CPU:
    the same views for every device and any number of processes.

    Source: He et al. 2016, arXiv:1512.03385, Section 4.2.
    """
    side, shown = images.shape[-1], shown or whole(len(images))
    top, left = torch.randint(2 * padding + 1, (2, shown.batch), generator=generator)[:, shown.rows]
    mirrored = (torch.rand(shown.batch, generator=generator) < flip)[shown.rows].nonzero().squeeze(1)
    sides = torch.full((len(images),), side)
    top, left, sides, mirrored = to_device([top, left, sides, mirrored], images.device)
    return resized_crop(F.pad(images, [padding] * 4), CropBoxes(top, left, sides, sides), mirrored, side)
