"""Views for supervised training: crops of padded images, and flips."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from annulus.device.copies import to_device
from annulus.views.batch_share import BatchShare, whole
from annulus.views.crop import CropBoxes, resized_crop


def padded_crops(
    images: UInt8[Tensor, "v 3 s s"],
    padding: int,
    flip: float,
    generator: torch.Generator,
    share: BatchShare | None = None,
) -> Float[Tensor, "v 3 s s"]:
    """Random crops of the padded images, with black padding, some mirrored; values in [0, 1].

    The images are a batch, or the rows `share` of one. The generator draws for the whole batch. It is on the CPU, so
    every device and any number of processes have the same views.

    Source: He et al. 2016, arXiv:1512.03385, Section 4.2.
    """
    side, share = images.shape[-1], share or whole(len(images))
    top, left = torch.randint(2 * padding + 1, (2, share.batch), generator=generator)[:, share.rows]
    mirrored = (torch.rand(share.batch, generator=generator) < flip)[share.rows].nonzero().squeeze(1)
    sides = torch.full((len(images),), side)
    top, left, sides, mirrored = to_device([top, left, sides, mirrored], images.device)
    return resized_crop(F.pad(images, [padding] * 4), CropBoxes(top, left, sides, sides), mirrored, side)
