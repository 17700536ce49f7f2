"""Step times of the rows of cifar10_later (losses, samplers and positives after the five papers) against IR's.

Each row trains as in the study, from the first step on, with images of noise. Steps of all rows take turns.
"""

import torch
from steps import random_images, whole_step
from timing import ROOT, medians, write

from annulus.device.device import pick_device
from annulus.training.loop import Training
from annulus.training.setup import build_training
from annulus_lab.config.resolved import PRETRAIN, build_run
from annulus_lab.studies.shared.rows_params import RowsParams, row_at
from annulus_lab.studies.shared.study import Study

IMAGES, SIZE, TURNS = 5_000, 32, 60
BASE = "IR"
# Rows with a step of their own. The others differ from these in a number, or differ later in training.
ROWS = ("oracle", "HCL", "DCL", "DCLW", "SupCon out", "IR-all", "sigmoid", "MoCHi", "NNCLR", "RING", "BALL")


def build_row(study: Study, rows: RowsParams, name: str, device: torch.device) -> Training:
    """Builds the training of a row; a sampler or a class that waits for a part of the training begins at once."""
    variant = study.variant(name, row_at(rows.scale, rows.rows[name]) | {"anneal": "none"}, rows.seeds[0])
    run = build_run({key: variant.get(key) for key in PRETRAIN}, 0)
    return build_training(run, random_images(IMAGES, SIZE), random_images(10, SIZE), device)


def main() -> None:
    device = pick_device()
    study = Study(ROOT / "params.yaml", ROOT / "stages" / "cifar10_later" / "params.yaml")
    rows = study.read(RowsParams)
    steps = {name: whole_step(build_row(study, rows, name, device)) for name in (BASE, *ROWS)}
    seconds = medians(steps, TURNS)
    keys = {name: name.lower().replace(" ", "_").replace("-", "_") for name in ROWS}
    ratios = {f"{keys[name]}_percent_of_ir": 100 * seconds[name] / seconds[BASE] for name in ROWS}
    write(
        "later",
        device,
        images=IMAGES,
        batch=study.variant(BASE, {}, 0).get("scales.${scale}.pretrain").batch_size,
        **ratios,
    )


if __name__ == "__main__":
    main()
