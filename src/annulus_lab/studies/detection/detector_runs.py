"""Detection as a test of encoders: each variant and seed trains a detector on the same pictures, with equal draws."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from inspect import getfile
from pathlib import Path
from typing import Any

from annulus.device.device import described, pick_device
from annulus.encoders.saved import load_encoder
from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus.running.checkpoint import Checkpoint, hash_encoder, hash_files
from annulus.running.code import hash_code
from annulus.running.workers import ResumableTasks
from annulus_lab.config.params import filled
from annulus_lab.studies.detection.annotated import Annotated, Detection
from annulus_lab.studies.detection.average_precision import evaluate
from annulus_lab.studies.detection.bootstrap import resampled
from annulus_lab.studies.detection.detection_params import DetectorParams, DetectorTrainingParams
from annulus_lab.studies.detection.splits import read_splits
from annulus_lab.studies.detection.tasks import check_engine

RESAMPLES = 100  # of the test pictures, for intervals
SHOWN = 6  # test pictures in the grid, of the first seed

VariantRuns = Mapping[str, Mapping[int, Mapping[str, Any]]]  # of each variant and seed


def run_encoders(
    stage: str,
    settings: Mapping[str, Any],
    folder: Path,
    encoders: Mapping[str, Path],
    compute: Callable[[Any, Any], Mapping[str, Any]],
    inner: Callable[[Any, Any], Checkpoint] | None = None,
) -> tuple[Annotated, VariantRuns, ResumableTasks]:
    """Runs `compute` for every variant and seed on the scenes of a folder; `inner`: the state within a task.

    The folder holds the scenes or names their place. Returns the test pictures, the results, and the tasks; call the
    tasks' `done` after the results are written.
    """
    seeds, described = settings["seeds"], folder / "scenes.json"
    try:
        root = json.loads(read_text(described))["root"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(f"{described} is missing or names no scenes ({error}); run `dvc repro`") from error
    scenes = folder if root is None else Path(root)
    _, test = cached_splits(scenes, settings["kind"], settings["drop_empty"])  # before the workers are forked
    # All files of drawn scenes; for real scenes, which are large, the counts and annotations of the stage before.
    inputs = {"scenes": scenes, "content": hash_files(described if root else folder)}
    # The code is read once: an edit while tasks wait for a worker changes no task.
    shared = {name: value for name, value in settings.items() if name != "seeds"} | inputs
    shared["code"] = hash_code(Path(getfile(compute)))
    files = {(variant, seed): encoders[variant] / f"{seed}.safetensors" for variant in encoders for seed in seeds}
    tasks = ResumableTasks(stage, compute, pick_device(), inner)
    outcomes = tasks.run({key: shared | {"encoder": file, "hash": hash_encoder(file)} for key, file in files.items()})
    return test, {variant: {seed: outcomes[variant, seed] for seed in seeds} for variant in encoders}, tasks


def evaluate_detector(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """Trains a detector on the encoder of (variant, seed); returns AP, AP of resampled pictures and the last loss.

    `settings` holds the settings of a task, the folder `scenes` and the file `encoder`.
    """
    _, seed = key
    train, test = cached_splits(Path(settings["scenes"]), settings["kind"], settings["drop_empty"])
    engine = load_engine(settings["engine"])
    encoder = load_encoder(settings["encoder"])
    detector = filled(DetectorParams, settings["detector"])
    training = filled(DetectorTrainingParams, settings["training"])
    with detector_state(settings, key) as checkpoint:
        detections, loss = engine(encoder, train, test, detector, training, seed, checkpoint)
    # All variants and seeds have the same draws, so that differences are paired.
    resamples = resampled(test, detections, RESAMPLES)
    return {
        "ap": evaluate(test, detections),
        "resampled": {name: values.tolist() for name, values in resamples.items()},
        "loss": loss,
        "shown": first_detections(test, detections),
    }


def load_engine(name: str) -> Callable[..., Any]:
    """Returns `train_and_detect` of torchvision, which runs on every machine, or of an installed Detectron2.

    Raises:
        InputError: as `check_engine`.
    """
    check_engine(name)
    if name == "detectron2":
        from annulus_lab.studies.detection import detectron2_engine

        return detectron2_engine.train_and_detect
    from annulus_lab.studies.detection import torchvision_engine

    return torchvision_engine.train_and_detect


def detector_state(settings: Mapping[str, Any], key: tuple[str, int]) -> Checkpoint:
    """Checkpoint of a training of `evaluate_detector`."""
    return Checkpoint("detection-training", {"settings": settings, "piece": list(key)}, described(pick_device()))


@cache
def cached_splits(root: Path, kind: str, drop_empty: bool) -> tuple[Annotated, Annotated]:
    """Calls `read_splits` once: forked workers share the splits that a stage has read."""
    return read_splits(root, kind, drop_empty)


def first_detections(test: Annotated, detections: Sequence[Detection]) -> list[dict[str, Any]]:
    """Detections in the first pictures as plain values, for the results of a task."""
    ids = {picture.id for picture in test.pictures[:SHOWN]}
    return [asdict(one) for one in detections if one.picture in ids]
