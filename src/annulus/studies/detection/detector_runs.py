"""Detection as a test of encoders: each variant and seed trains a detector on the same pictures, by the same draws."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from annulus.config.params import filled
from annulus.device.device import described, pick_device
from annulus.encoders.encoder import load_encoder
from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus.running.checkpoint import Checkpoint, hash_encoder, hash_files
from annulus.running.code import hash_code
from annulus.running.workers import ResumableTasks
from annulus.studies.detection.annotated import Annotated, Detection
from annulus.studies.detection.average_precision import evaluate
from annulus.studies.detection.bootstrap import resampled
from annulus.studies.detection.params import DetectorParams, TrainingParams
from annulus.studies.detection.splits import read_splits
from annulus.studies.detection.tasks import check_engine

RESAMPLES = 100  # of the test pictures, for intervals
SHOWN = 6  # test pictures in the grid, of the first seed

RunsByVariant = Mapping[str, Mapping[int, Mapping[str, Any]]]  # of each variant and seed


def run_encoders(
    stage: str,
    settings: Mapping[str, Any],
    folder: Path,
    encoders: Mapping[str, Path],
    compute: Callable[[Any, Any], Mapping[str, Any]],
    inner: Callable[[Any, Any], Checkpoint] | None = None,
) -> tuple[Annotated, RunsByVariant, ResumableTasks]:
    """Run `compute` for every variant and seed on the scenes in a folder; `inner`, the state within a task.

    The folder holds the scenes or names their place. Returns the test pictures, the results, and the tasks, whose
    checkpoints are deleted once the results are written.
    """
    seeds, described = settings["seeds"], folder / "scenes.json"
    try:
        root = json.loads(read_text(described))["root"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(f"{described} is missing or names no scenes ({error}); run `dvc repro`") from error
    scenes = folder if root is None else Path(root)
    _, test = splits_of(scenes, settings["kind"], settings["drop_empty"])  # before the workers are forked
    # Of drawn scenes each file; of real ones, which are large, what the stage before found: counts and annotations.
    inputs = {"scenes": scenes, "content": hash_files(described if root else folder)}
    # The code as it is now: an edit while tasks wait for a worker changes none.
    shared = {name: value for name, value in settings.items() if name != "seeds"} | inputs
    shared["code"] = hash_code(Path(__file__))
    files = {(variant, seed): encoders[variant] / f"{seed}.safetensors" for variant in encoders for seed in seeds}
    tasks = ResumableTasks(stage, compute, pick_device(), inner)
    outcomes = tasks.run({key: shared | {"encoder": file, "hash": hash_encoder(file)} for key, file in files.items()})
    return test, {variant: {seed: outcomes[variant, seed] for seed in seeds} for variant in encoders}, tasks


def evaluate_detector(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """Results of the detector on one encoder, for (variant, seed): AP, AP of resampled pictures, the last loss.

    `settings` are those of a task beside `scenes`, a folder, and `encoder`, a file.
    """
    _, seed = key
    train, test = splits_of(Path(settings["scenes"]), settings["kind"], settings["drop_empty"])
    engine = engine_of(settings["engine"])
    encoder = load_encoder(settings["encoder"])
    detector = filled(DetectorParams, settings["detector"])
    training = filled(TrainingParams, settings["training"])
    with detector_state(settings, key) as checkpoint:
        detections, loss = engine(encoder, train, test, detector, training, seed, checkpoint)
    # All variants and seeds with the same draws, so that differences are paired.
    resamples = resampled(test, detections, RESAMPLES)
    return {
        "ap": evaluate(test, detections),
        "resampled": {name: values.tolist() for name, values in resamples.items()},
        "loss": loss,
        "shown": first_detections(test, detections),
    }


def engine_of(name: str) -> Callable[..., Any]:
    """`train_and_detect` by torchvision, on every machine, or by Detectron2 where it is installed.

    Raises:
        InputError: as `check_engine`.
    """
    check_engine(name)
    if name == "detectron2":
        from annulus.studies.detection import detectron2_engine

        return detectron2_engine.train_and_detect
    from annulus.studies.detection import torchvision_engine

    return torchvision_engine.train_and_detect


def detector_state(settings: Mapping[str, Any], key: tuple[str, int]) -> Checkpoint:
    """Where the training of `evaluate_detector` stands."""
    return Checkpoint("detection-training", {"settings": settings, "piece": list(key)}, described(pick_device()))


@cache
def splits_of(root: Path, kind: str, drop_empty: bool) -> tuple[Annotated, Annotated]:
    """`read_splits`, cached: forked workers share the splits that a stage has read."""
    return read_splits(root, kind, drop_empty)


def first_detections(test: Annotated, detections: Sequence[Detection]) -> list[dict[str, Any]]:
    """The detections in the first pictures as plain values, as a piece of a stage keeps them."""
    ids = {picture.id for picture in test.pictures[:SHOWN]}
    return [asdict(one) for one in detections if one.picture in ids]
