"""Detection as a test of encoders: each variant and seed trains a detector on the same pictures, by the same draws."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from annulus.detection.annotated import Annotated, Detection
from annulus.detection.average_precision import evaluate
from annulus.detection.bootstrap import resampled
from annulus.detection.engines import engine_of
from annulus.detection.params import DetectorParams, TrainingParams
from annulus.detection.splits import read_splits
from annulus.encoders.encoder import load_encoder
from annulus.pipeline.checkpoint import Checkpoint

RESAMPLES = 100  # of the test pictures, for intervals
SHOWN = 6  # test pictures in the grid, of the first seed


def measured(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """What the detector around one encoder is worth, for (variant, seed): AP, AP of resampled pictures, the last loss.

    `settings` are those of a task beside `scenes` and `encoders`, a folder by variant.
    """
    variant, seed = key
    train, test = read_splits(Path(settings["scenes"]), settings["kind"], settings["drop_empty"])
    engine = engine_of(settings["engine"])
    encoder = load_encoder(Path(settings["encoders"][variant]) / f"{seed}.safetensors")
    detector = DetectorParams.model_validate(settings["detector"])
    training = TrainingParams.model_validate(settings["training"])
    resume = {name: value for name, value in settings.items() if name != "seeds"}
    with Checkpoint("detection-training", {"settings": resume, "piece": list(key)}) as checkpoint:
        found, loss = engine(encoder, train, test, detector, training, seed, checkpoint)
        checkpoint.done()
    return {
        "ap": evaluate(test, found),
        # All variants and seeds with the same draws, so that differences are paired.
        "resampled": {name: table[0].tolist() for name, table in resampled(test, {seed: found}, RESAMPLES, 0).items()},
        "loss": loss,
        "shown": shown(test, found),
    }


def shown(test: Annotated, found: Sequence[Detection]) -> list[dict[str, Any]]:
    """The detections in the first pictures as plain values, as a piece of a stage keeps them."""
    ids = {picture.id for picture in test.pictures[:SHOWN]}
    return [asdict(one) for one in found if one.picture in ids]
