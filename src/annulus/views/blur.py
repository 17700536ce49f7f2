"""Gaussian blur of whole batches, each image with its own width."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from annulus.config.images import BlurParams


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


def draw_blur(params: BlurParams, count: int, generator: torch.Generator) -> Blur:
    """Draw one blur per image, sigma uniform between its limits."""
    chosen = torch.rand(count, generator=generator) < params.probability
    return Blur(chosen, torch.empty(count).uniform_(params.sigma_min, params.sigma_max, generator=generator))


def gaussian_blur(images: Float[Tensor, "b c h w"], sigma: Float[Tensor, "b"], taps: int) -> Float[Tensor, "b c h w"]:
    """Blur with a kernel of `taps` pixels, borders mirrored without repeating the border pixel.

    Equal to torchvision's gaussian_blur with kernel size `taps`; a sigma far below a pixel is the identity.
    """
    reach = taps // 2
    offset = torch.arange(-reach, reach + 1, device=images.device)
    kernel = (-0.5 * (offset / sigma[:, None]) ** 2).softmax(dim=1)  # (b, taps)
    padded = F.pad(images, (reach, reach, reach, reach), mode="reflect")
    return _slide(_slide(padded, kernel, dim=2), kernel, dim=3)


def _slide(images: Float[Tensor, "b c _h _w"], kernel: Float[Tensor, "b taps"], dim: int) -> Tensor:
    """Each image's sum of its shifts along `dim`, weighted by its kernel; taps - 1 pixels shorter.

    On a CPU this is faster than a grouped convolution or matrices, and on a GPU TF32 does not round it.
    """
    length = images.shape[dim] - kernel.shape[1] + 1
    weights = kernel[:, :, None, None, None].unbind(dim=1)
    result = images.narrow(dim, 0, length) * weights[0]
    for tap, weight in enumerate(weights[1:], start=1):
        result.addcmul_(images.narrow(dim, tap, length), weight)
    return result
