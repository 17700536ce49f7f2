"""Two small networks of plain convolutions: AlexNet for 32 to 224 pixels, and a network for pictures of about 20."""

from collections.abc import Callable

from torch import nn


def build_alexnet(planes: int, stem: str) -> tuple[nn.Module, int]:
    """A small AlexNet with batch normalisation: five convolutions, half of the original widths."""
    kernel, stride = (11, 4) if stem == "imagenet" else (3, 1)
    layers: list[nn.Module] = []
    for position, (inputs, outputs, size, step) in enumerate(
        [(planes, 32, kernel, stride), (32, 96, 5, 1), (96, 192, 3, 1), (192, 128, 3, 1), (128, 128, 3, 1)]
    ):
        layers += [
            nn.Conv2d(inputs, outputs, size, stride=step, padding=size // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
        if position in (0, 1):
            layers.append(nn.MaxPool2d(kernel_size=3, stride=2, padding=1))
    return nn.Sequential(*layers), 128


def build_convnet(planes: int, stem: str) -> tuple[nn.Module, int]:
    """Four convolutions for pictures of about 20 pixels, each with batch normalisation; ReLU between them.

    The last one has no ReLU. So features have mean zero over a batch, and a linear head's embeddings point in all
    directions from the first step. Rectified features lie in a narrow cone, which training takes long to leave.
    """
    stride = 2 if stem == "imagenet" else 1
    layers: list[nn.Module] = []
    for inputs, outputs, step in [(planes, 32, stride), (32, 64, 2), (64, 128, 2), (128, 128, 1)]:
        layers += [
            nn.Conv2d(inputs, outputs, 3, stride=step, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers[:-1]), 128


# Builders of architectures in params.yaml: input channels and stem to the network and the width of its map.
CONVNETS: dict[str, Callable[[int, str], tuple[nn.Module, int]]] = {"alexnet": build_alexnet, "convnet": build_convnet}
