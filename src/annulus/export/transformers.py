"""An encoder's ResNet as a folder of transformers: `AutoModel.from_pretrained(FOLDER)`, image feature extraction.

The folder holds the backbone, its configuration, and the configuration of the images' processor, which resizes and
normalises. The model's `pooler_output` are the pooled features.
"""

import json
import re
from pathlib import Path
from typing import Any

from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.encoders.libraries import backbone_state
from annulus.errors import InputError
from annulus.files.packed import write_tensors
from annulus.files.results import write_text

DEPTHS = {
    "resnet18": [2, 2, 2, 2],
    "resnet34": [3, 4, 6, 3],
    "resnet50": [3, 4, 6, 3],
    "resnet101": [3, 4, 23, 3],
    "resnet152": [3, 8, 36, 3],
}
WIDTHS = [64, 128, 256, 512]
BILINEAR = 2  # Pillow's number


def write_transformers(encoder: Encoder | SplitEncoder, folder: Path, image_size: int | None = None) -> None:
    """Writes model.safetensors, config.json and preprocessor_config.json.

    `image_size`: side in pixels of the images whose centre the probes read; None: the views' side.

    Raises:
        InputError: if transformers has no network with these layers, or the disk is full.
    """
    config = encoder.config
    if config.split is None and config.architecture not in DEPTHS:
        known = ", ".join(DEPTHS)
        raise InputError(f"transformers cannot build {config.architecture} of annulus; export one of {known}")
    if config.stem == "cifar":
        raise InputError(
            "this encoder has the cifar stem, a 3 x 3 convolution without pooling, which transformers cannot build; "
            "export to torchvision or timm, or pretrain with the imagenet stem (backbone: resnet18)"
        )
    state = {transformers_name(name): tensor for name, tensor in backbone_state(encoder, "torchvision").items()}
    write_tensors(folder / "model.safetensors", state, {"format": "pt"})  # without it transformers refuses the file
    write_text(folder / "config.json", _json(network_config(config)))
    write_text(folder / "preprocessor_config.json", _json(processor_config(config, image_size or config.view_size)))


def transformers_name(name: str) -> str:
    """Name of a weight in transformers.

    layer1.0.bn2.weight becomes encoder.stages.0.layers.0.layer.1.normalization.weight.
    """
    name = re.sub(r"^conv1\.", "embedder.embedder.convolution.", name)
    name = re.sub(r"^bn1\.", "embedder.embedder.normalization.", name)
    name = re.sub(r"^layer(\d)\.(\d+)\.", lambda at: f"encoder.stages.{int(at[1]) - 1}.layers.{at[2]}.", name)
    name = name.replace("downsample.0", "shortcut.convolution").replace("downsample.1", "shortcut.normalization")
    name = re.sub(r"\.conv(\d)\.", lambda at: f".layer.{int(at[1]) - 1}.convolution.", name)
    return re.sub(r"\.bn(\d)\.", lambda at: f".layer.{int(at[1]) - 1}.normalization.", name)


def network_config(config: EncoderConfig) -> dict[str, Any]:
    """The content of config.json."""
    basic = config.architecture in ("resnet18", "resnet34")
    return {
        "architectures": ["ResNetModel"],
        "model_type": "resnet",
        "num_channels": 3,
        "embedding_size": 64,
        "hidden_sizes": WIDTHS if basic else [4 * width for width in WIDTHS],
        "depths": DEPTHS[config.architecture],
        "layer_type": "basic" if basic else "bottleneck",
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,  # the 3 x 3 convolution has the stride, as in torchvision
        "dtype": "float32",
    }


def processor_config(config: EncoderConfig, image_size: int) -> dict[str, Any]:
    """The content of preprocessor_config.json: the evaluation view of a whole image, normalised.

    The short side is resized to `image_size` pixels, as `prepare` does, and the middle is as large as a view.
    """
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": image_size},
        "resample": BILINEAR,
        "do_center_crop": True,
        "crop_size": {"height": config.view_size, "width": config.view_size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(config.mean),
        "image_std": list(config.std),
    }


def usage(folder: Path) -> str:
    """Code that loads the folder."""
    return (
        "from transformers import AutoImageProcessor, AutoModel\n"
        f'network, processor = AutoModel.from_pretrained("{folder}"), AutoImageProcessor.from_pretrained("{folder}")\n'
        'features = network(**processor(images, return_tensors="pt")).pooler_output.flatten(1)'
    )


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
