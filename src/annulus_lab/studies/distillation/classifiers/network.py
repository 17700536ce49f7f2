"""Builds a classifier with initial weights from a network's name."""

import torch
from torch import nn

from annulus.device.rng import derive, first_weights
from annulus.files.images import Channels
from annulus_lab.studies.distillation.classifiers.classifier import Classifier
from annulus_lab.studies.distillation.classifiers.config import ClassifierConfig
from annulus_lab.studies.distillation.classifiers.mobilenet import build_mobilenet_v2
from annulus_lab.studies.distillation.classifiers.vgg import build_vgg
from annulus_lab.studies.distillation.classifiers.weights import begin_head_
from annulus_lab.studies.distillation.classifiers.wide import build_wide_resnet

AS_THEY_ARE = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def build_classifier(
    name: str, classes: int, seed: int, statistics: tuple[Channels, Channels] = AS_THEY_ARE
) -> Classifier:
    """Classifier for images of 32 pixels; the same seed gives the same weights.

    `statistics` are the training images' mean and standard deviation (`ImageSet.channel_statistics`).

    Source: Tian et al. 2020, arXiv:1910.10699, Tables 1 and 2; Song and Ermon 2020, arXiv:2007.09852, Section 5.2.

    Raises:
        InputError: for an unknown name, with the nearest known one.
    """
    return build(ClassifierConfig(name, classes, *statistics), seed)


def build(config: ClassifierConfig, seed: int) -> Classifier:
    """Classifier of a configuration, with initial weights."""
    with first_weights(derive(seed, "classifier")):
        backbone, width = _backbone(config.name)
        classifier = Classifier(config, backbone, width)
        begin_head_(classifier.head, config.name)
        return classifier.to(memory_format=torch.channels_last)


def _backbone(name: str) -> tuple[nn.Module, int]:
    """Network up to its last map, and the map's channels."""
    match name.split("_"):
        case ["wrn", depth, times]:
            return build_wide_resnet(int(depth), int(times))
        case ["vgg8" | "vgg13"]:
            return build_vgg(int(name.removeprefix("vgg")))
        case ["mobilenet", "v2"]:
            return build_mobilenet_v2()
        case _:
            return _torchvision_backbone(name)


def _torchvision_backbone(name: str) -> tuple[nn.Module, int]:
    """Network of torchvision's blocks up to its last map, and the map's channels; the import takes seconds."""
    from annulus_lab.studies.distillation.classifiers import resnet, shufflenet

    match name:
        case "shufflenet_v1":
            return shufflenet.build_shufflenet_v1()
        case "shufflenet_v2":
            return shufflenet.build_shufflenet_v2()
        case "resnet50":
            return resnet.build_resnet50()
        case "resnet8x4" | "resnet32x4":
            return resnet.build_resnet(int(name.removeprefix("resnet").removesuffix("x4")), times=4)
        case _:
            return resnet.build_resnet(int(name.removeprefix("resnet")))
