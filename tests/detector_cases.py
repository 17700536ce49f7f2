"""A few pictures with rectangles, and detectors of milliseconds, for tests of detection."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from annulus.config.file import checked
from annulus.detection.annotated import PERSON, Annotated, Category, Instance, Picture, flip_pairs_of, rle_of
from annulus.detection.params import DetectorParams, TrainingParams
from annulus.encoders.encoder import EncoderConfig, build_encoder

SIDE = 32
COLOURS = ((230, 40, 40), (40, 60, 230))
CONFIG = EncoderConfig("convnet", "imagenet", "linear", 8, 16, None, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
DETECTOR = {
    "outputs": "boxes",
    "neck": "fpn",
    "frozen": True,
    "normalisation": "none",
    "shorter": [SIDE],
    "shorter_test": SIDE,
    "longer": 2 * SIDE,
    "flip": False,
    "skipped": 0,
    "pyramid_width": 16,
    "anchors": [8, 12, 16, 24],
    "proposals_train": [100, 50],
    "proposals_test": [100, 50],
    "sampled_anchors": 32,
    "sampled_boxes": 16,
    "box_size": 3,
    "box_convolutions": 0,
    "box_width": 32,
    "mask_convolutions": 1,
    "mask_width": 16,
    "keypoint_convolutions": 1,
    "keypoint_width": 16,
    "score_threshold": 0.05,
    "detections": 10,
}
TRAINING = {
    "batch_size": 4,
    "reference_batch": 4,
    "learning_rate": 0.02,
    "iterations": 6,
    "drops": [4],
    "warmup": 2,
    "warmup_from": 0.001,
    "momentum": 0.9,
    "weight_decay": 0.0001,
    "clip": None,
    "repeat_threshold": None,
}


def detector_params(**changes) -> DetectorParams:
    return checked(DETECTOR | changes, "detector", DetectorParams)


def training_params(**changes) -> TrainingParams:
    return checked(TRAINING | changes, "training", TrainingParams)


def encoder(seed: int = 0, **changes):
    """An untrained convnet in evaluation."""
    config = CONFIG if not changes else CONFIG.__class__(**{**CONFIG.__dict__, **changes})
    return build_encoder(config, seed).eval().requires_grad_(False)


def rectangles(folder: Path, count: int, kind: str = "masks", seed: int = 0) -> Annotated:
    """Pictures of one or two filled rectangles, red ones of category 3 and blue ones of category 7."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for number in range(count):
        pixels, instances = np.full((SIDE, SIDE, 3), 128, np.uint8), []
        for place in range(random.integers(1, 3)):
            colour = int(random.integers(2))
            width, height = (int(side) for side in random.integers(8, 14, 2))
            left, top = 16 * place + int(random.integers(0, 3)), int(random.integers(0, SIDE - height))
            pixels[top : top + height, left : left + width] = COLOURS[colour]
            mask = np.zeros((SIDE, SIDE), bool)
            mask[top : top + height, left : left + width] = True
            points = None
            if kind == "keypoints":
                points = tuple(
                    float(value)
                    for point in range(len(PERSON))
                    for value in (left + point * width / 17, top + point * height / 17, 2 if point % 5 else 0)
                )
            box = (float(left), float(top), float(width), float(height))
            category = (3, 7)[colour] if kind != "keypoints" else 1
            instances.append(
                Instance(box, category, float(width * height), False, rle_of(mask), keypoints=points, difficult=False)
            )
        file = folder / f"{number}.png"
        Image.fromarray(pixels).save(file)
        pictures.append(Picture(number + 1, file, SIDE, SIDE, tuple(instances), (), ()))
    categories = (
        (Category(3, "red", "f"), Category(7, "blue", "r")) if kind != "keypoints" else (Category(1, "person", None),)
    )
    people = kind == "keypoints"
    return Annotated(
        kind,
        tuple(pictures),
        categories,
        () if people else None,
        PERSON if people else None,
        flip_pairs_of(PERSON) if people else None,
    )


def same_weights(one: torch.nn.Module, other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.state_dict().items())
