"""Backbones of detectors: every level is the original network's own map, and the encoder stays unchanged."""

from dataclasses import replace

import pytest
import torch
import torchvision

from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.libraries import backbone_state
from annulus.errors import InputError
from annulus.views.splits import ColourSplit
from annulus_lab.studies.detection.levels import Levels

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
CONFIG = EncoderConfig("resnet18", "imagenet", "linear", 8, view_size=16, split=None, mean=MEAN, std=STD)


def trained(**changes):
    """An encoder whose batch normalisations have weights, biases and statistics of their own, all different."""
    encoder = build_encoder(replace(CONFIG, **changes), seed=0)
    random = torch.Generator().manual_seed(1)
    for name, tensor in encoder.state_dict().items():
        if "head" not in name and tensor.dim() == 1:
            tensor.uniform_(*((-0.5, 0.5) if name.endswith("bias") else (0.5, 1.5)), generator=random)
    return encoder.eval()


@torch.no_grad()
@pytest.mark.parametrize(("architecture", "stem"), [("resnet18", "cifar"), ("resnet50", "imagenet")])
def test_every_level_of_a_resnet_is_torchvisions_own_map(architecture, stem, generator):
    encoder = trained(architecture=architecture, stem=stem)
    levels, other = Levels(encoder), getattr(torchvision.models, architecture)()
    other.fc = torch.nn.Identity()
    if stem == "cifar":
        other.conv1, other.maxpool = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False), torch.nn.Identity()
    other.load_state_dict(backbone_state(encoder, "torchvision"))  # strict: every weight is loaded
    images = torch.rand(2, 3, 32, 64, generator=generator)
    maps = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    other.eval()
    maps = other.maxpool(other.relu(other.bn1(other.conv1(maps))))
    expected = [maps := layer(maps) for layer in (other.layer1, other.layer2, other.layer3, other.layer4)]
    for actual, level, stride, channels in zip(levels(images), expected, levels.strides, levels.channels, strict=True):
        torch.testing.assert_close(actual, level, atol=1e-5, rtol=1e-5)
        assert actual.shape[1:] == (channels, 32 // stride, 64 // stride)
    assert levels.strides == ((4, 8, 16, 32) if stem == "imagenet" else (1, 2, 4, 8))


@torch.no_grad()
@pytest.mark.parametrize(
    ("architecture", "stem", "strides", "channels"),
    [
        ("convnet", "imagenet", (2, 4, 8), (32, 64, 128)),
        ("convnet", "cifar", (1, 2, 4), (32, 64, 128)),
        ("alexnet", "imagenet", (4, 8, 16), (32, 96, 128)),
    ],
)
def test_a_small_network_has_a_level_for_each_stride_and_none_is_changed(
    architecture, stem, strides, channels, generator
):
    encoder = trained(architecture=architecture, stem=stem).train()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    levels = Levels(encoder)
    assert (levels.strides, levels.channels) == (strides, channels)
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())
    assert all(module.training for module in levels.stages.modules())
    encoder.eval()
    images = torch.rand(2, 3, 32, 48, generator=generator)
    torch.testing.assert_close(levels(images)[-1], encoder.map(images), atol=1e-5, rtol=1e-5)
    held, own = (sum(tensor.numel() for tensor in m.state_dict().values()) for m in (levels.stages, encoder.backbone))
    assert held == own


@torch.no_grad()
def test_two_networks_give_one_map_a_level_the_first_ones_channels_first(generator):
    split = ColourSplit("lab")
    encoder = trained(architecture="convnet", split=split)
    levels, images = Levels(encoder), torch.rand(2, 3, 32, 32, generator=generator)
    assert levels.channels == (64, 128, 256)
    maps = levels(images)
    torch.testing.assert_close(maps[-1], encoder.map(images), atol=1e-5, rtol=1e-5)
    for part, network, view in zip((0, 1), encoder.parts, split(images), strict=True):
        first = network.backbone[:3]((view - network.mean) / network.std)
        torch.testing.assert_close(maps[0][:, 32 * part : 32 * (part + 1)], first, atol=1e-5, rtol=1e-5)


def test_a_transformer_has_no_levels():
    encoder = build_encoder(replace(CONFIG, architecture="vit_small", stem="patch4"), seed=0)
    with pytest.raises(InputError, match=r"a vit_small has one map of one stride.*no engine can hold this encoder"):
        Levels(encoder)
