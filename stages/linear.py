"""Linear probe: features of each seed, or images through its encoder -> accuracy, learning curves, confusion table."""

import argparse
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from annulus.device.device import described, pick_device
from annulus.encoders.features import SPLITS, load_features
from annulus.encoders.saved import load_encoder
from annulus.evals.accuracy import confusion_rows
from annulus.evals.linear import LinearOutcome, probe_features, probe_views
from annulus.files.images import load_images
from annulus.files.results import write_table
from annulus.files.right import by_number, write_right
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint, hash_encoder, hash_images, let_go
from annulus.running.code import hash_code
from annulus.running.workers import map_seeds
from annulus.views.splits import keeping_colour
from annulus_lab.pipeline.stage import Results, run_stage

READS = ["seeds", "linear", "view_sets.${views}", "scales.${scale}.linear"]
PATHS = ["images", "encoders", "features", "metrics", "right", "history", "confusion"]

log = logging.getLogger("annulus")


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seeds, test = params["seeds"], load_images(paths.images / "test.safetensors")
    if not test.classes:
        log.info("the images have no class, so no linear probe is trained")
        write_table(paths.confusion, [], ("actual", "predicted"))
        write_right(paths.right, {})
        return Results.by_seed({seed: {} for seed in seeds})
    probing = Probing(params, paths, hash_code(Path(__file__)))
    results = map_seeds(probing, seeds, pick_device())
    # A row for each image, of the first seed only: the file of all seeds would be large, and its picture the same.
    write_table(paths.confusion, confusion_rows(results[seeds[0]].predicted, test.labels, test.classes))
    write_right(paths.right, by_number({seed: result.right for seed, result in results.items()}))
    metrics = {seed: result.metrics for seed, result in results.items()}
    histories = {seed: result.history for seed, result in results.items()}
    return Results.by_seed(metrics, histories, written=probing.done)


@dataclass(frozen=True)
class Probing:
    """Probe of one seed, with the inputs that all seeds share; a killed probe of views resumes."""

    params: Mapping[str, Any]
    paths: argparse.Namespace
    code: Mapping[str, str]

    def __call__(self, seed: int) -> LinearOutcome:
        """Fits one seed's probe."""
        settings = {"params": self.params["linear"], "scale": self.params["scales.${scale}.linear"]}
        settings |= {"seed": seed, "device": pick_device()}
        if self._reads_views:
            splits = (load_images(self.paths.images / f"{split}.safetensors").labelled() for split in SPLITS)
            encoder = load_encoder(self.paths.encoders / f"{seed}.safetensors")
            settings["views"] = keeping_colour(self.params["view_sets.${views}"], encoder.config.split)
            with self.checkpoint(seed) as checkpoint:
                outcome = probe_views(encoder, *splits, **settings, checkpoint=checkpoint)
        else:
            train, validation, test = (load_features(self.paths.features / str(seed), split) for split in SPLITS)
            outcome = probe_features(train, test, validation=validation, **settings)
        progress.say(f"linear {outcome.metrics['top1_percent']:.1f} %")
        return outcome

    def checkpoint(self, seed: int) -> Checkpoint:
        params = {name: value for name, value in self.params.items() if name != "seeds"}
        key = {"params": params, "images": hash_images(self.paths.images), "code": self.code, "seed": seed}
        key["encoder"] = hash_encoder(self.paths.encoders / f"{seed}.safetensors")
        return Checkpoint("linear", key, described(pick_device(), torch.get_num_threads()))

    def done(self) -> None:
        """Deletes the checkpoints; call it after all results are written."""
        if self._reads_views:
            let_go(map(self.checkpoint, self.params["seeds"]))

    @property
    def _reads_views(self) -> bool:
        return self.params["linear"].inputs == "views"


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
