"""Writes generated scenes in the layouts of COCO, Pascal VOC and LVIS, for the same readers."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from PIL import Image
from tqdm import tqdm

from annulus.datasets.outlines import OUTLINES
from annulus.device.rng import derive
from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import LIMBS, PERSON
from annulus_lab.studies.detection.federation import Federation, federated, weights
from annulus_lab.studies.detection.polygons import bounding_box, mask_rectangles
from annulus_lab.studies.detection.scenes import KINDS_OF_OBJECTS, DrawnScene, draw_scene
from annulus_lab.studies.detection.scenes_params import SceneParams
from annulus_lab.studies.detection.voc import VOC_SPLITS

EQUAL = (1,) * len(KINDS_OF_OBJECTS)
FOLDERS = {"train": "train2017", "val": "val2017"}  # of COCO and LVIS
DIFFICULT = 60  # percent: objects with a smaller visible part are difficult in VOC
SUFFIX = {"png": "PNG", "jpg": "JPEG"}


def write_scenes(root: Path, kind: str, params: SceneParams, seed: int) -> None:
    """Draws both splits and writes them under the root, in the layout of `splits.read_splits`.

    Categories are the five outlines. LVIS has them in five hues, from frequent to rare. Keypoints have persons.

    Raises:
        InputError: when the disk is full.
    """
    try:
        if kind == "voc":
            for split in FOLDERS:
                _write_voc(root, split, params, seed)
            return
        (root / "annotations").mkdir(parents=True, exist_ok=True)
        write = _write_lvis if kind == "lvis" else _write_coco
        write(root, kind, params, seed)
    except OSError as error:
        raise InputError(f"cannot write {root}: {error.strerror or error}; free some space, then run again") from error


def drawn(kind: str, split: str, params: SceneParams, seed: int) -> Iterable[tuple[int, DrawnScene]]:
    """Draws the scenes of a split, numbered from 1; training and test pictures differ."""
    key = derive(seed, "scenes", kind if kind in ("keypoints", "lvis") else "objects", split)
    often = weights(split) if kind == "lvis" else EQUAL
    count = params.train if split == "train" else params.val
    for row in tqdm(range(count), desc=f"{split} scenes", unit=" images", disable=None):
        yield row + 1, draw_scene(row, params.image_size, params.most_objects, often, key, kind == "keypoints")


def _write_coco(root: Path, kind: str, params: SceneParams, seed: int) -> None:
    stem = "person_keypoints" if kind == "keypoints" else "instances"
    for split, folder in FOLDERS.items():
        images, annotations = [], []
        for number, scene in drawn(kind, split, params, seed):
            name = _write_image(root / folder, f"{number:012d}", scene, params.format)
            images.append({"id": number, "file_name": name} | _size(scene))
            for thing in scene.things:
                label = 1 if kind == "keypoints" else thing.label % len(OUTLINES) + 1
                points = {} if thing.keypoints is None else _points(thing.keypoints)
                record = _annotation(len(annotations) + 1, number, label, thing.mask)
                annotations.append(record | {"iscrowd": 0} | points)
        categories = _person() if kind == "keypoints" else _named(list(OUTLINES))
        _write_records(root / "annotations" / f"{stem}_{split}2017.json", images, annotations, categories)


def _write_lvis(root: Path, kind: str, params: SceneParams, seed: int) -> None:
    """Writes both splits as LVIS does; frequencies count training images and are the same in both files."""
    splits: dict[str, list[tuple[dict[str, Any], Federation]]] = {}
    for split, folder in FOLDERS.items():
        splits[split] = []
        for number, scene in drawn(kind, split, params, seed):
            name = _write_image(root / folder, f"{number:012d}", scene, params.format)
            address = f"http://images.cocodataset.org/{folder}/{name}"
            image = {"id": number, "coco_url": address} | _size(scene)
            splits[split].append((image, federated(scene, number, derive(seed, "federation", split))))
    counts = Counter(label for _, known in splits["train"] for label in {thing.label for thing in known.things})
    categories = [
        record | {"frequency": lvis_frequency(counts[label]), "image_count": counts[label]}
        for label, record in enumerate(_named(KINDS_OF_OBJECTS))
    ]
    for split, pictures in splits.items():
        images, annotations = [], []
        for image, known in pictures:
            images.append(
                image
                | {"neg_category_ids": [label + 1 for label in known.negative]}
                | {"not_exhaustive_category_ids": [label + 1 for label in known.not_exhaustive]}
            )
            for thing in known.things:
                annotations.append(_annotation(len(annotations) + 1, image["id"], thing.label + 1, thing.mask))
        _write_records(root / "annotations" / f"lvis_v1_{split}.json", images, annotations, categories)


def lvis_frequency(images: int) -> str:
    """Frequency of a category by its number of training images: rare up to 10, common up to 100, else frequent.

    Source: Gupta et al. 2019, "LVIS: a dataset for large vocabulary instance segmentation", CVPR.
    """
    return "r" if images <= 10 else "c" if images <= 100 else "f"


def _write_voc(root: Path, split: str, params: SceneParams, seed: int) -> None:
    names, present = [], []
    lists = root / "ImageSets" / "Main"
    for folder in (lists, root / "Annotations"):
        folder.mkdir(parents=True, exist_ok=True)
    for number, scene in drawn("voc", split, params, seed):
        name = f"{number + (0 if split == 'train' else params.train):06d}"
        file = _write_image(root / "JPEGImages", name, scene, params.format)
        (root / "Annotations" / f"{name}.xml").write_bytes(_xml(scene, file))
        names.append(name)
        present.append({thing.label % len(OUTLINES) for thing in scene.things})
    listed = VOC_SPLITS[split]
    (lists / f"{listed}.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    for label, outline in enumerate(OUTLINES):
        signs = [f"{name} {1 if label in some else -1:2d}\n" for name, some in zip(names, present, strict=True)]
        (lists / f"{outline}_{listed}.txt").write_text("".join(signs), encoding="utf-8")


def _xml(scene: DrawnScene, file: str) -> bytes:
    """XML of a scene; boxes reach from the first to the last pixel, counted from 1."""
    tree = ElementTree.Element("annotation")
    ElementTree.SubElement(tree, "filename").text = file
    size = ElementTree.SubElement(tree, "size")
    for name, number in (_size(scene) | {"depth": 3}).items():
        ElementTree.SubElement(size, name).text = str(number)
    for thing in scene.things:
        element = ElementTree.SubElement(tree, "object")
        ElementTree.SubElement(element, "name").text = list(OUTLINES)[thing.label % len(OUTLINES)]
        ElementTree.SubElement(element, "difficult").text = str(int(thing.seen < DIFFICULT))
        x, y, width, height = bounding_box(thing.mask)
        corners = {"xmin": x + 1, "ymin": y + 1, "xmax": x + width, "ymax": y + height}
        box = ElementTree.SubElement(element, "bndbox")
        for name, number in corners.items():
            ElementTree.SubElement(box, name).text = str(number)
    ElementTree.indent(tree)
    return ElementTree.tostring(tree)


def _write_image(folder: Path, name: str, scene: DrawnScene, suffix: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(scene.image).save(folder / f"{name}.{suffix}", SUFFIX[suffix], quality=95)
    return f"{name}.{suffix}"


def _size(scene: DrawnScene) -> dict[str, int]:
    return {"width": scene.image.shape[1], "height": scene.image.shape[0]}


def _annotation(number: int, image: int, category: int, mask: np.ndarray) -> dict[str, Any]:
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "bbox": list(bounding_box(mask)),
        "area": int(mask.sum()),
        "segmentation": mask_rectangles(mask),
    }


def _points(keypoints: Sequence[float]) -> dict[str, Any]:
    return {"keypoints": [int(at) for at in keypoints], "num_keypoints": sum(seen > 0 for seen in keypoints[2::3])}


def _named(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"id": number, "name": name} for number, name in enumerate(names, 1)]


def _person() -> list[dict[str, Any]]:
    limbs = [[first + 1, second + 1] for first, second in LIMBS]
    return [{"id": 1, "name": "person", "keypoints": list(PERSON), "skeleton": limbs}]


def _write_records(path: Path, images: list, annotations: list, categories: list) -> None:
    content = {"images": images, "annotations": annotations, "categories": categories}
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
