"""VGGs with batch normalisation, for images of 32 pixels: one linear layer replaces three.

Source: Simonyan and Zisserman 2015, arXiv:1409.1556, Table 1; Tian et al. 2020, arXiv:1910.10699, Table 1.
"""

from torch import nn

from annulus_lab.studies.distillation.classifiers.weights import he_normal_

CHANNELS = (64, 128, 256, 512, 512)


def build_vgg(depth: int) -> tuple[nn.Module, int]:
    """Five groups of convolutions up to the last map, and the map's channels; a group has one (8) or two (13).

    Pooling halves the images after the first three groups; Simonyan and Zisserman halve after each group.
    """
    convolutions = {8: 1, 13: 2}[depth]
    layers: list[nn.Module] = []
    inputs = 3
    for group, channels in enumerate(CHANNELS):
        for _ in range(convolutions):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
            inputs = channels
        if group < 3:
            layers.append(nn.MaxPool2d(2))
    return he_normal_(nn.Sequential(*layers)), inputs
