"""The training step end to end against the same step on random tensors without data, views, sampler or logging.

The bare step is what no pipeline can spare: encoder forward and backward, the scores of the batch against the
memory, InfoNCE with fixed negatives, the optimiser and the bank's update.

The same bare step with ANNULUS_PRECISION=bf16, where the processor has AMX.

And whole epochs, with validation and all else that the loop does between two of them, against as many bare steps.
"""

import os
from collections.abc import Callable
from unittest.mock import patch

import torch
from steps import training, whole_step
from timing import calls_per_turn, medians, write

from annulus.bounds.infonce import infonce
from annulus.compute.device import autocast, pick_device
from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus.training.loop import Training

IMAGES, BATCH, NEGATIVES, SIZE = 50_000, 256, 4_096, 32
EPOCH_IMAGES = {"cuda": 46_080, "cpu": 7_680}  # 180 and 30 batches; a ninth as many for validation, as in params.yaml
EPOCH_TURNS = 3


def random_images(images: int) -> ImageSet:
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, SIZE, SIZE), generator=random, dtype=torch.uint8)
    return ImageSet(Resident(pixels), torch.arange(images) % 10, torch.arange(images), tuple("0123456789"), "random")


def of_memory(sampler: str, stem: str, device: torch.device, images: int) -> Training:
    changes = {
        "methods.${method}": {"negatives": "sampled", "critic": "dot", "bank_start": "random"},
        "scales.${scale}.pretrain": {"batch_size": BATCH, "negatives": NEGATIVES},
    }
    return training("ir", sampler, stem, changes, random_images(images), random_images(images // 9), device)


def whole_epoch(run: Training) -> Callable[[], None]:
    def epoch() -> None:
        run.epoch = run.recipe.scale.epochs - 1  # the last one: `run` comes back after it
        run.run()

    return epoch


def bare_step(run: Training) -> Callable[[], None]:
    method, random, images = run.method, torch.Generator(run.device).manual_seed(0), len(run.images)
    views = torch.rand(BATCH, 3, SIZE, SIZE, generator=random, device=run.device)
    index = torch.randperm(images, generator=random, device=run.device)[:BATCH]
    rows = torch.randint(images, (BATCH, NEGATIVES), generator=random, device=run.device)

    def step() -> None:
        with autocast(run.device):
            query = method.encoder(views)
        scores = (query / method.params.temperature) @ method.banks[0].rows.T
        candidates = scores.gather(1, torch.cat([index[:, None], rows], dim=1))
        run.optimizer.zero_grad()
        infonce(candidates[:, :1], candidates[:, 1:]).backward()
        run.optimizer.step()
        method.banks[0].update(index, query.detach())

    return step


def epochs(device: torch.device) -> dict[str, float | int]:
    images = EPOCH_IMAGES[device.type]
    bare, batches = bare_step(of_memory("uniform", "imagenet", device, images)), images // BATCH

    def bare_steps() -> None:
        for _ in range(batches):
            bare()

    whole = {sampler: whole_epoch(of_memory(sampler, "imagenet", device, images)) for sampler in ("uniform", "ring")}
    seconds = medians({"bare": bare_steps, **whole}, EPOCH_TURNS)
    percent = {f"imagenet_stem_{it}_epoch_percent_of_bare": 100 * seconds["bare"] / seconds[it] for it in whole}
    return percent | {"epoch_images": images}


def main() -> None:
    device = pick_device()
    numbers: dict[str, float | int] = {"images": IMAGES, "batch": BATCH, "negatives": NEGATIVES, "pixels": SIZE}
    for stem, repetitions in (("imagenet", 15), ("cifar", 15 if device.type == "cuda" else 3)):
        samplers = ("uniform", "ring")
        steps = {sampler: whole_step(of_memory(sampler, stem, device, IMAGES)) for sampler in samplers}
        bare = bare_step(of_memory("uniform", stem, device, IMAGES))
        amx = device.type == "cpu" and torch.cpu._is_amx_tile_supported()
        half = {"bf16": patch.dict(os.environ, ANNULUS_PRECISION="bf16")(bare)} if amx else {}
        seconds = medians({"bare": bare, **steps, **half}, repetitions, calls_per_turn(device))
        numbers |= {f"{stem}_stem_bf16_over_float32": seconds[name] / seconds["bare"] for name in half}
        for sampler in samplers:
            numbers[f"{stem}_stem_{sampler}_percent_of_bare"] = 100 * seconds["bare"] / seconds[sampler]
        numbers[f"{stem}_stem_bare_images_per_second"] = BATCH / seconds["bare"]
    numbers |= epochs(device)
    write("step", device, **numbers)


if __name__ == "__main__":
    main()
