"""Engine `torchvision`, for every machine: trains a detector on pictures and detects in others.

torchvision's box loss is smooth L1 with beta 1/9, Detectron2's is L1. The mask target is the covered share of a bin; in
Detectron2 it is 1 from one half on. Anchors are rounded to whole pixels. RoIAlign (of the maps and of the mask
targets), matching and sampling agree.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch import Tensor

from annulus.device.device import pick_device
from annulus.device.rng import derive, first_weights, generator
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.running.checkpoint import Checkpoint
from annulus_lab.studies.detection.annotated import Annotated, Detection, Picture, run_lengths
from annulus_lab.studies.detection.detection_params import DetectorParams, DetectorTrainingParams
from annulus_lab.studies.detection.detector import Detector, DetectorInput
from annulus_lab.studies.detection.fitting import fit
from annulus_lab.studies.detection.levels import Levels
from annulus_lab.studies.detection.samples import (
    Sample,
    Target,
    category_labels,
    keypoint_pixels,
    learnable,
    mirrored,
    order,
    read_image,
    read_sample,
    repeat_factors,
)

CACHE_BYTES = 2**30  # of a frozen backbone's maps in memory; further maps are computed at each use
AT_ONCE = 8  # pictures of one batch of detection


class Reader:
    """Reads training pictures; computes a picture's maps once if every read gives the same maps."""

    def __init__(self, detector: Detector, train: Annotated, seed: int) -> None:
        params = detector.params
        self.detector, self.seed, self.labels = detector, seed, category_labels(train)
        self.pictures, self.flip_pairs = learnable(train, params.outputs), train.flip_pairs
        self.same = params.frozen and not params.flip and len(params.shorter) == 1
        self.cache: dict[int, DetectorInput] = {}
        self.bytes = 0

    def batch(self, places: Sequence[int], step: int) -> list[DetectorInput]:
        """Inputs of the pictures at some places, mirrored by this step's draws."""
        flips = torch.rand(len(places), generator=generator(self.seed, "flip", step)) < 0.5
        return [self._read(place, bool(flip)) for place, flip in zip(places, flips, strict=True)]

    def _read(self, place: int, flip: bool) -> DetectorInput:
        if place in self.cache:
            return self.cache[place]
        params = self.detector.params
        sample = read_sample(self.pictures[place], self.labels, params.outputs)
        read = self.detector.read(mirrored(sample, self.flip_pairs) if flip and params.flip else sample)
        size = sum(tensor.nbytes for tensor in (*read.maps, *read.target.values()))
        if self.same and self.bytes + size <= CACHE_BYTES:
            self.cache[place] = read
            self.bytes += size
        return read


def build_detector(encoder: Encoder | SplitEncoder, train: Annotated, params: DetectorParams, seed: int) -> Detector:
    """Detector with initial weights around an encoder; the same seed gives the same weights."""
    points = len(train.keypoint_names or ())
    learnable(train, params.outputs)
    with first_weights(derive(seed, "detector")):
        return Detector(Levels(encoder), params, len(train.categories), points)


def train_detector(
    encoder: Encoder | SplitEncoder,
    train: Annotated,
    params: DetectorParams,
    training: DetectorTrainingParams,
    seed: int,
    checkpoint: Checkpoint | None,
) -> tuple[Detector, float]:
    """Trains a detector; returns it with the mean loss of its last steps. `training` is first scaled to its batch."""
    detector = build_detector(encoder, train, params, seed).to(pick_device()).train()
    reader, training = Reader(detector, train, seed), training.scaled()
    threshold, size = training.repeat_threshold, training.batch_size
    factors = [1.0] * len(reader.pictures) if threshold is None else repeat_factors(reader.pictures, threshold)
    places = list(islice(order(factors, seed), training.iterations * size))

    def losses(step: int) -> dict[str, Tensor]:
        return detector.losses(reader.batch(places[step * size : (step + 1) * size], step))

    return detector, fit(detector, losses, training, seed, checkpoint)


@torch.no_grad()
def detect(detector: Detector, annotated: Annotated) -> list[Detection]:
    """Detections in the pictures of a split."""
    detector.eval()
    ids = {label: category for category, label in category_labels(annotated).items()}
    detections: list[Detection] = []
    for pictures in _groups(annotated.pictures):
        empty: Target = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
        reads = [detector.read(Sample(read_image(picture), dict(empty))) for picture in pictures]
        sizes = [(picture.height, picture.width) for picture in pictures]
        for picture, result in zip(pictures, detector.detect(reads, sizes), strict=True):
            detections += _detections(picture, {name: value.cpu() for name, value in result.items()}, ids)
    return detections


def train_and_detect(
    encoder: Encoder | SplitEncoder,
    train: Annotated,
    test: Annotated,
    params: DetectorParams,
    training: DetectorTrainingParams,
    seed: int,
    checkpoint: Checkpoint | None,
) -> tuple[list[Detection], float]:
    """Trains a detector on `train`; returns its detections in `test` and its last loss."""
    detector, loss = train_detector(encoder, train, params, training, seed, checkpoint)
    return detect(detector, test), loss


def _groups(pictures: Sequence[Picture]) -> Iterable[Sequence[Picture]]:
    for start in range(0, len(pictures), AT_ONCE):
        yield pictures[start : start + AT_ONCE]


def _detections(picture: Picture, result: Target, ids: dict[int, int]) -> Iterable[Detection]:
    """Detections of a picture; a mask holds the pixels with a probability above one half."""
    for place, (corners, label, score) in enumerate(
        zip(result["boxes"].tolist(), result["labels"].tolist(), result["scores"].tolist(), strict=True)
    ):
        left, top, right, bottom = corners
        mask = result["masks"][place, 0] > 0.5 if "masks" in result else None
        points = None
        if "keypoints" in result:
            places = result["keypoints"][place].clone()
            places[:, 2] = result["keypoints_scores"][place]
            points = keypoint_pixels(places)
        yield Detection(
            picture=picture.id,
            category=ids[label],
            box=(left, top, right - left, bottom - top),
            score=score,
            segmentation=None if mask is None else run_lengths(mask.numpy()),
            keypoints=points,
        )
