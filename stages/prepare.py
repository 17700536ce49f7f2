"""Prepares the images: a generated, own or downloaded data set -> one packed file per split, and its numbers."""

import argparse
import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from annulus.datasets.parts import save_prepared
from annulus.datasets.prepare import packing, prepare_images
from annulus.files.results import write_text
from annulus_lab.pipeline.stage import Results, run_stage

READS = ["seeds", "dataset", "datasets.${dataset}", "scales.${scale}.prepare"]
PATHS = ["images", "split", "metrics"]

log = logging.getLogger("annulus")


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    dataset, scale = params["datasets.${dataset}"], params["scales.${scale}.prepare"]
    # The first seed draws and splits the images, so that all seeds have the same ones.
    with ExitStack() as stack:
        shards = stack.enter_context(packing(params["dataset"], dataset))
        prepared = prepare_images(params["dataset"], dataset, scale, params["seeds"][0], shards)
        metrics = prepared.metrics()
        if shared := metrics["test_images_also_in_train"]:
            log.warning(
                "WARNING: %d test images are also training images, pixel by pixel; accuracies will be too high", shared
            )
        save_prepared(paths.images, prepared)
        written = stack.pop_all().close  # deletes the shards of a packed set after all files are written
    write_text(paths.split, json.dumps(prepared.split, indent=1) + "\n")
    log.info(
        "%s: %d training%s, %d validation, %d test images of %d classes, %d px",
        params["dataset"],
        metrics["train_images"],
        f" ({unlabelled} of them without a class)" if (unlabelled := metrics.get("unlabelled_images", 0)) else "",
        *(metrics[name] for name in ("validation_images", "test_images", "classes", "image_size")),
    )
    return Results(metrics, written=written)


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
