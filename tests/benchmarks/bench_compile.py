"""Steps of IR with a ring and of MoCo with compiled networks (ANNULUS_COMPILE) over the same steps without.

ResNet-18, 32 pixels, batches of 256. The first compiled step compiles: its seconds say from which length of a run on
it may pay. On a GPU both stems, and CUDA graphs too.
"""

import os
import time
from unittest.mock import patch

import torch
from steps import random_images, training, whole_step
from timing import calls_per_turn, medians, synchronize, write

from annulus.device.device import pick_device
from annulus.training.loop import Training

IMAGES, BATCH, NEGATIVES, SIZE, REPETITIONS = 4_096, 256, 1_024, 32, 15
SAMPLERS = {"ir": "ring", "moco": "uniform"}


def begun(method: str, stem: str, asked: str, device: torch.device) -> tuple[Training, float]:
    """A training after its first step, and the seconds of that step."""
    changes = {
        "method": {"negatives": "sampled" if method == "ir" else "all"},
        "budget": {"batch_size": BATCH, "negatives": NEGATIVES, "queue": NEGATIVES},
    }
    sets = random_images(IMAGES, SIZE), random_images(0, SIZE)
    with patch.dict(os.environ, ANNULUS_COMPILE=asked):
        run = training(method, SAMPLERS[method], stem, changes, *sets, device)
    started = time.perf_counter()
    whole_step(run)()
    synchronize()
    return run, time.perf_counter() - started


def main() -> None:
    device = pick_device()
    on_gpu = device.type == "cuda"
    numbers: dict[str, float | int] = {"batch": BATCH, "images": IMAGES, "negatives": NEGATIVES, "pixels": SIZE}
    for stem in ("imagenet", "cifar") if on_gpu else ("imagenet",):
        for method in SAMPLERS:
            ways = {asked: begun(method, stem, asked, device) for asked in ("no", "yes", *["graphs"] * on_gpu)}
            steps = {asked: whole_step(run) for asked, (run, _) in ways.items()}
            seconds = medians(steps, REPETITIONS, calls_per_turn(device))
            for asked in ways.keys() - {"no"}:
                name = f"{stem}_stem_{method}_{'graphs' if asked == 'graphs' else 'compiled'}"
                numbers[f"{name}_over_plain"] = seconds[asked] / seconds["no"]
                numbers[f"{name}_first_step_seconds"] = round(ways[asked][1])
    write("compile", device, **numbers)


if __name__ == "__main__":
    main()
