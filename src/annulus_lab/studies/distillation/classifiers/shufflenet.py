"""ShuffleNets for images of 32 pixels: a 1 x 1 convolution replaces the stem and its pooling.

Source: Tian et al. 2020, arXiv:1910.10699, Table 2.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torchvision.models.shufflenetv2 import InvertedResidual

GROUPS, CHANNELS, BLOCKS = 3, (240, 480, 960), (4, 8, 4)
CHANNELS_V2, LAST_V2 = (116, 232, 464), 1024  # of width 1
STEM = 24


class GroupedBottleneck(nn.Module):
    """Block: grouped 1 x 1, a shuffle of the channels between the groups, depthwise 3 x 3, grouped 1 x 1.

    With stride 2 the pooled input is concatenated with the result, and not added. As in CRD's networks, a ReLU follows
    the 3 x 3 convolution; the paper leaves it out.

    Source: Zhang et al. 2018, arXiv:1707.01083, Section 3.2, Figure 2.
    """

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        outputs = channels - inputs if stride == 2 else channels  # the pooled input gives the other channels
        inside = outputs // 4
        first = 1 if inputs == STEM else GROUPS  # the stem's few channels are not grouped
        self.conv1 = nn.Conv2d(inputs, inside, 1, groups=first, bias=False)
        self.bn1 = nn.BatchNorm2d(inside)
        self.shuffle = nn.ChannelShuffle(first)
        self.conv2 = nn.Conv2d(inside, inside, 3, stride, padding=1, groups=inside, bias=False)
        self.bn2 = nn.BatchNorm2d(inside)
        self.conv3 = nn.Conv2d(inside, outputs, 1, groups=GROUPS, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)

    def forward(self, maps: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o y x"]:
        inside = self.shuffle(F.relu(self.bn1(self.conv1(maps)), inplace=True))
        inside = F.relu(self.bn2(self.conv2(inside)), inplace=True)
        output = self.bn3(self.conv3(inside))
        if self.stride == 1:
            return F.relu(output + maps, inplace=True)
        return F.relu(torch.cat([output, F.avg_pool2d(maps, 3, stride=2, padding=1)], dim=1), inplace=True)


def build_shufflenet_v1() -> tuple[nn.Module, int]:
    """ShuffleNet of three groups up to its last map, and the map's channels.

    Source: Zhang et al. 2018, arXiv:1707.01083, Table 1 (3 groups).
    """
    layers = _stem_and_blocks(GroupedBottleneck, CHANNELS)
    return nn.Sequential(*layers), CHANNELS[-1]


def build_shufflenet_v2() -> tuple[nn.Module, int]:
    """ShuffleNetV2 of width 1, of torchvision's blocks, up to its last map, and the map's channels.

    Source: Ma et al. 2018, arXiv:1807.11164, Table 5 (1x).
    """
    layers = _stem_and_blocks(InvertedResidual, CHANNELS_V2)
    layers += [nn.Conv2d(CHANNELS_V2[-1], LAST_V2, 1, bias=False), nn.BatchNorm2d(LAST_V2), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers), LAST_V2


def _stem_and_blocks(block: type[nn.Module], widths: Sequence[int]) -> list[nn.Module]:
    """Stem, and blocks at each width; the first block of a width halves the map."""
    layers = [nn.Conv2d(3, STEM, 1, bias=False), nn.BatchNorm2d(STEM), nn.ReLU(inplace=True)]
    inputs = STEM
    for channels, blocks in zip(widths, BLOCKS, strict=True):
        layers += [block(inputs, channels, stride=2)]
        layers += [block(channels, channels, stride=1) for _ in range(blocks - 1)]
        inputs = channels
    return layers
