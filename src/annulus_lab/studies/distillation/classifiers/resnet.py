"""ResNets for images of 32 pixels: three resolutions of basic blocks, and a ResNet-50 of four.

Source: He et al. 2016, arXiv:1512.03385, Section 4.2.
"""

from collections import OrderedDict

from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from annulus_lab.studies.distillation.classifiers.weights import he_normal_


def build_resnet(depth: int, times: int = 1) -> tuple[nn.Module, int]:
    """ResNet of 6 n + 2 layers and its width; its three resolutions have 16, 32 and 64 channels, times `times`.

    A shortcut between resolutions is a 1 x 1 convolution; the paper's own networks for CIFAR have shortcuts without
    weights. The wide networks begin with 8 `times` channels: CRD's resnet8x4 and resnet32x4.

    Source: He et al. 2016, arXiv:1512.03385, Section 4.2; Tian et al. 2020, arXiv:1910.10699, Table 1.
    """
    blocks, inputs = (depth - 2) // 6, 16 if times == 1 else 8 * times
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, inputs, kernel_size=3, padding=1, bias=False),
        bn1=nn.BatchNorm2d(inputs),
        relu=nn.ReLU(inplace=True),
    )
    for number, channels in enumerate((16 * times, 32 * times, 64 * times), start=1):
        layers[f"layer{number}"] = _resolution(inputs, channels, blocks, stride=1 if number == 1 else 2)
        inputs = channels
    return he_normal_(nn.Sequential(layers)), inputs


def build_resnet50() -> tuple[nn.Module, int]:
    """torchvision's ResNet-50 with a 3 x 3 convolution of stride 1 in place of the stem and its pooling."""
    network = ResNet(Bottleneck, [3, 4, 6, 3])
    network.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    layers = OrderedDict(network.named_children())
    del layers["maxpool"], layers["avgpool"], layers["fc"]
    return he_normal_(nn.Sequential(layers)), 2048


def _resolution(inputs: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
    shortcut = None
    if stride != 1 or inputs != channels:
        shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
    first = BasicBlock(inputs, channels, stride, shortcut)
    return nn.Sequential(first, *(BasicBlock(channels, channels) for _ in range(blocks - 1)))
