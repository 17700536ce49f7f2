"""Small annotated pictures, and detections in them, for the tests of detection."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from annulus_lab.studies.detection.annotated import (
    LIMBS,
    PERSON,
    Annotated,
    Category,
    Detection,
    Instance,
    Picture,
    run_lengths,
)

SIDE = 120  # pixels of a picture


def filled(x: int, y: int, width: int, height: int, shape: tuple[int, int] = (SIDE, SIDE)) -> np.ndarray:
    mask = np.zeros(shape, dtype=bool)
    mask[y : y + height, x : x + width] = True
    return mask


def boxed(*box: int, category: int = 1, difficult: bool = False, crowd: bool = False, shape=(SIDE, SIDE)) -> Instance:
    """An object that fills its box."""
    area, shape = float(box[2] * box[3]), run_lengths(filled(*box, shape))
    return Instance(tuple(map(float, box)), category, area, crowd, shape, None, difficult)


def detect(*box: int, score: float = 0.9, picture: int = 1, category: int = 1) -> Detection:
    return Detection(picture, category, tuple(map(float, box)), score, run_lengths(filled(*box)), None)


def as_detections(truth: Annotated, score: float = 0.9) -> list[Detection]:
    return [
        Detection(picture.id, one.category, one.box, score, one.segmentation, one.keypoints)
        for picture in truth.pictures
        for one in picture.instances
    ]


def annotated(
    kind: str,
    *pictures: list[Instance],
    categories: tuple[str | None, ...] = (None,),
    negative: dict[int, tuple[int, ...]] | None = None,
    not_exhaustive: dict[int, tuple[int, ...]] | None = None,
) -> Annotated:
    """Pictures numbered from 1 with these objects, and categories numbered from 1 with these frequencies."""
    people = (LIMBS, PERSON) if kind == "keypoints" else (None, None)
    return Annotated(
        kind,
        tuple(
            Picture(
                *(id, Path(f"{id}.png"), SIDE, SIDE, tuple(instances)),
                *((known or {}).get(id, ()) for known in (negative, not_exhaustive)),
            )
            for id, instances in enumerate(pictures, 1)
        ),
        tuple(Category(id, f"class {id}", frequency) for id, frequency in enumerate(categories, 1)),
        *(*people, None),
    )


def random_case(kind: str, seed: int) -> tuple[Annotated, list[Detection]]:
    """Objects in twelve pictures, and detections that are shifted copies of some, of other classes, or anywhere."""
    draw, people = np.random.default_rng(seed), kind == "keypoints"
    classes = 1 if people else 4
    objects, detections = [], []
    for picture in range(1, 13):
        objects.append([])
        for _ in range(draw.integers(0, 6)):
            wide, high = draw.integers(8, 100, 2).tolist()
            x, y = draw.integers(0, SIDE - wide + 1), draw.integers(0, SIDE - high + 1)
            crowd = kind != "lvis" and draw.random() < 0.1
            one = boxed(x, y, wide, high, category=int(draw.integers(1, classes + 1)), crowd=crowd)
            places = [x + draw.random(17) * wide, y + draw.random(17) * high, draw.integers(0, 3, 17)]
            points = (np.stack(places, axis=1) * (places[2] > 0)[:, None]).ravel()
            objects[-1].append(replace(one, keypoints=tuple(points.tolist()) if people else None))
            for _ in range(draw.integers(0, 4)):
                left, top = np.clip(np.array([x, y]) + draw.integers(-wide // 4, wide // 4 + 1, 2), 0, SIDE - 8)
                other = one.category if draw.random() < 0.8 else int(draw.integers(1, classes + 1))
                near = detect(left, top, wide, high, score=float(draw.random()), picture=picture, category=other)
                moved = tuple((points + draw.normal(0, 4, 51) * ([1, 1, 0] * 17)).tolist())
                detections.append(replace(near, keypoints=moved if people else None))
    return annotated(kind, *objects, categories=(None,) * classes), detections
