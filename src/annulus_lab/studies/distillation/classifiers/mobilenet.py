"""MobileNetV2 of half the width, for images of 32 pixels.

Source: Sandler et al. 2018, arXiv:1801.04381, Tables 1 and 2; Tian et al. 2020, arXiv:1910.10699, Table 2.
"""

from jaxtyping import Float
from torch import Tensor, nn

from annulus_lab.studies.distillation.classifiers.weights import he_normal_

# Factor of the channels inside a block, channels at full width, number of blocks, stride of the first block.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
LAST = 1280


class InvertedResidual(nn.Module):
    """Block with many channels inside and few outside: 1 x 1, depthwise 3 x 3, and a linear 1 x 1 convolution.

    Two departures from the paper follow CRD's networks: ReLU in place of ReLU6, and a first convolution in every block,
    also without more channels.
    """

    def __init__(self, inputs: int, channels: int, stride: int, times: int) -> None:
        super().__init__()
        inside = inputs * times
        self.added = stride == 1 and inputs == channels
        self.layers = nn.Sequential(
            *_normalised(inputs, inside, kernel=1),
            *_normalised(inside, inside, kernel=3, stride=stride, groups=inside),
            nn.Conv2d(inside, channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, maps: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o y x"]:
        output = self.layers(maps)
        return maps + output if self.added else output


def build_mobilenet_v2() -> tuple[nn.Module, int]:
    """Network up to its last map, a sixteenth of the image's side, and the map's 1,280 channels."""
    inputs = 32 // 2
    layers = _normalised(3, inputs, kernel=3, stride=2)
    for times, full, blocks, stride in STAGES:
        channels = full // 2
        for block in range(blocks):
            layers.append(InvertedResidual(inputs, channels, stride if block == 0 else 1, times))
            inputs = channels
    layers += _normalised(inputs, LAST, kernel=1)
    return he_normal_(nn.Sequential(*layers)), LAST


def _normalised(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]
