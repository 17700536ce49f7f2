"""ResNets and ResNeXts: torchvision's, and three that torchvision does not have, with either stem.

`Encoder` imports this module only when it builds such a network: importing torchvision takes four seconds.
"""

from collections import OrderedDict
from typing import Any

from torch import nn
from torchvision import models
from torchvision.models.resnet import Bottleneck, ResNet

from annulus.encoders.config import EncoderConfig

BLOCKS_50, BLOCKS_152 = [3, 4, 6, 3], [3, 8, 36, 3]  # bottlenecks at each of the four resolutions


class WideResNet50(ResNet):
    """A ResNet-50 with every number of channels, the stem's included, multiplied by `times`: ResNet-50 (2x), (4x).

    torchvision's `wide_resnet50_2` is another network: there only the 3 x 3 convolutions of the blocks are wider.

    Source: Tian et al. 2020, arXiv:2005.10243, Table 14; Zhu et al. 2020, arXiv:2010.01929, Table 7.
    """

    def __init__(self, times: int) -> None:
        self.times = times
        super().__init__(Bottleneck, BLOCKS_50)

    def _make_layer(self, block: type[nn.Module], planes: int, blocks: int, **settings: Any) -> nn.Sequential:
        if planes == 64:  # the first layer follows the stem, which torchvision has built with 64 channels
            self.inplanes *= self.times
            self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(self.inplanes)
        return super()._make_layer(block, planes * self.times, blocks, **settings)


def build_resnet(config: EncoderConfig) -> tuple[nn.Module, int]:
    """The network up to its last feature map under torchvision's names, and the width of this map."""
    match config.architecture:
        case "resnet50_x2" | "resnet50_x4":
            network = WideResNet50(times=int(config.architecture[-1]))
        case "resnext152_32x8d":  # InfoMin, Table 14: 120 million weights without the classifier, so 32 groups of 8
            network = ResNet(Bottleneck, BLOCKS_152, groups=32, width_per_group=8)
        case name:
            network = getattr(models, name)(weights=None)
    width, stem, inputs = network.inplanes, network.bn1.num_features, config.planes
    if config.stem == "cifar":
        network.conv1 = nn.Conv2d(inputs, stem, kernel_size=3, stride=1, padding=1, bias=False)
        network.maxpool = nn.Identity()
    elif inputs != 3:
        network.conv1 = nn.Conv2d(inputs, stem, kernel_size=7, stride=2, padding=3, bias=False)
    if config.stem == "cifar" or inputs != 3:
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    # Without the pooling and the classifier.
    layers = OrderedDict(network.named_children())
    del layers["avgpool"], layers["fc"]
    return nn.Sequential(layers), width
