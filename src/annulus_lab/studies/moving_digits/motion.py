"""Motion of a square over a canvas: constant speed, reflected at the border."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def reflected(path: Float[Tensor, "..."], room: int | float) -> Float[Tensor, "..."]:
    """Position of a point at `path` on an endless line, folded back by walls at 0 and `room`."""
    return room - ((path.remainder(2 * room)) - room).abs()


def draw_paths(
    count: int, frames: int, room: int | float, speed: float, random: torch.Generator
) -> Float[Tensor, "n frames 2"]:
    """Upper left corner of each square over the frames, in pixels from 0 to `room`; start and direction are uniform.

    `speed` is in pixels a frame.

    Source: Tian et al. 2020, arXiv:2005.10243, Appendix B.1.
    """
    start = room * torch.rand(count, 1, 2, generator=random)
    angle = 2 * math.pi * torch.rand(count, 1, generator=random)
    steps = speed * torch.stack([angle.sin(), angle.cos()], dim=2)
    return reflected(start + steps * torch.arange(frames)[:, None], room)
