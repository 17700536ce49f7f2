"""The study of moving digits: each row's runs and their results."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from annulus.config.params import filled
from annulus.device.rng import derive
from annulus.evals.intervals import Interval, over_seeds, over_seeds_and_images, verdict
from annulus.files.results import Number
from annulus.studies.moving_digits.digit_images import load_images
from annulus.studies.moving_digits.digit_networks import build_views
from annulus.studies.moving_digits.digit_readouts import Frames, read_out
from annulus.studies.moving_digits.digit_tasks import tasks_of
from annulus.studies.moving_digits.digit_training import train_supervised, train_views
from annulus.studies.moving_digits.digits_params import TrainingParams, WorldParams
from annulus.studies.moving_digits.moving_digits import World
from annulus.studies.outcomes import with_interval

SUPERVISED, UNTRAINED = "supervised", "untrained"
UNITS = {"digit": "percent", "background": "percent", "position": "pixels"}

Outcomes = Mapping[str, Mapping[int, Mapping[str, Any]]]  # row -> seed -> results of `evaluate_sharing`


def sharing_name(shared: Sequence[str]) -> str:
    """Name of a sharing: digit + position."""
    return " + ".join(shared)


def names(params: TrainingParams) -> list[str]:
    """The table's rows."""
    return [*map(sharing_name, params.sharings), SUPERVISED, UNTRAINED]


def evaluate_sharing(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """Each task's error on each test frame, for (row, seed); of a sharing, the loss in nats too.

    All rows and seeds have the same test frames.
    """
    (name, seed), params = key, filled(TrainingParams, settings["training"])
    train, unseen = (
        World(filled(WorldParams, settings["world"]), images) for images in load_images(Path(settings["images"]))
    )
    test = Frames.drawn(unseen, params.test_images, settings["test_seed"], "test frames")
    if name == SUPERVISED:
        return {
            task.name: task.errors(test.through(train_supervised(train, params, task, seed)), task.truth(*test))
            for task in tasks_of(train)
        }
    frames = Frames.drawn(train, params.train_images, seed, "read-out frames")
    if name == UNTRAINED:
        return read_out(build_views(derive(seed, "weights")).image, frames, test, params)
    views, loss = train_views(train, params, name.split(" + "), seed)
    return {**read_out(views.image, frames, test, params), "loss_nats": loss}


def errors(runs: Mapping[int, Mapping[str, Any]], task: str) -> np.ndarray:
    """A task's errors, seeds by test frames, in the task's unit."""
    table = np.stack([run[task].numpy() for run in runs.values()]).astype(np.float64)
    return table * (100 if UNITS[task] == "percent" else 1)


def rows(outcomes: Outcomes, params: TrainingParams) -> list[dict[str, Number]]:
    """The table: each row's errors, means with intervals over seeds and test frames, and the bound on shared
    information."""
    table = []
    for name, runs in outcomes.items():
        row: dict[str, Number] = {"sharing": name, "seeds": len(runs)}
        for task, unit in UNITS.items():
            row |= with_interval(f"{task}_error_{unit}", over_seeds_and_images(errors(runs, task)))
        ceiling, trained = math.log(params.batch_size), name not in (SUPERVISED, UNTRAINED)
        bound = over_seeds([ceiling - run["loss_nats"] for run in runs.values()]) if trained else None
        empty = {"bound_nats": "", "bound_interval_nats": "", "ceiling_nats": ""}
        table.append(row | (empty if bound is None else with_interval("bound_nats", bound) | {"ceiling_nats": ceiling}))
    return table


def pairs(outcomes: Outcomes, params: TrainingParams) -> list[dict[str, Number]]:
    """Effect of sharing further factors: each sharing over each part of it, paired by seed and test frame."""
    table = []
    for whole, part in product(params.sharings, params.sharings):
        if set(part) < set(whole):
            table.append(
                {"sharing": sharing_name(whole), "over": sharing_name(part)} | difference(outcomes, whole, part)
            )
    return table


def difference(outcomes: Outcomes, whole: Sequence[str], part: Sequence[str]) -> dict[str, Number]:
    """Increase of each error; the verdict is on the error, which is better smaller."""
    row: dict[str, Number] = {}
    for task, unit in UNITS.items():
        of: Interval = over_seeds_and_images(
            errors(outcomes[sharing_name(whole)], task) - errors(outcomes[sharing_name(part)], task)
        )
        row |= with_interval(f"{task}_gain_{unit}", of)
        row[f"{task}_verdict"] = verdict(of, ("worse", "better"), " points" if unit == "percent" else " pixels")
    return row
