"""Exported backbones: the other library loads them strictly, by the lines that the command prints, and agrees."""

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import load_file
from torch import nn

from annulus.encoders.encoder import EncoderConfig, build_encoder, save_encoder
from annulus.errors import InputError
from annulus.export import backbone_state, export, main, usage

CONFIG = EncoderConfig(
    "resnet18",
    "imagenet",
    "linear",
    embedding_dim=8,
    view_size=16,
    channels="rgb",
    mean=(0.5, 0.4, 0.3),
    std=(0.2, 0.25, 0.3),
)
ARCHITECTURES = ["resnet18", "resnet34", "resnet50"]
NETWORKS = [("resnet18", "cifar"), *((architecture, "imagenet") for architecture in ARCHITECTURES)]


@pytest.fixture
def images(generator):
    return torch.rand(2, 3, 16, 16, generator=generator)


def trained(images, **changes):
    """An encoder whose batch normalisations have weights, biases and statistics of their own, all different."""
    encoder = build_encoder(replace(CONFIG, **changes), seed=0)
    random = torch.Generator().manual_seed(1)
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=random)
            nn.init.uniform_(module.bias, -0.5, 0.5, generator=random)
    with torch.no_grad():
        encoder.train()(images)
    return encoder.eval()


def levels(network, names, images):
    """What the named children give, level by level; in float64, where only a wrong layer makes a difference."""
    network, images, found = deepcopy(network).double(), images.double(), {}
    children = dict(network.named_children())
    hooks = [
        children[name].register_forward_hook(lambda _, __, out, name=name: found.update({name: out})) for name in names
    ]
    with torch.no_grad():
        network(images)
    for hook in hooks:
        hook.remove()
    return [found[name] for name in names]


def agree(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(other, mine, atol=1e-9, rtol=1e-9)


def compare_with_torchvision_s_layout(encoder, network, images):
    names = ["maxpool", "layer1", "layer2", "layer3", "layer4"]
    normalised = (images - encoder.mean) / encoder.std
    agree(levels(encoder.backbone, names, normalised), levels(network.eval(), names, normalised))
    with torch.no_grad():  # the network's own end, behind its pooling
        torch.testing.assert_close(network(normalised), encoder.pooled(images), atol=1e-4, rtol=1e-4)


def exported(encoder, library, folder):
    path = folder / f"exported{'.pth' if library == 'detectron2' else '.safetensors'}"
    export(encoder, library, path)
    return path


def run_usage(encoder, library, path, **modules):
    """The network that the printed lines make."""
    scope = {"torch": torch, **modules}
    exec(usage(encoder.config, library, path), scope)
    return scope["network"]


@pytest.mark.parametrize(("architecture", "stem"), NETWORKS)
def test_torchvision_loads_it_and_gives_the_same_features(architecture, stem, images, tmp_path):
    import safetensors

    encoder = trained(images, architecture=architecture, stem=stem)
    path = exported(encoder, "torchvision", tmp_path)
    network = run_usage(encoder, "torchvision", path, torchvision=torchvision, safetensors=safetensors)
    compare_with_torchvision_s_layout(encoder, network, images)


@pytest.mark.parametrize(("architecture", "stem"), NETWORKS)
def test_timm_loads_it_and_gives_the_same_features(architecture, stem, images, tmp_path):
    timm = pytest.importorskip("timm", reason="timm is not installed; it comes with `make install`")
    encoder = trained(images, architecture=architecture, stem=stem)
    network = run_usage(encoder, "timm", exported(encoder, "timm", tmp_path), timm=timm)
    compare_with_torchvision_s_layout(encoder, network, images)


class Convolution(nn.Conv2d):
    """detectron2's: its normalisation is a child named `norm`, applied to the result."""

    def __init__(self, inputs, outputs, size, stride=1):
        super().__init__(inputs, outputs, size, stride, padding=size // 2, bias=False)
        self.norm = FrozenBatchNorm(outputs)

    def forward(self, x):
        return self.norm(super().forward(x))


class FrozenBatchNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.zeros(channels))

    def forward(self, x):
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, bottleneck):
        super().__init__()
        self.shortcut = Convolution(inputs, outputs, 1, stride) if inputs != outputs else nn.Identity()
        if bottleneck:  # the stride stands in the 3 x 3 convolution: STRIDE_IN_1X1 false
            middle = outputs // 4
            self.conv1, self.conv2 = Convolution(inputs, middle, 1), Convolution(middle, middle, 3, stride)
            self.conv3 = Convolution(middle, outputs, 1)
        else:
            self.conv1, self.conv2 = Convolution(inputs, outputs, 3, stride), Convolution(outputs, outputs, 3)

    def forward(self, x):
        out = self.conv2(F.relu(self.conv1(x)))
        if hasattr(self, "conv3"):
            out = self.conv3(F.relu(out))
        return F.relu(out + self.shortcut(x))


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = Convolution(3, 64, 7, stride=2)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.conv1(x)), 3, stride=2, padding=1)


def detectron2_s_resnet(architecture):
    """Its names and its order, from detectron2/modeling/backbone/resnet.py, written out plainly."""
    depths = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}[architecture]
    bottleneck = architecture == "resnet50"
    children, inputs = {"stem": Stem()}, 64
    for level, depth in enumerate(depths):
        outputs = (256 if bottleneck else 64) * 2**level
        blocks = []
        for number in range(depth):
            blocks.append(Block(inputs, outputs, 2 if level and not number else 1, bottleneck))
            inputs = outputs
        children[f"res{level + 2}"] = nn.Sequential(*blocks)
    network = nn.Sequential()
    for name, child in children.items():
        network.add_module(name, child)
    return network.eval()


DETECTRON2_LEVELS = ["stem", "res2", "res3", "res4", "res5"]


def our_levels(encoder, images):
    names = ["maxpool", "layer1", "layer2", "layer3", "layer4"]
    return levels(encoder.backbone, names, (images - encoder.mean) / encoder.std)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_detectron2_s_names_load_strictly_and_give_the_same_features(architecture, images, tmp_path):
    encoder = trained(images, architecture=architecture)
    stored = torch.load(exported(encoder, "detectron2", tmp_path), weights_only=True)
    assert stored.keys() == {"model", "__author__", "matching_heuristics"}
    network = detectron2_s_resnet(architecture)
    network.load_state_dict(stored["model"])
    normalised = (images - encoder.mean) / encoder.std
    agree(our_levels(encoder, images), levels(network, DETECTRON2_LEVELS, normalised))


@pytest.mark.parametrize("norm", ["FrozenBN", "BN"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_detectron2_loads_it_by_the_printed_settings(architecture, norm, images, tmp_path):
    pytest.importorskip("detectron2", reason="detectron2 is not installed: it is on no package index")
    from detectron2.checkpoint import DetectionCheckpointer
    from detectron2.config import get_cfg
    from detectron2.modeling import build_backbone

    encoder = trained(images, architecture=architecture)
    path = exported(encoder, "detectron2", tmp_path)
    settings = tmp_path / "settings.yaml"
    settings.write_text(usage(encoder.config, "detectron2", path))
    config = get_cfg()
    config.merge_from_file(str(settings))
    config.MODEL.RESNETS.NORM = norm
    config.MODEL.RESNETS.OUT_FEATURES = DETECTRON2_LEVELS
    network = build_backbone(config).eval()
    incompatible = DetectionCheckpointer(network)._load_model(DetectionCheckpointer(network)._load_file(str(path)))
    assert not incompatible.missing_keys
    assert not incompatible.unexpected_keys
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (config.MODEL.PIXEL_MEAN, config.MODEL.PIXEL_STD))
    with torch.no_grad():
        found = network((255 * images - mean) / std)
    for ours, name in zip(our_levels(encoder, images), DETECTRON2_LEVELS, strict=True):
        torch.testing.assert_close(found[name].double(), ours, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("architecture", "depth", "width"), [("resnet34", 34, 64), ("resnet50", 50, 256)])
def test_detectron2_s_settings_name_the_network_and_the_normalisation(architecture, depth, width):
    yaml = pytest.importorskip("yaml")
    config = replace(CONFIG, architecture=architecture)
    assert yaml.safe_load(usage(config, "detectron2", Path("encoder.pth"))) == {
        "INPUT": {"FORMAT": "RGB"},
        "MODEL": {
            "WEIGHTS": "encoder.pth",
            "PIXEL_MEAN": [127.5, 102.0, 76.5],  # of 255
            "PIXEL_STD": [51.0, 63.75, 76.5],
            "RESNETS": {"DEPTH": depth, "RES2_OUT_CHANNELS": width, "STRIDE_IN_1X1": False},
        },
    }


LAB = {"channels": "lab", "mean": (50.0, 3.0, -8.0), "std": (22.0, 11.0, 17.0)}


@pytest.mark.parametrize(
    ("changes", "library", "sentence"),
    [
        (LAB, "timm", r"sees lab channels \(method: cmc\), but a network of timm takes RGB.*another method"),
        ({"architecture": "convnet"}, "torchvision", r"small convnet.*no counterpart in torchvision.*resnet18"),
        ({"architecture": "alexnet"}, "torchvision", r"small alexnet.*no counterpart in torchvision.*resnet18"),
        ({"architecture": "alexnet"}, "detectron2", r"small alexnet.*no counterpart in detectron2"),
        ({"stem": "cifar"}, "detectron2", r"cifar stem.*which detectron2 cannot build; export to torchvision or timm"),
    ],
)
def test_what_another_library_cannot_build_is_refused(changes, library, sentence):
    encoder = build_encoder(replace(CONFIG, **changes), seed=0)
    with pytest.raises(InputError, match=sentence):
        backbone_state(encoder, library)


def test_the_command_writes_beside_the_encoder_and_prints_the_lines(images, tmp_path, capsys):
    encoder = trained(images)
    save_encoder(encoder, tmp_path / "encoder.safetensors")
    main([str(tmp_path / "encoder.safetensors"), "--to", "torchvision"])
    out = tmp_path / "encoder.torchvision.safetensors"
    printed = capsys.readouterr().out
    assert printed == f"# {out}\n{usage(CONFIG, 'torchvision', out)}\n"
    assert re.search(r"# images: RGB in \[0, 1\], minus \[0.5, 0.4, 0.3\], divided by \[0.2, 0.25, 0.3\]", printed)
    written, expected = load_file(out), encoder.backbone.state_dict()
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("library", "ending", "expected"), [("detectron2", ".pkl", ".pth"), ("timm", ".pth", ".safetensors")]
)
def test_a_file_name_that_the_library_would_read_otherwise_is_refused(library, ending, expected, images, tmp_path):
    save_encoder(trained(images), tmp_path / "encoder.safetensors")
    arguments = [str(tmp_path / "encoder.safetensors"), "--to", library, "--out", str(tmp_path / f"out{ending}")]
    with pytest.raises(SystemExit, match=rf"^ERROR: .*out\{ending} ends in '\{ending}'.*ends in \{expected}$"):
        main(arguments)


def test_an_encoder_that_is_missing_is_one_sentence(tmp_path):
    with pytest.raises(SystemExit, match=r"^ERROR: .*none\.safetensors"):
        main([str(tmp_path / "none.safetensors"), "--to", "timm"])
