"""Wide residual networks: batch-norm and ReLU come before each convolution.

Source: Zagoruyko and Komodakis 2016, arXiv:1605.07146, Table 1.
"""

from collections import OrderedDict

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus_lab.studies.distillation.classifiers.weights import he_normal_


class PreactivationBlock(nn.Module):
    """Residual block: twice batch-norm, ReLU and a 3 x 3 convolution, added to the input.

    If the number of channels changes, the shortcut is a 1 x 1 convolution of the rectified input.
    """

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.shortcut = None if inputs == channels else nn.Conv2d(inputs, channels, 1, stride, bias=False)

    def forward(self, maps: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o y x"]:
        rectified = F.relu(self.bn1(maps), inplace=True)
        added = self.conv2(F.relu(self.bn2(self.conv1(rectified)), inplace=True))
        return added + (maps if self.shortcut is None else self.shortcut(rectified))


def build_wide_resnet(depth: int, times: int) -> tuple[nn.Module, int]:
    """WRN-depth-times of 6 n + 4 layers, without dropout, up to the last map, and the map's channels."""
    blocks, inputs = (depth - 4) // 6, 16
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv1=nn.Conv2d(3, inputs, 3, padding=1, bias=False))
    for number, channels in enumerate((16 * times, 32 * times, 64 * times), start=1):
        first = PreactivationBlock(inputs, channels, stride=1 if number == 1 else 2)
        others = (PreactivationBlock(channels, channels, stride=1) for _ in range(blocks - 1))
        layers[f"layer{number}"] = nn.Sequential(first, *others)
        inputs = channels
    layers["bn"], layers["relu"] = nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)
    return he_normal_(nn.Sequential(layers)), inputs
