"""A few pictures with rectangles, and detectors of milliseconds, for tests of detection."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
from by_path import ROOT, read_yaml
from detection_cases import boxed
from PIL import Image

from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus_lab.config.file import checked
from annulus_lab.studies.detection.annotated import PERSON, Annotated, Category, Picture, decode_mask, mirrored_pairs
from annulus_lab.studies.detection.detection_params import DetectorParams, DetectorTrainingParams

SIDE = 32
COLOURS = ((230, 40, 40), (40, 60, 230))
CONFIG = EncoderConfig("convnet", "imagenet", "linear", 8, 16, None, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
STUDY = read_yaml(ROOT / "stages/detection/params.yaml")
TINY = STUDY["scales"]["tiny"]
DETECTOR = STUDY["detector"] | TINY["detector"] | {"outputs": "boxes", "shorter": [SIDE], "shorter_test": SIDE}
DETECTOR |= {"longer": 2 * SIDE, "anchors": [8, 12, 16, 24]}
TRAINING = STUDY["training"] | TINY["training"] | {"iterations": 6, "drops": [4]}


def detector_params(**changes) -> DetectorParams:
    return checked(DETECTOR | changes, "detector", DetectorParams)


def training_params(**changes) -> DetectorTrainingParams:
    return checked(TRAINING | changes, "training", DetectorTrainingParams)


def beside_transfer(folder: Path) -> Path:
    """Path for the study's params.yaml in this folder, beside copies for the studies whose encoders it takes."""
    (folder / "stages/detection").mkdir(parents=True)
    for study in ("transfer", "cifar10_transfer"):
        (folder / "stages" / study).mkdir()
        shutil.copy(ROOT / f"stages/{study}/params.yaml", folder / "stages" / study)
    return folder / "stages/detection/params.yaml"


def encoder(seed: int = 0, **changes):
    """An untrained convnet in evaluation mode."""
    return build_encoder(replace(CONFIG, **changes), seed).eval().requires_grad_(False)


def rectangles(folder: Path, kind: str = "masks") -> Annotated:
    """Six pictures of one or two filled rectangles, red ones of category 3 and blue ones of category 7."""
    random, people = np.random.default_rng(0), kind == "keypoints"
    pictures = []
    for number in range(6):
        pixels, instances = np.full((SIDE, SIDE, 3), 128, np.uint8), []
        for place in range(random.integers(1, 3)):
            colour = int(random.integers(2))
            width, height = (int(side) for side in random.integers(8, 14, 2))
            left, top = 16 * place + int(random.integers(0, 3)), int(random.integers(0, SIDE - height))
            category = 1 if people else (3, 7)[colour]
            one = boxed(left, top, width, height, category=category, shape=(SIDE, SIDE))
            pixels[decode_mask(one, SIDE, SIDE)] = COLOURS[colour]
            steps = [(left + n * width / 17, top + n * height / 17, 2 if n % 5 else 0) for n in range(len(PERSON))]
            points = tuple(float(value) for step in steps for value in step) if people else None
            instances.append(replace(one, keypoints=points))
        file = folder / f"{number}.png"
        Image.fromarray(pixels).save(file)
        pictures.append(Picture(number + 1, file, SIDE, SIDE, tuple(instances), (), ()))
    if people:
        return Annotated(kind, tuple(pictures), (Category(1, "person", None),), (), PERSON, mirrored_pairs(PERSON))
    return Annotated(kind, tuple(pictures), (Category(3, "red", "f"), Category(7, "blue", "r")), None, None, None)
