"""stable-pretraining's own MoCo and SimCLR at 32 pixels, timed in a process of their own.

    stable_pretraining_recipe.py METHOD STEM BATCH IMAGES

The recipe follows its scripts (0.1.8): SimCLR and the augmentations of both from benchmarks/cifar10, MoCo v2 from
benchmarks/imagenet10, each a Module that Lightning's Trainer fits, with the callbacks that the library adds to every
Trainer. Changed to the work of lightly_recipe.py: two-layer heads, 4,096 keys, plain SGD at a constant rate, no online
probes. Callbacks that only print or inspect the machine are off. peer_recipe.py describes requests and answers.
"""

import itertools
import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import lightning
import stable_pretraining as spt
import torch
from peer_recipe import DEVICE, LEARNING_RATE, QUEUE, SIZE, Pictures, answer, loader, synchronize
from stable_pretraining.data import transforms
from stable_pretraining.forward import simclr as simclr_forward
from stable_pretraining.methods.mocov2 import MoCov2
from torch import Tensor, nn

QUIET = ("progress_bar", "env_dump", "module_summary")
OPTIM = {"optimizer": {"type": "SGD", "lr": LEARNING_RATE}, "scheduler": {"type": "ConstantLR", "factor": 1.0}}


class MoCo(MoCov2):
    def configure_callbacks(self) -> list[lightning.Callback]:
        return [spt.callbacks.TeacherStudentCallback(update_after_backward=True)]

    def forward(self, batch: dict, stage: str) -> dict[str, Tensor]:
        """Same as `forward` in the library's scripts for methods of two views."""
        output = super().forward(*(view["image"] for view in batch["views"]))
        self.log(f"{stage}/loss", output.loss, on_step=True, on_epoch=True)
        return {"loss": output.loss, "embedding": output.embedding}


class Clock(lightning.Callback):
    """Times at which batch `warm` and the `steps` after it were done."""

    def __init__(self, warm: int, steps: int) -> None:
        self.ends, self.times = (warm, warm + steps), []

    def on_train_batch_end(self, trainer: object, module: object, outputs: object, batch: object, index: int) -> None:
        if index + 1 in self.ends:
            synchronize()
            self.times.append(time.perf_counter())


class Recipe:
    """The module, and turns of its training."""

    def __init__(self, method: str, stem: str, batch: int, images: Tensor) -> None:
        torch.manual_seed(0)
        self.batch, self.module = batch, {"moco": moco, "simclr": simclr}[method](backbone(stem))
        self.pictures = spt.data.FromTorchDataset(Pictures(images), names=["image", "label"], transform=two_views())

    def batches(self, workers: int | None) -> Iterable[dict]:
        if workers is None:
            views = [{"image": torch.randn(self.batch, 3, SIZE, SIZE, device=DEVICE)} for _ in range(2)]
            return itertools.repeat({"views": views})
        return loader(self.pictures, self.batch, workers)

    def fit(self, batches: Iterable[dict], steps: int, *callbacks: lightning.Callback) -> None:
        trainer = lightning.Trainer(
            accelerator="gpu" if DEVICE.type == "cuda" else "cpu",
            devices=1,
            precision="16-mixed" if DEVICE.type == "cuda" else "32-true",  # as in its scripts, which need a GPU
            max_steps=steps,
            callbacks=list(callbacks),
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(self.module, batches)

    def turn(self, workers: int | None, warm: int, steps: int) -> float:
        """Seconds per step over `steps` steps, after `warm` others that make the workers' lead steady."""
        clock = Clock(warm, steps)
        self.fit(self.batches(workers), warm + steps, clock)
        started, ended = clock.times
        return (ended - started) / steps


def two_views() -> transforms.MultiViewTransform:
    def view() -> transforms.Compose:
        return transforms.Compose(
            transforms.RGB(),
            transforms.RandomResizedCrop((SIZE, SIZE)),
            transforms.RandomHorizontalFlip(p=0.5),
            transforms.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, p=0.8),
            transforms.RandomGrayscale(p=0.2),
            transforms.ToImage(**spt.data.static.CIFAR10),
        )

    return transforms.MultiViewTransform([view(), view()])


def backbone(stem: str) -> nn.Module:
    """ResNet-18 without its classifier."""
    network = spt.backbone.from_torchvision("resnet18", low_resolution=stem == "cifar")
    network.fc = nn.Identity()
    return network


def simclr(network: nn.Module) -> spt.Module:
    projector = nn.Sequential(
        nn.Linear(512, 512, bias=False),
        nn.BatchNorm1d(512),
        nn.ReLU(inplace=True),
        nn.Linear(512, 128, bias=False),
        nn.BatchNorm1d(128),
    )
    loss = spt.losses.NTXEntLoss(temperature=0.5)
    return spt.Module(backbone=network, projector=projector, forward=simclr_forward, simclr_loss=loss, optim=OPTIM)


def moco(network: nn.Module) -> MoCo:
    module = MoCo(network, projector_dims=(512, 128), queue_length=QUEUE)
    module.optim = OPTIM
    # The queue is full from the first step on, like lightly's.
    module.queue.append(nn.functional.normalize(torch.randn(QUEUE, 128), dim=1))
    return module


def main() -> None:
    method, stem, batch, images = sys.argv[1:]
    for library in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(library).setLevel(logging.ERROR)  # else each turn prints its machine
    spt.set(verbose="ERROR", default_callbacks=dict.fromkeys(QUIET, False))
    answer(Recipe(method, stem, int(batch), torch.load(Path(images))).turn)


if __name__ == "__main__":
    main()
