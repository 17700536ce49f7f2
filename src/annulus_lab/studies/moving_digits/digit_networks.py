"""Networks of the moving digits: four convolutions for an image, an LSTM over them for a video.

Source: Tian et al. 2020, arXiv:2005.10243, Section 4.2, Appendix B.1. The paper does not print kernels, strides,
normalisation, or the number of ConvNets for both views. Here these are 3 x 3, strides 2, 2, 2 and 1, batch
normalisation, and one ConvNet.
"""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.rng import first_weights

FILTERS = (8, 16, 32, 64)
STRIDES = (2, 2, 2, 1)
WIDTH = FILTERS[-1]


class Views(nn.Module):
    """Networks that embed videos and images. Read-outs use the backbone `image`."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.BatchNorm2d(3, affine=False)]  # pixels to mean 0, the value of the padding
        for (inputs, outputs), stride in zip(pairwise((3, *FILTERS)), STRIDES, strict=True):
            convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
        self.image = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.video = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def embed_videos(self, frames: Float[Tensor, "bt 3 c c"], length: int) -> Float[Tensor, "b d"]:
        """Output of the LSTM at the last of `length` frames; `frames` holds one video after another."""
        return self.video(self.image(frames).unflatten(0, (-1, length)))[0][:, -1]


def build_views(seed: int) -> Views:
    """Builds the networks with weights from a seed; channels last is faster on a CPU (2/3 of the time)."""
    with first_weights(seed):
        return Views().to(memory_format=torch.channels_last)
