"""Step time of IR with a ring and of MoCo with compiled networks (ANNULUS_COMPILE), over the same steps without.

ResNet-18, 32 pixels, batches of 256. The first compiled step compiles: its seconds tell the length of a run from which
compiling can pay. A GPU runs both stems, and CUDA graphs too.
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


def start(method: str, stem: str, mode: str, device: torch.device) -> tuple[Training, float]:
    """Builds a training, runs its first step, and returns the training and the seconds of that step."""
    changes = {
        "method": {"negatives": "sampled" if method == "ir" else "all"},
        "budget": {"batch_size": BATCH, "negatives": NEGATIVES, "queue": NEGATIVES},
    }
    sets = random_images(IMAGES, SIZE), random_images(0, SIZE)
    with patch.dict(os.environ, ANNULUS_COMPILE=mode):
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
            ways = {mode: start(method, stem, mode, device) for mode in ("no", "yes", *["graphs"] * on_gpu)}
            steps = {mode: whole_step(run) for mode, (run, _) in ways.items()}
            seconds = medians(steps, REPETITIONS, calls_per_turn(device))
            for mode in ways.keys() - {"no"}:
                name = f"{stem}_stem_{method}_{'graphs' if mode == 'graphs' else 'compiled'}"
                numbers[f"{name}_over_plain"] = seconds[mode] / seconds["no"]
                numbers[f"{name}_first_step_seconds"] = round(ways[mode][1])
    write("compile", device, **numbers)


if __name__ == "__main__":
    main()
