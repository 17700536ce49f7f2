"""Trainings at the scale of the paper with ResNet-18, set up like the pretrain stage; their steps and epochs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median

import torch
from timing import ROOT, calls_per_turn, synchronize
from torch import Tensor

from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus.training.loop import Training
from annulus.training.setup import build_training
from annulus_lab.config.file import load_params
from annulus_lab.config.resolved import PRETRAIN, build_run

PARAMS = load_params(ROOT / "params.yaml")
BACKBONES = {"imagenet": "resnet18", "cifar": "resnet18-cifar"}
EPOCH_BATCHES = {"cuda": 180, "cpu": 30}
EPOCH_TURNS = 3


def random_images(images: int, size: int) -> ImageSet:
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, size, size), generator=random, dtype=torch.uint8)
    return ImageSet(Resident(pixels), torch.arange(images) % 10, torch.arange(images), tuple("0123456789"))


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
    """Training without annealing: each step draws from the sampler's own set. `changes`: fields by section of a run."""
    choices = {"method": method, "sampler": sampler, "bound": "infonce", "anneal": "none", "neighbours": "none"}
    chosen = PARAMS.model_copy(update=choices | {"dataset": "cifar10", "scale": "paper", "backbone": BACKBONES[stem]})
    run = build_run({key: chosen.get(key) for key in PRETRAIN}, 0)
    run = replace(run, **{field: replace(getattr(run, field), **change) for field, change in changes.items()})
    if view_size is not None:
        run = replace(run, view_size=view_size)
    return build_training(run, images, validation, device)


def whole_step(run: Training) -> Callable[[], None]:
    order = run.order()
    run.method.train()

    def step() -> None:
        if run.batch == run.batches:
            run.batch = 0
        run.step(order)

    return step


def epoch_sets(batch: int, size: int, device: torch.device) -> tuple[ImageSet, ImageSet, dict[str, int]]:
    """Training and validation images of a short epoch, and the fields for `scales.SCALE.pretrain`.

    Of CIFAR-10's 45,000 training images `scale: paper` embeds 1,250 for validation; the share here is the same.
    """
    images = EPOCH_BATCHES[device.type] * batch
    limit = max(1, images * 1_250 // 45_000)
    return random_images(images, size), random_images(images // 9, size), {"validation_images": limit}


def epochs_of_bare(
    runs: Mapping[str, Training], bare: Mapping[str, Callable[[], None]], device: torch.device
) -> dict[str, float]:
    """Per run: 100 times the seconds of bare steps over the seconds of one epoch with everything that the loop does.

    Bare steps run within the epoch, after an equal number of its own steps: changes of the machine's speed last
    longer than both.
    """

    def percent(run: Training, bare_step: Callable[[], None]) -> float:
        turn, step, bare_seconds = min(calls_per_turn(device), run.batches), run.step, 0.0

        def step_and_bare(order: Tensor) -> None:
            nonlocal bare_seconds
            step(order)
            if run.batch % turn == 0:
                synchronize()
                started = time.perf_counter()
                for _ in range(turn):
                    bare_step()
                synchronize()
                bare_seconds += time.perf_counter() - started

        run.epoch = run.settings.budget.epochs - 1  # the last one: `run` returns after it
        run.step = step_and_bare
        started = time.perf_counter()
        run.run()
        synchronize()
        seconds = time.perf_counter() - started - bare_seconds
        run.step = step
        return 100 * bare_seconds / seconds

    turns = [{name: percent(run, bare[name]) for name, run in runs.items()} for _ in range(1 + EPOCH_TURNS)]
    return {f"{name}_epoch_percent_of_bare": median(turn[name] for turn in turns[1:]) for name in runs}
