"""The training step end to end against the same step on random tensors without data, views, sampler or logging.

The bare step is the work that every pipeline must do: encoder forward and backward, the scores of the batch against the
memory, InfoNCE with fixed negatives, the optimiser and the bank's update.

The bare step also runs with torch's own convolutions of small maps (`annulus.encoders.small`) and, where the processor
has AMX, with ANNULUS_PRECISION=bf16.

Whole epochs, with validation and everything else that the loop does between two of them, are compared with the same
number of bare steps.
"""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from unittest.mock import patch

import torch
from steps import epoch_sets, epochs_of_bare, random_images, training, whole_step
from timing import calls_per_turn, medians, write
from torch import nn

from annulus.bounds.infonce import infonce
from annulus.device.device import autocast, pick_device
from annulus.encoders.small import SmallMapConv2d
from annulus.files.images import ImageSet
from annulus.training.loop import Training

IMAGES, BATCH, NEGATIVES, SIZE = 50_000, 256, 4_096, 32


def build_run(
    sampler: str,
    stem: str,
    device: torch.device,
    images: ImageSet,
    validation: ImageSet,
    scale: Mapping[str, int] = MappingProxyType({}),
) -> Training:
    changes = {
        "method": {"negatives": "sampled", "critic": "dot", "bank_start": "random"},
        "budget": {"batch_size": BATCH, "negatives": NEGATIVES, **scale},
    }
    return training("ir", sampler, stem, changes, images, validation, device)


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
    images, validation, scale = epoch_sets(BATCH, SIZE, device)
    runs = {name: build_run(name, "imagenet", device, images, validation, scale) for name in ("uniform", "ring")}
    bare = bare_step(build_run("uniform", "imagenet", device, images, validation, scale))
    percent = epochs_of_bare(runs, dict.fromkeys(runs, bare), device)
    return {f"imagenet_stem_{name}": number for name, number in percent.items()} | {"epoch_images": len(images)}


def main() -> None:
    device = pick_device()
    numbers: dict[str, float | int] = {"images": IMAGES, "batch": BATCH, "negatives": NEGATIVES, "pixels": SIZE}
    for stem, repetitions in (("imagenet", 15), ("cifar", 15 if device.type == "cuda" else 3)):
        samplers, sets = ("uniform", "ring"), (random_images(IMAGES, SIZE), random_images(0, SIZE))
        steps = {sampler: whole_step(build_run(sampler, stem, device, *sets)) for sampler in samplers}
        bare = bare_step(build_run("uniform", stem, device, *sets))
        amx = device.type == "cpu" and torch.cpu._is_amx_tile_supported()
        half = {"bf16": patch.dict(os.environ, ANNULUS_PRECISION="bf16")(bare)} if amx else {}
        conv2d = {"conv2d": patch.object(SmallMapConv2d, "forward", nn.Conv2d.forward)(bare)}
        conv2d = conv2d if device.type == "cpu" and stem == "imagenet" else {}  # elsewhere it is the same step
        seconds = medians({"bare": bare, **steps, **half, **conv2d}, repetitions, calls_per_turn(device))
        numbers |= {f"{stem}_stem_bare_over_{name}": seconds["bare"] / seconds[name] for name in conv2d}
        numbers |= {f"{stem}_stem_bf16_over_float32": seconds[name] / seconds["bare"] for name in half}
        for sampler in samplers:
            numbers[f"{stem}_stem_{sampler}_percent_of_bare"] = 100 * seconds["bare"] / seconds[sampler]
        numbers[f"{stem}_stem_bare_images_per_second"] = BATCH / seconds["bare"]
    numbers |= epochs(device)
    write("step", device, **numbers)


if __name__ == "__main__":
    main()
