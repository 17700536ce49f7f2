"""Trainings for the check of a GPU: IR with a ring, and MoCo, on random images, with the papers' sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from annulus.bounds.infonce import InfoNCE
from annulus.encoders.config import Architecture, Backbone, Stem
from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus.methods.ir import IRSettings
from annulus.methods.moco import MoCoSettings
from annulus.negatives.annealing import ConstantAnnealing
from annulus.negatives.neighbours import NoNeighbours
from annulus.negatives.samplers import Ring, Uniform
from annulus.optim.schedules import CosineSchedule
from annulus.optim.sgd import SGDSettings
from annulus.training.budget import Budget
from annulus.training.loop import Training
from annulus.training.run import TrainingRun
from annulus.training.setup import build_training
from annulus.views.sets import view_set

METHODS = ("ir", "moco")


@dataclass(frozen=True)
class Sizes:
    """Sizes of the check; the tests take smaller ones."""

    selections: tuple[tuple[int, int], ...] = ((256, 50_000), (64, 65_536), (256, 1_281_167))
    dim: int = 128
    draws: int = 4096
    calls: int = 30
    images: int = 50_000
    side: int = 32
    batch: int = 256
    queue: int = 65_536
    steps: int = 50
    architecture: Architecture = "resnet18"
    photos: int = 4096
    photo_side: int = 256
    photo_view: int = 224


def start(method: str, stem: Stem, sizes: Sizes, device: torch.device, images: int | None = None) -> Training:
    """Builds a training before its first step: IR with a ring of the bank's rows, or MoCo with its whole queue."""
    ir = method == "ir"
    shared = {"temperature": 0.07, "embedding_dim": sizes.dim, "head": "linear", "warmup": 0.0}
    run = TrainingRun(
        seed=0,
        view_size=sizes.side,
        method=IRSettings(**shared, negatives="sampled", bank_rate=0.5, bank_start="random", critic="dot")
        if ir
        else MoCoSettings(**shared, negatives="all", momentum=0.999, shuffle_groups=4),
        split=None,
        bound=InfoNCE(),
        sampler=Ring(inner=0.01, outer=0.1) if ir else Uniform(),
        annealing=ConstantAnnealing(),
        neighbours=NoNeighbours(),
        views=view_set("standard"),
        backbone=Backbone(architecture=sizes.architecture, stem=stem),
        optimizer=SGDSettings(momentum=0.9, weight_decay=1e-4),
        schedule=CosineSchedule(),
        budget=Budget(
            epochs=100,
            batch_size=sizes.batch,
            negatives=sizes.draws,
            queue=sizes.queue,
            learning_rate=0.03,
            validation_images=None,
        ),
    )
    train = random_images(images or sizes.images, sizes.side)
    training = build_training(run, train, train.take(torch.arange(0)), device)
    training.method.start(training._embed)
    training.method.train()
    return training


def stepping(training: Training) -> Callable[[], None]:
    """Returns a function that runs the next step; after the last step of an epoch it starts again with the first."""
    order = training.order()

    def step() -> None:
        training.batch %= training.batches
        training.step(order)

    return step


@cache
def random_images(count: int, side: int) -> ImageSet:
    """Images of uniform noise, with ten classes."""
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 3, side, side), generator=random, dtype=torch.uint8)
    return ImageSet(Resident(pixels), torch.arange(count) % 10, torch.arange(count), tuple("0123456789"))
