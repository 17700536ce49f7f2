"""An encoder's backbone as a file for torchvision, timm or detectron2.

The file holds the backbone under the other library's names, without the head, which only pretraining needs. The
encoder normalises its images, the other library's network does not: `usage` returns the lines that load the file, with
this normalisation.
"""

import re
from pathlib import Path

from torch import Tensor

from annulus.encoders.encoder import Encoder, EncoderConfig, SplitEncoder
from annulus.errors import InputError
from annulus.files.packed import write_tensors, write_torch

ENDINGS = {"torchvision": ".safetensors", "timm": ".safetensors", "detectron2": ".pth"}
CIFAR_STEM = "network.conv1, network.maxpool = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False), torch.nn.Identity()"
TIMM_NAMES = (
    (r"^class_token", "cls_token"),
    (r"^conv_proj", "patch_embed.proj"),
    (r"^encoder\.pos_embedding", "pos_embed"),
    (r"^encoder\.ln", "norm"),
    (r"^encoder\.layers\.encoder_layer_", "blocks."),
    (r"\.ln_", ".norm"),
    (r"\.self_attention\.in_proj_", ".attn.qkv."),
    (r"\.self_attention\.out_proj", ".attn.proj"),
    (r"\.mlp\.0", ".mlp.fc1"),
    (r"\.mlp\.3", ".mlp.fc2"),
)


def backbone_state(encoder: Encoder | SplitEncoder, library: str) -> dict[str, Tensor]:
    """The backbone's weights and statistics under the names that `library` gives them, on the CPU.

    timm's ResNets have torchvision's names. detectron2's have no `num_batches_tracked`: its frozen batch
    normalisation keeps no count, and its plain one starts the count at 0.

    Raises:
        InputError: if the library has no network with these layers.
    """
    config = encoder.config
    _check(config, library)
    backbone = {name: tensor.contiguous().cpu() for name, tensor in encoder.backbone.state_dict().items()}
    if library == "timm" and config.patch:
        return {_timm_name(name): tensor for name, tensor in backbone.items()}
    if library == "detectron2":
        return {_detectron2_name(name): tensor for name, tensor in backbone.items() if "num_batches" not in name}
    return backbone


def export(encoder: Encoder | SplitEncoder, library: str, path: Path) -> None:
    """Writes `backbone_state` as `library` loads it: safetensors, or for detectron2 a .pth without pickled code.

    Raises:
        InputError: if the library has no such network or does not read files of this ending, or the disk is full.
    """
    state = backbone_state(encoder, library)
    if path.suffix != ENDINGS[library]:
        raise InputError(f"{path} ends in {path.suffix!r}; for {library} name a file that ends in {ENDINGS[library]}")
    if library == "detectron2":  # its heuristics add the prefix of a detector's backbone to the names
        write_torch(path, {"model": state, "__author__": "annulus", "matching_heuristics": True})
    else:
        write_tensors(path, state)


def usage(config: EncoderConfig, library: str, path: Path) -> str:
    """The lines that load an exported file: Python, or for detectron2 its settings in YAML."""
    mean, std = ([round(value, 6) for value in values] for values in (config.mean, config.std))
    normalisation = f"# images: RGB in [0, 1], minus {mean}, divided by {std}"
    stem = [CIFAR_STEM] if config.stem == "cifar" else []
    match library:
        case "torchvision":
            head = "heads" if config.patch else "fc"
            build = f"network = torchvision.models.{_torchvision_call(config)}"
            load = f'network.load_state_dict(safetensors.torch.load_file("{path}"))'
            imports = "import safetensors.torch, torch, torchvision"
            lines = [imports, build, f"network.{head} = torch.nn.Identity()", *stem, load, normalisation]
        case "timm":
            build = f"network = timm.create_model({_timm_arguments(config)}, num_classes=0)"
            load = f'timm.models.load_checkpoint(network, "{path}")'
            lines = ["import timm, torch", build, *stem, load, normalisation]
        case "detectron2":
            mean, std = ([round(255 * value, 3) for value in values] for values in (config.mean, config.std))
            sizes = ", ".join(f"{name}: {size}" for name, size in detectron2_sizes(config.architecture).items())
            lines = [
                "INPUT: {FORMAT: RGB}",
                "MODEL:",
                f'  WEIGHTS: "{path}"',
                f"  PIXEL_MEAN: {mean}",
                f"  PIXEL_STD: {std}",
                f"  RESNETS: {{{sizes}, STRIDE_IN_1X1: false}}",
            ]
        case _:
            raise AssertionError(library)
    return "\n".join(lines)


def _torchvision_call(config: EncoderConfig) -> str:
    match config.architecture:
        case "vit_small":
            from annulus.encoders.transformer import SIZES

            sizes = ", ".join(f"{name}={size}" for name, size in SIZES.items())
            return f"VisionTransformer(image_size={config.view_size}, patch_size={config.patch}, {sizes})"
        case "resnext152_32x8d":
            block = "torchvision.models.resnet.Bottleneck"
            return f"ResNet({block}, [3, 8, 36, 3], groups=32, width_per_group=8)"
        case name:
            return f"{name}()"


def _timm_arguments(config: EncoderConfig) -> str:
    match config.architecture:
        case "vit_small":
            return f'"vit_small_patch16_224", img_size={config.view_size}, patch_size={config.patch}'
        case "resnext152_32x8d":  # timm has no builder of this name
            return '"resnext101_32x8d", layers=[3, 8, 36, 3]'
        case name:
            return f'"{name}"'


def detectron2_sizes(architecture: str) -> dict[str, int]:
    """Settings of the ResNet in detectron2. Its defaults are a stem of 64 channels and blocks with one group of 64."""
    depth = int(re.findall(r"\d+", architecture)[0])
    sizes = {"DEPTH": depth, "RES2_OUT_CHANNELS": 64 if depth < 50 else 256}
    if architecture.endswith("32x8d"):
        sizes |= {"NUM_GROUPS": 32, "WIDTH_PER_GROUP": 8}
    if _wide(architecture):
        times = int(architecture[-1])
        sizes |= {"RES2_OUT_CHANNELS": 256 * times, "STEM_OUT_CHANNELS": 64 * times, "WIDTH_PER_GROUP": 64 * times}
    return sizes


def _wide(architecture: str) -> bool:
    return architecture.endswith(("_x2", "_x4"))


def _check(config: EncoderConfig, library: str) -> None:
    architecture = config.architecture
    if config.split is not None:
        raise InputError(
            f"this encoder is two networks, each of a part of the image ({config.split}), but a network of {library} "
            "takes RGB images; export an encoder trained with split: none"
        )
    if architecture in ("alexnet", "convnet"):
        raise InputError(
            f"the small {architecture} of annulus has no counterpart in {library}; "
            "export an encoder with another backbone: a ResNet, say, such as resnet18"
        )
    if library == "detectron2":
        if config.stem == "cifar":
            raise InputError(
                "this encoder has the cifar stem, a 3 x 3 convolution without pooling, which detectron2 cannot build; "
                "export to torchvision or timm, or pretrain with the imagenet stem (backbone: resnet18)"
            )
        if config.patch:
            raise InputError(
                f"detectron2 has no vision transformer with the layers of {architecture}; export to torchvision or timm"
            )
    elif _wide(architecture):
        raise InputError(
            f"{library} cannot build {architecture}, whose every layer is {architecture[-1]} times as wide; export an "
            "encoder with the imagenet stem to detectron2, or one with another backbone"
        )


def _timm_name(name: str) -> str:
    """Name of a weight in timm: encoder.layers.encoder_layer_3.mlp.0.weight is blocks.3.mlp.fc1.weight."""
    for ours, theirs in TIMM_NAMES:
        name = re.sub(ours, theirs, name)
    return name


def _detectron2_name(name: str) -> str:
    """Name of a weight in detectron2: layer1.0.bn2.weight is res2.0.conv2.norm.weight.

    Weights before layer1 are in `stem`.
    """
    name = re.sub(r"^layer(\d)", lambda match: f"res{int(match[1]) + 1}", name)
    name = name.replace("downsample.0", "shortcut").replace("downsample.1", "shortcut.norm")
    name = re.sub(r"\bbn(\d)", r"conv\1.norm", name)
    return name if name.startswith("res") else f"stem.{name}"
