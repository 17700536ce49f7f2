"""Trainings as the pretrain stage sets them up, with ResNet-18 and at the scale of the paper, and their whole steps."""

from collections.abc import Callable, Mapping

import torch
from timing import ROOT

from annulus.config.file import load_params
from annulus.config.resolved import PRETRAIN
from annulus.files.images import ImageSet
from annulus.training.loop import Training
from annulus.training.setup import build_training

PARAMS = load_params(ROOT / "params.yaml")
BACKBONES = {"imagenet": "resnet18", "cifar": "resnet18-cifar"}


def training(
    method: str,
    sampler: str,
    stem: str,
    changes: Mapping[str, Mapping[str, object]],
    images: ImageSet,
    validation: ImageSet,
    device: torch.device,
    view_size: int | None = None,
) -> Training:
    """Without annealing: every step draws from the sampler's own set. `changes` are to what the stage reads."""
    choices = {"method": method, "sampler": sampler, "bound": "infonce", "anneal": "none", "neighbours": "none"}
    chosen = PARAMS.model_copy(update=choices | {"dataset": "cifar10", "scale": "paper", "backbone": BACKBONES[stem]})
    read = {"seed": 0} | {key: chosen.get(key) for key in PRETRAIN}
    for key, change in changes.items():
        read[key] = read[key].model_copy(update=change)
    if view_size is not None:
        read["datasets.${dataset}.view_size"] = view_size
    return build_training(read, images, validation, device)


def whole_step(run: Training) -> Callable[[], None]:
    order = run._order()
    run.method.train()

    def step() -> None:
        if run.batch == run.batches:
            run.batch = 0
        run.step(order)

    return step
