"""The training step end to end against the same step on random tensors without data, views, sampler or logging.

The bare step is what no pipeline can spare: encoder forward and backward, the scores of the batch against the
memory, InfoNCE with fixed negatives, the optimiser and the bank's update.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import torch
from timing import medians, write

from annulus.bounds import infonce
from annulus.config import AllParams
from annulus.data import ImageSet
from annulus.device import autocast, pick_device
from annulus.encoders import EncoderConfig, build_encoder
from annulus.methods import InstanceDiscrimination, Step
from annulus.params_file import load_params
from annulus.training import Recipe, Training

IMAGES, BATCH, NEGATIVES, SIZE = 50_000, 256, 4_096, 32
PARAMS = load_params(Path(__file__).resolve().parents[2] / "params.yaml")


def random_images(images: int) -> ImageSet:
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, SIZE, SIZE), generator=random, dtype=torch.uint8)
    return ImageSet(pixels, torch.arange(images) % 10, torch.arange(images), tuple("0123456789"), "random")


def training(params: AllParams, sampler: str, stem: str, device: torch.device) -> Training:
    """Training as the pretrain stage sets it up, without annealing: every step draws from the sampler's own set."""
    backbone = params.backbones["resnet18"].model_copy(update={"stem": stem})
    config = EncoderConfig.of(
        backbone, head="linear", embedding_dim=128, view_size=SIZE, mean=(0.5,) * 3, std=(0.25,) * 3
    )
    encoder, choice = build_encoder(config, 0), getattr(params.samplers, sampler)
    method = InstanceDiscrimination(encoder, IMAGES, params.methods.ir, choice, NEGATIVES, 0, device)
    scale = params.scales.paper.pretrain.model_copy(update={"batch_size": BATCH, "negatives": NEGATIVES})
    schedule, views = params.schedules.cosine, params.view_sets["standard"]
    recipe = Recipe(scale, params.optimizer, schedule, params.anneals.none, views, 0)
    return Training(method, random_images(IMAGES), random_images(100), recipe, device)


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
        loss = infonce(candidates[:, 0], candidates[:, 1:])
        run.optimizer.zero_grad()
        loss.backward()
        run.optimizer.step()
        method.after_step(index, Step(loss, loss, anchor.detach()))

    return step


def main() -> None:
    device = pick_device()
    numbers: dict[str, float | int] = {"images": IMAGES, "batch": BATCH, "negatives": NEGATIVES, "pixels": SIZE}
    for stem, repetitions in (("imagenet", 15), ("cifar", 15 if device.type == "cuda" else 3)):
        samplers = ("uniform", "ring")
        steps = {sampler: whole_step(training(PARAMS, sampler, stem, device)) for sampler in samplers}
        seconds = medians({"bare": bare_step(training(PARAMS, "uniform", stem, device)), **steps}, repetitions)
        for sampler in samplers:
            numbers[f"{stem}_stem_{sampler}_percent_of_bare"] = round(100 * seconds["bare"] / seconds[sampler], 1)
        numbers[f"{stem}_stem_bare_images_per_second"] = round(BATCH / seconds["bare"])
    write("step", numbers, device)


if __name__ == "__main__":
    main()
