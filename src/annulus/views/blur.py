"""Which images of a batch are blurred, and how much."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from annulus.views.settings import BlurSettings


def kernel_size(size: int) -> int:
    """Width of the kernel in pixels: the odd number nearest to a tenth of the view, at least 3.

    SimCLR's rule: 23 for 224, 9 for 96, 3 for 32.

    Source: Chen et al. 2020, arXiv:2002.05709, Appendix A.
    """
    return 2 * max(1, size // 20) + 1


class Blur(NamedTuple):
    """Which images of a batch are blurred, and each one's sigma in pixels."""

    chosen: Bool[Tensor, "b"]
    sigma: Float[Tensor, "b"]


def draw_blur(params: BlurSettings, count: int, generator: torch.Generator) -> Blur:
    """Draw one blur per image, sigma uniform between its limits."""
    chosen = torch.rand(count, generator=generator) < params.probability
    return Blur(chosen, torch.empty(count).uniform_(params.sigma_min, params.sigma_max, generator=generator))
