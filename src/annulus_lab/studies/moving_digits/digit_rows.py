"""Rows of the study of moving digits: their runs and results."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from annulus.device.rng import derive
from annulus.evals.intervals import Interval, over_seeds, over_seeds_and_images, verdict
from annulus.files.results import Number
from annulus_lab.config.params import filled
from annulus_lab.studies.moving_digits.digit_images import load_images
from annulus_lab.studies.moving_digits.digit_networks import build_views
from annulus_lab.studies.moving_digits.digit_readouts import Frames, read_out
from annulus_lab.studies.moving_digits.digit_tasks import factor_tasks
from annulus_lab.studies.moving_digits.digit_training import train_supervised, train_views
from annulus_lab.studies.moving_digits.digits_params import DigitsTrainingParams, WorldParams
from annulus_lab.studies.moving_digits.moving_digits import World
from annulus_lab.studies.shared.outcomes import by_seed, with_interval

SUPERVISED, UNTRAINED = "supervised", "untrained"
UNITS = {"digit": "percent", "background": "percent", "position": "pixels"}

Outcomes = Mapping[str, Mapping[int, Mapping[str, Any]]]  # row -> seed -> results of `evaluate_sharing`


def sharing_name(shared: Sequence[str]) -> str:
    """Name of a sharing: digit + position."""
    return " + ".join(shared)


def names(params: DigitsTrainingParams) -> list[str]:
    """Names of the table's rows."""
    return [*map(sharing_name, params.sharings), SUPERVISED, UNTRAINED]


def evaluate_sharing(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """Trains the networks of (row, seed); returns each task's error on each test frame, and a sharing's loss in nats.

    All rows and seeds have the same test frames.
    """
    (name, seed), params = key, filled(DigitsTrainingParams, settings["training"])
    train, unseen = (
        World(filled(WorldParams, settings["world"]), images) for images in load_images(Path(settings["images"]))
    )
    test = Frames.drawn(unseen, params.test_images, settings["test_seed"], "test frames")
    if name == SUPERVISED:
        return {
            task.name: task.errors(test.through(train_supervised(train, params, task, seed)), task.truth(*test))
            for task in factor_tasks(train)
        }
    frames = Frames.drawn(train, params.train_images, seed, "read-out frames")
    if name == UNTRAINED:
        return read_out(build_views(derive(seed, "weights")).image, frames, test, params)
    views, loss = train_views(train, params, name.split(" + "), seed)
    return {**read_out(views.image, frames, test, params), "loss_nats": loss}


def errors(runs: Mapping[int, Mapping[str, Any]], task: str) -> np.ndarray:
    """Errors of a task (seeds, test frames), in the task's unit."""
    table = np.stack([run[task].numpy() for run in runs.values()]).astype(np.float64)
    return table * (100 if UNITS[task] == "percent" else 1)


def rows(outcomes: Outcomes, params: DigitsTrainingParams) -> list[dict[str, Number]]:
    """Rows of the table: mean errors with intervals over seeds and test frames, and the bound in nats."""
    table = []
    for name, runs in outcomes.items():
        row: dict[str, Number] = {"sharing": name, "seeds": len(runs)}
        for task, unit in UNITS.items():
            row |= with_interval(f"{task}_error_{unit}", over_seeds_and_images(errors(runs, task)))
        ceiling, trained = math.log(params.batch_size), name not in (SUPERVISED, UNTRAINED)
        bound = over_seeds([ceiling - run["loss_nats"] for run in runs.values()]) if trained else None
        empty = {"bound_nats": "", "bound_interval_nats": "", "ceiling_nats": ""}
        row |= empty if bound is None else with_interval("bound_nats", bound) | {"ceiling_nats": ceiling}
        for task, unit in UNITS.items():
            means = errors(runs, task).mean(axis=1).tolist()
            row |= by_seed(f"{task}_error_{unit}", dict(zip(runs, means, strict=True)))
        table.append(row)
    return table


def pairs(outcomes: Outcomes, params: DigitsTrainingParams) -> list[dict[str, Number]]:
    """Effect of further shared factors: each sharing over each of its parts, paired by seed and test frame."""
    table = []
    for whole, part in product(params.sharings, params.sharings):
        if set(part) < set(whole):
            table.append(
                {"sharing": sharing_name(whole), "over": sharing_name(part)} | difference(outcomes, whole, part)
            )
    return table


def difference(outcomes: Outcomes, whole: Sequence[str], part: Sequence[str]) -> dict[str, Number]:
    """Increase of each error, with a verdict; a smaller error is better."""
    row: dict[str, Number] = {}
    for task, unit in UNITS.items():
        increase: Interval = over_seeds_and_images(
            errors(outcomes[sharing_name(whole)], task) - errors(outcomes[sharing_name(part)], task)
        )
        row |= with_interval(f"{task}_gain_{unit}", increase)
        row[f"{task}_verdict"] = verdict(increase, ("worse", "better"), " points" if unit == "percent" else " pixels")
    return row
