"""Pairs of patches at each offset: the large images -> shared information of the pairs, and probes on two sets."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.device.device import pick_device
from annulus.files.results import write_table
from annulus.running.workers import ResumableTasks
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.distance.offsets import OffsetInputs, evaluate_offset, training_state
from annulus_lab.studies.shared.measured import Outcome
from annulus_lab.studies.shared.outcomes import metrics_row

PATHS = ["large", "first", "second", "offsets"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    probes = {name: getattr(paths, slot) for slot, name in settings["sets"].items()}
    sets = OffsetInputs(large=paths.large, probes=probes, held_out_pairs=settings["held_out_pairs"])
    points = {point["offset"]: point["run"] for point in settings["points"]}
    shared = {"sets": sets, "hashes": sets.hashes}
    tasks = ResumableTasks("distance", evaluate_offset, pick_device(), training_state)
    results = tasks.run(
        {(offset, seed): shared | {"run": run} for offset, run in points.items() for seed in settings["seeds"]}
    )
    runs = {
        (name, offset): {seed: Outcome(**results[offset, seed][name]) for seed in settings["seeds"]}
        for name in probes
        for offset in points
    }
    base = next(iter(points))
    write_table(
        paths.offsets,
        [
            metrics_row(point, by_seed, runs[point[0], base]) | {"scale": settings["scale"]}
            for point, by_seed in runs.items()
        ],
    )
    return Results({}, written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
