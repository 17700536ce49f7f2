"""Annotated pictures -> a folder in the layout of COCO, VOC or LVIS; for real pictures, the name of their folder."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annulus.files.results import write_text
from annulus.running.checkpoint import hash_files
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.layouts import write_scenes
from annulus_lab.studies.detection.scenes_params import SceneParams
from annulus_lab.studies.detection.splits import annotation_files, read_splits

PATHS = ["scenes"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    kind, root = settings["kind"], settings["root"]
    if root is None:
        write_scenes(paths.scenes, kind, filled(SceneParams, settings["drawn"]), settings["seed"])
    splits = read_splits(paths.scenes if root is None else Path(root), kind, settings["drop_empty"])
    counts = {
        name: {"pictures": len(split.pictures), "objects": sum(len(one.instances) for one in split.pictures)}
        for name, split in zip(("train", "test"), splits, strict=True)
    }
    # For pictures elsewhere the digest of the annotations, so that no run resumes from other annotations.
    content = {} if root is None else {"annotations": hash_files(*annotation_files(Path(root), kind))}
    described = {"root": root, "kind": kind} | counts | content
    write_text(paths.scenes / "scenes.json", json.dumps(described, indent=2) + "\n")
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
