"""One task: its scenes and all encoders -> average precision of each variant and seed, gains, and a picture."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annulus.compute.workers import Pieces
from annulus.detection.annotated import Detection
from annulus.detection.pictures import grid
from annulus.detection.splits import read_splits
from annulus.detection.transfer import SHOWN, measured
from annulus.files.results import atomic_write
from annulus.pipeline.checkpoint import hash_files
from annulus.pipeline.stage import Results, run_resolved
from annulus.trials.detected import numbers
from annulus.trials.detection_tables import VARIANTS

PATHS = ["scenes", "main", "uniform", "untrained", "metrics", "pictures"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seeds, encoders = settings["seeds"], {name: getattr(paths, name) for name in VARIANTS}
    described = paths.scenes / "scenes.json"
    root = json.loads(described.read_text())["root"]
    scenes = paths.scenes if root is None else Path(root)
    weights = [folder / f"{seed}.safetensors" for folder in encoders.values() for seed in seeds]
    # Of drawn scenes each file; of real ones, which are large, what the stage before has counted.
    inputs = {"scenes": scenes, "encoders": encoders}
    hashes = hash_files(*weights, described if root else paths.scenes)
    pieces = Pieces("detection", {**settings, **inputs, "hashes": hashes}, measured)
    keys = [(variant, seed) for variant in encoders for seed in seeds]
    outcomes = dict(zip(keys, pieces.run(keys), strict=True))
    found = {variant: {seed: outcomes[variant, seed] for seed in seeds} for variant in encoders}
    _, test = read_splits(scenes, settings["kind"], settings["drop_empty"])
    ids = [picture.id for picture in test.pictures[:SHOWN]]
    drawn = {variant: [Detection(**one) for one in runs[seeds[0]]["shown"]] for variant, runs in found.items()}
    with atomic_write(paths.pictures) as temporary:
        grid(test, drawn, ids).quantize(64).save(temporary, "PNG", optimize=True)  # it is in git: a sixth of the bytes
    own = {name: settings[name] for name in ("task", "configuration", "engine", "scale")}
    counts = {"seeds": len(seeds), "test_pictures": len(test.pictures)}
    return Results(own | counts | numbers(found), written=pieces.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
