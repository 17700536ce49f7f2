"""The training step end to end against the same step on random tensors without data, views, sampler or logging.

The bare step is what no pipeline can spare: encoder forward and backward, the scores of the batch against the
memory, InfoNCE with fixed negatives, the optimiser and the bank's update.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "stages"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import torch
from pretrain import READS
from timing import medians, write

from annulus.bounds.infonce import infonce
from annulus.compute.device import autocast, pick_device
from annulus.config.file import load_params
from annulus.files.images import ImageSet
from annulus.training.loop import Training
from annulus.training.setup import build_training

IMAGES, BATCH, NEGATIVES, SIZE = 50_000, 256, 4_096, 32
PARAMS = load_params(Path(__file__).resolve().parents[2] / "params.yaml")


def random_images(images: int) -> ImageSet:
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, SIZE, SIZE), generator=random, dtype=torch.uint8)
    return ImageSet(pixels, torch.arange(images) % 10, torch.arange(images), tuple("0123456789"), "random")


def training(sampler: str, stem: str, device: torch.device) -> Training:
    """Training as the pretrain stage sets it up, without annealing: every step draws from the sampler's own set."""
    backbone = "resnet18-cifar" if stem == "cifar" else "resnet18"
    choices = {"method": "ir", "sampler": sampler, "bound": "infonce", "anneal": "none", "neighbours": "none"}
    chosen = PARAMS.model_copy(update=choices | {"dataset": "cifar10", "scale": "paper", "backbone": backbone})
    read = {key: chosen.get(key) for key in READS}
    changes = {
        "methods.${method}": {"negatives": "sampled", "witness": "dot"},
        "scales.${scale}.pretrain": {"batch_size": BATCH, "negatives": NEGATIVES},
    }
    for key, change in changes.items():
        read[key] = read[key].model_copy(update=change)
    return build_training(read, random_images(IMAGES), random_images(100), device)


def whole_step(run: Training) -> Callable[[], None]:
    order = run._order()
    return lambda: run.step(order)


def bare_step(run: Training) -> Callable[[], None]:
    method, random = run.method, torch.Generator(run.device).manual_seed(0)
    views = torch.rand(BATCH, 3, SIZE, SIZE, generator=random, device=run.device)
    index = torch.randperm(IMAGES, generator=random, device=run.device)[:BATCH]
    rows = torch.randint(IMAGES, (BATCH, NEGATIVES), generator=random, device=run.device)

    def step() -> None:
        with autocast(run.device):
            anchor = method.encoder(views)
        scores = (anchor / method.params.temperature) @ method.bank.rows.T
        candidates = scores.gather(1, torch.cat([index[:, None], rows], dim=1))
        run.optimizer.zero_grad()
        infonce(candidates[:, :1], candidates[:, 1:]).backward()
        run.optimizer.step()
        method.bank.update(index, anchor.detach())

    return step


def main() -> None:
    device = pick_device()
    numbers: dict[str, float | int] = {"images": IMAGES, "batch": BATCH, "negatives": NEGATIVES, "pixels": SIZE}
    for stem, repetitions in (("imagenet", 15), ("cifar", 15 if device.type == "cuda" else 3)):
        samplers = ("uniform", "ring")
        steps = {sampler: whole_step(training(sampler, stem, device)) for sampler in samplers}
        seconds = medians({"bare": bare_step(training("uniform", stem, device)), **steps}, repetitions)
        for sampler in samplers:
            numbers[f"{stem}_stem_{sampler}_percent_of_bare"] = round(100 * seconds["bare"] / seconds[sampler], 1)
        numbers[f"{stem}_stem_bare_images_per_second"] = round(BATCH / seconds["bare"])
    write("step", numbers, device)


if __name__ == "__main__":
    main()
