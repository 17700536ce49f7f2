"""Exported backbones: the other library loads them strictly, by the lines that the command prints, and agrees."""

from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torchvision
import yaml

from annulus.encoders.encoder import EncoderConfig, build_encoder, save_encoder
from annulus.errors import InputError
from annulus.export import backbone_state, export, main, usage

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
CONFIG = EncoderConfig("resnet18", "imagenet", "linear", 8, view_size=16, channels="rgb", mean=MEAN, std=STD)


def trained(**changes):
    """An encoder whose batch normalisations have weights, biases and statistics of their own, all different."""
    encoder = build_encoder(replace(CONFIG, **changes), seed=0)
    random = torch.Generator().manual_seed(1)
    for name, tensor in encoder.backbone.state_dict().items():
        if tensor.dim() == 1:
            tensor.uniform_(*((-0.5, 0.5) if name.endswith("bias") else (0.5, 1.5)), generator=random)
    return encoder.eval()


@pytest.mark.parametrize("library", ["torchvision", "timm"])
@pytest.mark.parametrize(
    ("architecture", "stem"), [("resnet18", "cifar"), ("resnet34", "imagenet"), ("resnet50", "imagenet")]
)
def test_the_printed_lines_load_it_and_give_the_same_features(library, architecture, stem, generator, tmp_path):
    scope = {"torch": torch, "torchvision": torchvision, "safetensors": safetensors}
    if library == "timm":
        scope["timm"] = pytest.importorskip("timm", reason="timm is not installed; it comes with `make install`")
    encoder, path = trained(architecture=architecture, stem=stem), tmp_path / "exported.safetensors"
    export(encoder, library, path)
    exec(usage(encoder.config, library, path), scope)
    images = torch.rand(2, 3, 16, 16, generator=generator)
    normalised = ((images - encoder.mean) / encoder.std).double()  # where only a wrong layer makes a difference
    with torch.no_grad():
        expected = encoder.backbone.double()(normalised).mean(dim=(2, 3))
        torch.testing.assert_close(scope["network"].double().eval()(normalised), expected, atol=1e-9, rtol=1e-9)


def detectron2_s_names(backbone):
    """Each tensor by its name in detectron2/modeling/backbone/resnet.py, walking over the blocks."""
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
            "PIXEL_MEAN": [127.5, 102.0, 76.5],  # of 255
            "PIXEL_STD": [51.0, 63.75, 76.5],
            "RESNETS": {"DEPTH": depth, "RES2_OUT_CHANNELS": width, "STRIDE_IN_1X1": False},
        },
    }


LAB = {"architecture": "alexnet", "channels": "lab", "mean": (50.0, 3.0, -8.0), "std": (22.0, 11.0, 17.0)}


@pytest.mark.parametrize(
    ("changes", "library", "sentence"),
    [
        (LAB, "timm", r"sees lab channels \(method: cmc\), but a network of timm takes RGB.*another method"),
        ({"architecture": "convnet"}, "torchvision", r"small convnet.*no counterpart in torchvision.*resnet18"),
        ({"architecture": "alexnet"}, "torchvision", r"small alexnet.*no counterpart in torchvision.*resnet18"),
        ({"stem": "cifar"}, "detectron2", r"cifar stem.*which detectron2 cannot build; export to torchvision or timm"),
    ],
)
def test_what_another_library_cannot_build_is_refused(changes, library, sentence):
    encoder = build_encoder(replace(CONFIG, **changes), seed=0)
    with pytest.raises(InputError, match=sentence):
        backbone_state(encoder, library)


def test_the_command_writes_beside_the_encoder_and_prints_the_lines(tmp_path, capsys):
    save_encoder(trained(), tmp_path / "encoder.safetensors")
    main([str(tmp_path / "encoder.safetensors"), "--to", "torchvision"])
    out = tmp_path / "encoder.torchvision.safetensors"
    printed = capsys.readouterr().out
    assert printed == f"# {out}\n{usage(CONFIG, 'torchvision', out)}\n"
    assert "# images: RGB in [0, 1], minus [0.5, 0.4, 0.3], divided by [0.2, 0.25, 0.3]" in printed
    assert out.exists()


def test_a_user_s_mistake_is_one_sentence(tmp_path):
    save_encoder(trained(), tmp_path / "encoder.safetensors")
    for name, library, ending, sentence in (
        ("encoder", "detectron2", ".pkl", r"out\.pkl ends in '\.pkl'; for detectron2 name a file that ends in \.pth$"),
        ("encoder", "timm", ".pth", r"out\.pth ends in '\.pth'; for timm name a file that ends in \.safetensors$"),
        ("none", "timm", ".safetensors", r"none\.safetensors"),
    ):
        arguments = [f"{tmp_path}/{name}.safetensors", "--to", library, "--out", f"{tmp_path}/out{ending}"]
        with pytest.raises(SystemExit, match=rf"^ERROR: .*{sentence}"):
            main(arguments)


@pytest.mark.parametrize("norm", ["FrozenBN", "BN"])
@pytest.mark.parametrize("architecture", ["resnet18", "resnet34", "resnet50"])
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
        found, expected = network((255 * images - mean) / std)["res5"], encoder.map(images)
    torch.testing.assert_close(found, expected, atol=1e-4 * expected.max().item(), rtol=0)
