"""Pretrains an encoder for each seed: packed training images -> weights, snapshots, learning curves, metrics."""

import argparse
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from annulus.device.device import described, pick_device, ways
from annulus.device.distributed import process_group, rank
from annulus.encoders.saved import save_encoder
from annulus.files.images import load_images
from annulus.files.results import Metrics
from annulus.running.checkpoint import Checkpoint, hash_images, let_go
from annulus.running.code import hash_code
from annulus.running.processes import relaunch
from annulus.running.workers import map_seeds
from annulus.training.chance import near_chance
from annulus.training.setup import build_training
from annulus.training.snapshots import Snapshots
from annulus_lab.config.resolved import PRETRAIN, build_run
from annulus_lab.pipeline.provenance import processor
from annulus_lab.pipeline.stage import Results, run_stage

log = logging.getLogger("annulus")

READS = ["seeds", *PRETRAIN]
PATHS = ["images", "encoders", "snapshots", "metrics", "history"]


@dataclass(frozen=True)
class Pretraining:
    """Pretraining of one seed, with the inputs that all seeds share; a killed stage resumes each seed."""

    params: Mapping[str, Any]
    paths: argparse.Namespace
    key: Mapping[str, Any]

    def __call__(self, seed: int) -> tuple[Metrics, list[Metrics]]:
        """Trains one seed; writes its encoder and its snapshots."""
        device = pick_device()
        train, validation = (
            load_images(self.paths.images / f"{split}.safetensors") for split in ("train", "validation")
        )
        training = build_training(build_run(self.params, seed), train, validation, device)
        if rank() > 0:  # only the first process keeps the state and writes the results
            history = training.run()
            return training.metrics, history
        settings, file = training.settings, self.paths.snapshots / f"{seed}.safetensors"
        training.observers.append(
            Snapshots(training.source, settings.views, settings.budget.epochs, seed, device, file)
        )
        with self.checkpoint(seed) as checkpoint:
            history = training.run(checkpoint)
            save_encoder(training.method.encoder, self.paths.encoders / f"{seed}.safetensors")
        return training.metrics | {"processor": _computed_on(device)}, history

    def checkpoint(self, seed: int) -> Checkpoint:
        return Checkpoint("pretrain", {**self.key, "seed": seed}, described(pick_device(), torch.get_num_threads()))

    def done(self) -> None:
        """Deletes the checkpoints; call it after all results are written."""
        let_go(map(self.checkpoint, self.params["seeds"]))


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    with process_group():
        # Further seeds change a run only by its number of threads.
        run = {name: value for name, value in params.items() if name != "seeds"}
        key = {"params": run, "images": hash_images(paths.images), "code": hash_code(Path(__file__))}
        pretraining = Pretraining(params, paths, key)
        results = map_seeds(pretraining, params["seeds"], pick_device())
        if rank() > 0:
            raise SystemExit
    metrics, histories = ({seed: result[place] for seed, result in results.items()} for place in (0, 1))
    if (warning := near_chance(histories)) is not None:
        log.warning("WARNING: %s", warning)
    return Results.by_seed(metrics, histories, written=pretraining.done)


def _computed_on(device: torch.device) -> str:
    """Hardware on which the numbers depend: the GPU; or the processor, torch's instructions and threads beyond one."""
    gpu = device.type == "cuda"
    machine = [torch.cuda.get_device_name()] if gpu else [processor(), torch.backends.cpu.get_cpu_capability()]
    return ", ".join([*machine, *ways(device, torch.get_num_threads())])


if __name__ == "__main__":
    relaunch()
    run_stage(main, READS, PATHS)
