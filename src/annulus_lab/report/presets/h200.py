"""Time of a pretraining on an NVIDIA H200, estimated from its timed steps in metrics/benchmarks/h200_graphs.csv.

The file has steps of 256 images of 32 pixels with ResNet-18 and the stem for small images, without CUDA graphs. Host
and GPU work at the same time, so a step takes the longer of

    the host's time of the timed step
    the GPU's time of the timed step * multiply-adds of the network / multiply-adds of the timed network

A second network, and further views that pass through a network with a gradient, take both times once more. The estimate
is a lower bound: larger networks on larger images reach fewer multiply-adds a second than the timed network.
"""

import csv
import io
from functools import cache
from pathlib import Path
from typing import NamedTuple

from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus_lab.config.all_params import AllParams

STEPS = "metrics/benchmarks/h200_graphs.csv"
BATCH = 256  # images of a timed step
TIMED = ("resnet18", "cifar", 32)
# Timed method, and the number of views with a gradient as a multiple of the timed method's.
METHODS = {
    "ir": ("IR with a ring", 1),
    "pirl": ("IR with a ring", 2),
    "simclr": ("IR with a ring", 2),
    "moco": ("MoCo", 1),
    "simo": ("MoCo", 1),
    "moco-jigsaw": ("MoCo", 2),
}
# Training images: with a class (a share is for validation), and without.
IMAGES = {"cifar10": (50_000, 0), "cifar100": (50_000, 0), "stl10": (5_000, 100_000), "imagenet": (1_281_167, 0)}


class PretrainingTime(NamedTuple):
    """Seconds of one training, and their formula."""

    seconds: float
    formula: str


def estimate(root: Path, params: AllParams) -> PretrainingTime | None:
    """Returns the time of one training; None without the file of steps, or for another data set.

    Raises:
        InputError: when the file is damaged.
    """
    path = root / STEPS
    if params.dataset not in IMAGES or not path.exists():
        return None
    method, views = METHODS[params.method]
    host, device = _step(path, method)
    dataset, backbone = params.get("datasets.${dataset}"), params.get("backbones.${backbone}")
    labelled, others = IMAGES[params.dataset]
    images = labelled - round(labelled * dataset.validation_fraction) + others
    epochs = params.get("scales.${scale}.pretrain").epochs
    passes = views * (1 if params.split == "none" else 2)
    own = multiply_adds(backbone.architecture, backbone.stem, dataset.view_size)
    step = passes * max(host, device * own / multiply_adds(*TIMED))
    formula = (
        f"{epochs} epochs * {images} images / {BATCH} * {passes} * max({host:g} ms of the host, {device:g} ms of the "
        f"GPU * {own / 1e9:.3g} / {multiply_adds(*TIMED) / 1e9:.3g} GMAC) of {STEPS}"
    )
    return PretrainingTime(epochs * images / BATCH * step / 1000, formula)


def _step(path: Path, method: str) -> tuple[float, float]:
    """Returns the milliseconds of the host and of the GPU for a timed step."""
    for row in csv.DictReader(io.StringIO(read_text(path))):
        if (row.get("what"), row.get("graphs")) == (method, "none"):
            try:
                return float(row["host ms a step"]), float(row["GPU's ms a step"])
            except (KeyError, TypeError, ValueError):
                break
    raise InputError(f"{path} has no times of {method} without graphs; take the file from git: git checkout {path}")


@cache
def multiply_adds(architecture: str, stem: str, pixels: int) -> float:
    """Counts the multiply-adds of one image in the convolutions and linear layers of a network without its head."""
    import torch
    from torch import Tensor, nn

    from annulus.encoders.encoder import EncoderConfig, build_encoder

    counts: list[int] = []

    def count(layer: nn.Module, _: object, output: Tensor) -> None:
        counts.append(output.numel() * layer.weight[0].numel())

    means, stds = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    with torch.device("meta"), torch.no_grad():
        config = EncoderConfig(architecture, stem, "linear", 128, pixels, None, means, stds)  # type: ignore[arg-type]
        network = build_encoder(config, 0).to("meta").eval()
        for layer in network.backbone.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.register_forward_hook(count)
        network.backbone(torch.empty(1, 3, pixels, pixels, device="meta"))
    return sum(counts)
