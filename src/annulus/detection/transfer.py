"""Detection as a test of encoders: each variant and seed trains a detector on the same pictures, with the same draws.

AP is no mean over pictures, so what test pictures add to its interval comes from a jackknife: AP is measured again
without each of `BLOCKS` parts of the test pictures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from annulus.detection.annotated import Annotated, Detection
from annulus.detection.average_precision import evaluate
from annulus.detection.engines import engine_of
from annulus.detection.params import DetectorParams, TrainingParams
from annulus.detection.splits import read_splits
from annulus.encoders.encoder import load_encoder
from annulus.files.results import Number
from annulus.pipeline.checkpoint import Checkpoint

BLOCKS = 10
SHOWN = 6  # test pictures in the grid, of the first seed


def measured(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """What the detector around one encoder is worth, for (variant, seed): AP, its pseudo-values, the last loss.

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
        "pseudo": pseudo_values(test, found),
        "loss": loss,
        "shown": shown(test, found),
    }


def pseudo_values(test: Annotated, found: Sequence[Detection]) -> dict[str, list[float]]:
    """Of each number K n - (K - 1) n_k, with n_k measured without the k-th of K blocks of test pictures.

    Their mean is the jackknife's estimate, and they vary between blocks as independent parts would. A number that some
    part does not have is left out.

    Source: Tukey 1958, "Bias and confidence in not quite large samples", Annals of Mathematical Statistics 29.
    """
    whole, blocks = evaluate(test, found), min(BLOCKS, len(test.pictures))
    parts = []
    for block in range(blocks):
        pictures = tuple(one for place, one in enumerate(test.pictures) if place % blocks != block)
        left = {picture.id for picture in pictures}
        parts.append(evaluate(replace(test, pictures=pictures), [one for one in found if one.picture in left]))
    return {
        name: [blocks * value - (blocks - 1) * part[name] for part in parts]
        for name, value in whole.items()
        if all(name in part for part in parts)
    }


def shown(test: Annotated, found: Sequence[Detection]) -> list[dict[str, Number]]:
    """The detections of the first pictures as plain values, for the picture of the stage."""
    ids = {picture.id for picture in test.pictures[:SHOWN]}
    return [
        {**vars(one), "box": list(one.box), "keypoints": None if one.keypoints is None else list(one.keypoints)}
        for one in found
        if one.picture in ids
    ]
