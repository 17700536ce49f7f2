"""Exported backbones: the other library loads them strictly with the printed lines and computes the same features."""

from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torchvision
import yaml
from safetensors import SafetensorError
from test_detection_levels import CONFIG, trained

from annulus.encoders.encoder import Encoder, build_encoder
from annulus.encoders.libraries import backbone_state, export, usage
from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.export.command import main
from annulus.files import packed
from annulus.views.splits import ColourSplit


def packages(library):
    """Imports that the printed lines need."""
    scope = {"torch": torch, "torchvision": torchvision, "safetensors": safetensors}
    if library == "timm":
        scope["timm"] = pytest.importorskip("timm", reason="timm is not installed; it comes with `make install`")
    return scope


@pytest.mark.parametrize("library", ["torchvision", "timm"])
@pytest.mark.parametrize(
    ("architecture", "stem"),
    [
        ("resnet18", "cifar"),
        pytest.param("resnet34", "imagenet", marks=pytest.mark.slow),
        pytest.param("resnet50", "imagenet", marks=pytest.mark.slow),
        pytest.param("vit_small", "patch16", marks=pytest.mark.slow),
        pytest.param("vit_small", "patch8", marks=pytest.mark.slow),
    ],
)
def test_the_printed_lines_load_it_and_give_the_same_features(library, architecture, stem, generator, tmp_path):
    scope = packages(library)
    encoder, path = trained(architecture=architecture, stem=stem), tmp_path / "exported.safetensors"
    export(encoder, library, path)
    exec(usage(encoder.config, library, path), scope)
    encoder.double()  # in float64 only a wrong layer makes a difference
    images = torch.rand(2, 3, 16, 16, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        actual = scope["network"].double().eval()((images - encoder.mean) / encoder.std)
        torch.testing.assert_close(actual, encoder.pooled(images), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
@pytest.mark.parametrize(
    ("architecture", "stem"),
    [
        ("resnet101", "imagenet"),
        ("resnet152", "cifar"),
        ("resnext101_32x8d", "cifar"),
        ("resnext152_32x8d", "imagenet"),
        ("vit_small", "patch16"),
    ],
)
def test_the_printed_lines_build_a_network_that_takes_all_tensors_of_larger_encoders(library, architecture, stem):
    """Compares names and shapes, which include a convolution's groups; networks have up to 120 million weights."""
    scope, config = packages(library), replace(CONFIG, architecture=architecture, stem=stem, view_size=224)
    with torch.device("meta"):
        encoder = Encoder(config)
        exec("\n".join(line for line in usage(config, library, Path("x")).splitlines() if "load" not in line), scope)
    scope["network"].load_state_dict(backbone_state(encoder.to_empty(device="cpu"), library), strict=True, assign=True)


def detectron2_s_names(backbone):
    """Tensors by their names in detectron2/modeling/backbone/resnet.py, block by block."""
    layers = {"stem.conv1": (backbone.conv1, backbone.bn1)}
    for level in range(1, 5):
        for number, block in enumerate(getattr(backbone, f"layer{level}")):
            place = f"res{level + 1}.{number}"
            for conv in range(1, 4 if hasattr(block, "conv3") else 3):
                layers[f"{place}.conv{conv}"] = getattr(block, f"conv{conv}"), getattr(block, f"bn{conv}")
            if block.downsample is not None:
                layers[f"{place}.shortcut"] = tuple(block.downsample)
    named = {f"{name}.weight": convolution.weight for name, (convolution, _) in layers.items()}
    for name, (_, norm) in layers.items():
        named |= {
            f"{name}.norm.{part}": getattr(norm, part) for part in ("weight", "bias", "running_mean", "running_var")
        }
    return named


@pytest.mark.parametrize(
    ("architecture", "sizes"),
    [
        ("resnet101", {"DEPTH": 101, "RES2_OUT_CHANNELS": 256}),
        ("resnet50_x2", {"DEPTH": 50, "RES2_OUT_CHANNELS": 512, "STEM_OUT_CHANNELS": 128, "WIDTH_PER_GROUP": 128}),
        ("resnet50_x4", {"DEPTH": 50, "RES2_OUT_CHANNELS": 1024, "STEM_OUT_CHANNELS": 256, "WIDTH_PER_GROUP": 256}),
        ("resnext101_32x8d", {"DEPTH": 101, "RES2_OUT_CHANNELS": 256, "NUM_GROUPS": 32, "WIDTH_PER_GROUP": 8}),
        ("resnext152_32x8d", {"DEPTH": 152, "RES2_OUT_CHANNELS": 256, "NUM_GROUPS": 32, "WIDTH_PER_GROUP": 8}),
    ],
)
def test_detectron2_s_settings_have_the_sizes_of_the_network(architecture, sizes):
    """detectron2's build_resnet_backbone makes the inside of a block NUM_GROUPS x WIDTH_PER_GROUP wide."""
    config = replace(CONFIG, architecture=architecture)
    settings = yaml.safe_load(usage(config, "detectron2", Path("encoder.pth")))["MODEL"]["RESNETS"]
    assert settings == sizes | {"STRIDE_IN_1X1": False}
    with torch.device("meta"):
        backbone = Encoder(config).backbone
    groups, width = settings.get("NUM_GROUPS", 1), settings.get("WIDTH_PER_GROUP", 64)
    block = backbone.layer1[0]
    assert backbone.conv1.out_channels == settings.get("STEM_OUT_CHANNELS", 64)
    assert block.conv3.out_channels == settings["RES2_OUT_CHANNELS"]
    assert (block.conv2.groups, block.conv2.out_channels) == (groups, groups * width)


@pytest.mark.parametrize(("architecture", "depth", "width"), [("resnet34", 34, 64), ("resnet50", 50, 256)])
def test_detectron2_s_file_has_its_names_and_the_settings_its_network(architecture, depth, width, tmp_path):
    encoder, path = trained(architecture=architecture), tmp_path / "encoder.pth"
    export(encoder, "detectron2", path)
    stored = torch.load(path, weights_only=True)
    assert stored.keys() == {"model", "__author__", "matching_heuristics"}
    expected = detectron2_s_names(encoder.backbone)
    assert stored["model"].keys() == expected.keys()
    assert all(torch.equal(stored["model"][name], expected[name]) for name in expected)
    assert yaml.safe_load(usage(encoder.config, "detectron2", Path("encoder.pth"))) == {
        "INPUT": {"FORMAT": "RGB"},
        "MODEL": {
            "WEIGHTS": "encoder.pth",
            "PIXEL_MEAN": [127.5, 102.0, 76.5],  # levels from 0 to 255
            "PIXEL_STD": [51.0, 63.75, 76.5],
            "RESNETS": {"DEPTH": depth, "RES2_OUT_CHANNELS": width, "STRIDE_IN_1X1": False},
        },
    }


VIT = {"architecture": "vit_small", "stem": "patch8"}
WIDE = {"architecture": "resnet50_x2"}
LAB = {"architecture": "alexnet", "split": ColourSplit("lab"), "mean": (50.0, 3.0, -8.0), "std": (22.0, 11.0, 17.0)}


@pytest.mark.parametrize(
    ("changes", "library", "sentence"),
    [
        (
            LAB,
            "timm",
            r"two networks, each of a part of the image \(.*lab.*\), but .* timm takes RGB.*with split: none",
        ),
        ({"architecture": "convnet"}, "torchvision", r"small convnet.*no counterpart in torchvision.*resnet18"),
        ({"architecture": "alexnet"}, "torchvision", r"small alexnet.*no counterpart in torchvision.*resnet18"),
        ({"stem": "cifar"}, "detectron2", r"cifar stem.*which detectron2 cannot build; export to torchvision or timm"),
        (
            VIT,
            "detectron2",
            r"detectron2 has no vision transformer with the layers of vit_small; export to torchv",
        ),
        (WIDE, "timm", r"timm cannot build resnet50_x2, whose every layer is 2 times as wide; .* to detectron2, or"),
    ],
)
def test_what_another_library_cannot_build_is_refused(changes, library, sentence):
    with torch.device("meta"):  # the configuration decides
        encoder = build_encoder(replace(CONFIG, **changes), seed=0)
    with pytest.raises(InputError, match=sentence):
        backbone_state(encoder, library)


@pytest.mark.parametrize(("library", "ending"), [("torchvision", "safetensors"), ("detectron2", "pth")])
def test_a_full_disk_is_a_sentence(library, ending, tmp_path, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("No space left on device")

    def words_of_torch(*_):
        try:
            raise OSError("No space left on device")
        except OSError:
            raise RuntimeError("unexpected pos 64 vs 0")  # noqa: B904

    monkeypatch.setattr(packed, "save_file", full)
    monkeypatch.setattr(torch, "save", words_of_torch)
    with pytest.raises(InputError, match=rf"cannot write .*one\.{ending}: No space"):
        export(trained(), library, tmp_path / f"one.{ending}")


def test_the_command_writes_beside_the_encoder_and_prints_the_lines(tmp_path, capsys):
    save_encoder(trained(), tmp_path / "encoder.safetensors")
    main([str(tmp_path / "encoder.safetensors"), "--to", "torchvision"])
    out = tmp_path / "encoder.torchvision.safetensors"
    printed = capsys.readouterr().out
    assert printed == f"# {out}\n{usage(CONFIG, 'torchvision', out)}\n"
    assert "# images: RGB in [0, 1], minus [0.5, 0.4, 0.3], divided by [0.2, 0.25, 0.3]" in printed
    assert out.exists()


def test_of_a_folder_the_whole_name_is_kept_and_the_working_directory_has_one(tmp_path, monkeypatch):
    save_encoder(trained(), tmp_path / "encoder.safetensors")
    main([str(tmp_path / "encoder.safetensors"), "--to", "hub", str(tmp_path / "enc.v1")])
    main([str(tmp_path / "enc.v1"), "--to", "torchvision"])
    written = tmp_path / "enc.v1.torchvision.safetensors"
    assert written.exists()
    written.unlink()
    monkeypatch.chdir(tmp_path / "enc.v1")
    main([".", "--to", "torchvision"])
    assert written.exists()


def test_a_user_s_mistake_is_one_sentence(tmp_path):
    save_encoder(trained(), tmp_path / "encoder.safetensors")
    for name, library, ending, sentence in (
        ("encoder", "detectron2", ".pkl", r"out\.pkl ends in '\.pkl'; for detectron2 name a file that ends in \.pth$"),
        ("encoder", "timm", ".pth", r"out\.pth ends in '\.pth'; for timm name a file that ends in \.safetensors$"),
        ("none", "timm", ".safetensors", r"none\.safetensors"),
    ):
        arguments = [f"{tmp_path}/{name}.safetensors", "--to", library, f"{tmp_path}/out{ending}"]
        with pytest.raises(InputError, match=sentence):
            main(arguments)


@pytest.mark.parametrize("norm", ["FrozenBN", "BN"])
@pytest.mark.parametrize(
    "architecture", ["resnet18", "resnet34", "resnet50", "resnet101", "resnet50_x2", "resnext101_32x8d"]
)
def test_detectron2_loads_it_by_the_printed_settings(architecture, norm, generator, tmp_path):
    pytest.importorskip("detectron2", reason="detectron2 is not installed: it is on no package index")
    from detectron2.checkpoint import DetectionCheckpointer
    from detectron2.config import get_cfg
    from detectron2.modeling import build_backbone

    encoder, path, settings = trained(architecture=architecture), tmp_path / "encoder.pth", tmp_path / "settings.yaml"
    export(encoder, "detectron2", path)
    settings.write_text(usage(encoder.config, "detectron2", path))
    config = get_cfg()
    config.merge_from_file(str(settings))
    config.MODEL.RESNETS.NORM, config.MODEL.RESNETS.OUT_FEATURES = norm, ["res5"]
    network = build_backbone(config).eval()
    DetectionCheckpointer(network).load(config.MODEL.WEIGHTS)
    stored, loaded = backbone_state(encoder, "detectron2"), network.state_dict()
    assert stored.keys() == {name for name in loaded if "num_batches" not in name}
    assert all(torch.equal(loaded[name], tensor.to(loaded[name].dtype)) for name, tensor in stored.items())
    images = torch.rand(2, 3, 16, 16, generator=generator)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (config.MODEL.PIXEL_MEAN, config.MODEL.PIXEL_STD))
    with torch.no_grad():
        actual, expected = network((255 * images - mean) / std)["res5"], encoder.map(images)
    torch.testing.assert_close(actual, expected, atol=1e-4 * expected.max().item(), rtol=0)
