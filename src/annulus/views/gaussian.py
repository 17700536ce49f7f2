"""Gaussian blur of whole batches, each image with its own width."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def gaussian_blur(images: Float[Tensor, "b c h w"], sigma: Float[Tensor, "b"], taps: int) -> Float[Tensor, "b c h w"]:
    """Blurs with a kernel of `taps` pixels; borders are mirrored without repeating the border pixel.

    It equals torchvision's gaussian_blur with kernel size `taps`. A sigma far below a pixel is the identity. The kernel
    of an image that is smaller than half of `taps` shrinks to the image.
    """
    for dim in (2, 3):
        reach = min(taps // 2, images.shape[dim] - 1)  # a border has no more pixels to mirror
        offset = torch.arange(-reach, reach + 1, device=images.device)
        kernel = (-0.5 * (offset / sigma[:, None]) ** 2).softmax(dim=1)  # (b, taps)
        pad = (0, 0, reach, reach) if dim == 2 else (reach, reach, 0, 0)
        images = _slide(F.pad(images, pad, mode="reflect"), kernel, dim)
    return images


def _slide(images: Float[Tensor, "b c _h _w"], kernel: Float[Tensor, "b taps"], dim: int) -> Tensor:
    """Sums the shifts of each image along `dim`, weighted by its kernel; the result is taps - 1 pixels shorter.

    On a CPU this is faster than a grouped convolution or matrices, and on a GPU TF32 does not round it.
    """
    length = images.shape[dim] - kernel.shape[1] + 1
    weights = kernel[:, :, None, None, None].unbind(dim=1)
    result = images.narrow(dim, 0, length) * weights[0]
    for tap, weight in enumerate(weights[1:], start=1):
        result.addcmul_(images.narrow(dim, tap, length), weight)
    return result
