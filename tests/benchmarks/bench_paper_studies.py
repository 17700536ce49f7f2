"""Hours on one core of the studies that train networks of their own at the papers' settings, from a part of each.

Each part is timed at `scale: paper` and multiplied by the number of its repetitions in the study. Hours are of all
seeds in sequence; for moving digits they are of one seed. Evaluation is left out where it takes less than a hundredth.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from timing import ROOT, write

from annulus_lab.studies.estimators.binary import batch_rows
from annulus_lab.studies.estimators.conditional import Conditional, CriticRun
from annulus_lab.studies.estimators.estimators_params import (
    BinaryParams,
    ConditionalParams,
    GaussiansParams,
    TheoremsParams,
    first_seeds,
)
from annulus_lab.studies.estimators.gaussians import estimates
from annulus_lab.studies.estimators.theorems import theorem_metrics
from annulus_lab.studies.estimators.toys import SumOfGaussians
from annulus_lab.studies.moving_digits.digit_images import make_images
from annulus_lab.studies.moving_digits.digit_tasks import factor_tasks
from annulus_lab.studies.moving_digits.digit_training import train_supervised, train_views
from annulus_lab.studies.moving_digits.digits_params import DigitsTrainingParams, WorldParams
from annulus_lab.studies.moving_digits.moving_digits import World
from annulus_lab.studies.shared.study import OwnStudy

SCALE = "paper"
PART = 100  # of the gaussians' steps and batches
STEPS = 3  # of moving digits


def seconds(call: Callable[[], object]) -> float:
    """Seconds of a second call: the first one warms up."""
    call()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def study(name: str) -> OwnStudy:
    own = OwnStudy(ROOT / "stages" / name / "params.yaml")
    own.params = replace(own.params, scale=SCALE)
    return own


def gaussians(own: OwnStudy) -> float:
    params = own.section("gaussians", GaussiansParams)
    part = replace(params, steps=params.steps // PART, evaluations=params.evaluations // PART)
    seeds = first_seeds(own.params.seeds, params.first_seeds, "gaussians")
    return len(seeds) * PART * sum(seconds(lambda pairs=pairs: estimates(part, (pairs, 0))) for pairs in params.pairs)


def conditional(own: OwnStudy) -> float:
    params = own.section("conditional", ConditionalParams)
    percents = [percent for percent in params.percents for _ in params.seeds]
    runs = [CriticRun(percent, seed) for percent in params.percents for seed in params.seeds]
    total = 0.0
    for variant in params.variants.values():
        part = Conditional(SumOfGaussians(), runs, replace(params, epochs=1, draws=1), variant)
        total += params.epochs * seconds(part.train)
        total += 4 * params.draws * seconds(lambda part=part: part.estimates(percents, unseen=True))  # two sets, points
    return total


def binary(own: OwnStudy) -> float:
    params = own.section("binary", BinaryParams)
    return seconds(lambda: [batch_rows(m, params, 0) for m in params.candidates])


def theorems(own: OwnStudy) -> float:
    params = own.section("theorems", TheoremsParams)
    return seconds(lambda: theorem_metrics(params, 0))


def moving_digits(own: OwnStudy) -> tuple[float, float]:
    """Seconds of one seed of a sharing, and of the supervised row."""
    params = own.section("training", DigitsTrainingParams)
    world_params = own.section("world", WorldParams)
    world = World(world_params, make_images(world_params, 0)[0])
    part = replace(params, epochs=1, videos=STEPS * params.batch_size)
    steps = params.epochs * (params.videos // params.batch_size) / STEPS
    shared = seconds(lambda: train_views(world, part, ["digit"], 0))
    tasks = [seconds(lambda task=task: train_supervised(world, part, task, 0)) for task in factor_tasks(world)]
    return steps * shared, steps * sum(tasks)


def main() -> None:
    torch.set_num_threads(1)
    estimators, digits = study("estimators"), study("moving_digits")
    sharing, supervised = moving_digits(digits)
    totals = {one.__name__: one(estimators) for one in (gaussians, conditional, binary, theorems)}
    write(
        "paper_studies",
        torch.device("cpu"),
        **{f"{name}_hours": value / 3600 for name, value in totals.items()},
        sharing_hours=sharing / 3600,
        supervised_hours=supervised / 3600,
    )


if __name__ == "__main__":
    main()
