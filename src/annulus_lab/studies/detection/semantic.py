"""Segmentation decoder on the annotated pictures of detectors, as another test of frozen encoders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image, ImageOps
from torch import Tensor

from annulus.datasets.decode import opened
from annulus.device.device import pick_device
from annulus.encoders.extract import extract
from annulus.encoders.saved import load_encoder
from annulus.errors import InputError
from annulus.evals.iou import confusion, mean_iou, pixel_accuracy
from annulus.evals.segmentation import segment
from annulus.files.images import IGNORED, ImageSet
from annulus.files.store import Resident
from annulus_lab.config.params import filled
from annulus_lab.studies.detection.annotated import Annotated, Picture, decode_mask
from annulus_lab.studies.detection.bootstrap import draws
from annulus_lab.studies.detection.detection_params import SegmentsParams
from annulus_lab.studies.detection.detector_runs import RESAMPLES, SHOWN, cached_splits

NUMBERS = {"mean_iou_percent": mean_iou, "pixel_accuracy_percent": pixel_accuracy}


def semantic(annotated: Annotated, side: int) -> ImageSet:
    """Squares of `side` pixels from the pictures, with a class for each pixel.

    A class is 0 without an object, else the number of its category in the order of the file. The smaller of two
    overlapping objects counts. Crowds are ignored. The shorter side is scaled to `side`, and the middle is kept.

    Raises:
        InputError: when objects have no masks, or there are more categories than numbers.
    """
    if annotated.kind not in ("masks", "lvis"):
        raise InputError(f"annotations of kind {annotated.kind} have no masks to segment; take masks or lvis")
    if len(annotated.categories) >= IGNORED:
        raise InputError(f"{len(annotated.categories)} categories; a mask numbers at most {IGNORED - 1} of them")
    numbers = {category.id: place for place, category in enumerate(annotated.categories, start=1)}
    rows = torch.arange(len(annotated.pictures))
    # A list beside the tensors would double the memory: COCO has 93 GB of pixels and 31 GB of classes.
    pixels = torch.empty(len(rows), 3, side, side, dtype=torch.uint8)
    masks = torch.empty(len(rows), side, side, dtype=torch.uint8)
    for image, mask, picture in zip(pixels, masks, annotated.pictures, strict=True):
        fitted = np.array(ImageOps.fit(opened(picture.file), (side, side), Image.Resampling.BILINEAR))
        image.copy_(torch.from_numpy(fitted).permute(2, 0, 1))
        classes = Image.fromarray(_classes(picture, numbers))
        mask.copy_(torch.from_numpy(np.array(ImageOps.fit(classes, (side, side), Image.Resampling.NEAREST))))
    return ImageSet(Resident(pixels), torch.zeros_like(rows), rows, (annotated.kind,), masks)


def evaluate_segmentation(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """Trains a segmentation decoder on the maps of the encoder of (variant, seed); returns its results.

    The results are mean IoU and pixel accuracy (`ap`), the same numbers on resampled pictures, the last loss, and the
    classes of the first test pictures (`predicted`). The other names are the same as in
    `detector_runs.evaluate_detector`. `settings` holds `segments`, the folder `scenes` and the file `encoder`.
    """
    (_, seed), device = key, pick_device()
    params = filled(SegmentsParams, settings["segments"])
    splits = cached_splits(Path(settings["scenes"]), settings["kind"], settings["drop_empty"])
    encoder = load_encoder(settings["encoder"])
    train, test = (semantic(split, params.side) for split in splits)
    train_features, test_features = (
        extract(encoder, images, ["map"], device, view_size=params.side) for images in (train, test)
    )
    result = segment(train_features, train.masks, test_features, test.masks, params, seed, device)
    # With all classes of the file, since a picture has only few.
    counts = [
        confusion(*pair, len(splits[0].categories) + 1) for pair in zip(result.predicted, test.masks, strict=True)
    ]
    return {
        "ap": {name: result.metrics[name] for name in NUMBERS},
        "resampled": _resampled(torch.stack(counts)),
        "loss": result.history[-1]["loss_nats"],
        "predicted": result.predicted[:SHOWN],
    }


def _classes(picture: Picture, numbers: Mapping[int, int]) -> UInt8[np.ndarray, "h w"]:
    """Class of each pixel of a picture's file."""
    classes = np.zeros((picture.height, picture.width), np.uint8)
    for instance in sorted(picture.instances, key=lambda one: (not one.crowd, -one.area)):
        if instance.segmentation is not None:
            number = IGNORED if instance.crowd else numbers[instance.category]
            classes[decode_mask(instance, picture.height, picture.width)] = number
    return classes


def _resampled(counts: Int64[Tensor, "n c c"]) -> dict[str, list[float]]:
    """Values of each number on the pictures themselves, and on draws that all variants and seeds share."""
    drawn = [torch.einsum("n,nij->ij", torch.from_numpy(often), counts) for often in draws(len(counts), RESAMPLES)]
    return {name: [number(one) for one in drawn] for name, number in NUMBERS.items()}
