"""Annotated pictures as a detector's input: pixels, targets, and the order of training."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from annulus.datasets.decode import opened, reason
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import Annotated, Instance, Picture, decode_mask

Target = dict[str, Tensor]


class Sample(NamedTuple):
    """RGB image in [0, 1], and its annotations under torchvision's names."""

    image: Float[Tensor, "3 h w"]
    target: Target


def read_image(picture: Picture) -> Float[Tensor, "3 h w"]:
    """Reads RGB pixels in [0, 1], upright.

    Raises:
        InputError: when the file is missing, is not an image, or its size differs from the annotation.
    """
    try:
        pixels = np.array(opened(picture.file))
    except Exception as error:  # Pillow's decoders raise many kinds of errors for broken bytes
        raise InputError(
            f"{picture.file}: no image that can be read ({reason(error)}); put the data set there again"
        ) from error
    if pixels.shape[:2] != (picture.height, picture.width):
        raise InputError(
            f"{picture.file} has {pixels.shape[1]} x {pixels.shape[0]} pixels, its annotation says "
            f"{picture.width} x {picture.height}; take the annotations of these images"
        )
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


def category_labels(annotated: Annotated) -> dict[int, int]:
    """Label of each category for a detector: from 1 in the order of the file; 0 is the background."""
    return {category.id: place for place, category in enumerate(annotated.categories, start=1)}


def learnable(annotated: Annotated, outputs: str) -> list[Picture]:
    """Pictures for the training of a detector: with an object, or for keypoints with a labelled point.

    Raises:
        InputError: when no picture is left.
    """
    pictures = [picture for picture in annotated.pictures if learnable_instances(picture, outputs)]
    if not pictures:
        raise InputError(f"no training picture has an object with {outputs}; take other scenes or other outputs")
    return pictures


def read_sample(picture: Picture, labels: dict[int, int], outputs: str) -> Sample:
    """Reads a picture and its targets: without crowds, with VOC's difficult objects, as in Detectron2."""
    instances = learnable_instances(picture, outputs)
    corners = torch.tensor([instance.box for instance in instances], dtype=torch.float32).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    numbers = torch.tensor([labels[instance.category] for instance in instances], dtype=torch.int64)
    target = {"boxes": corners, "labels": numbers}
    if outputs == "masks":
        masks = [decode_mask(instance, picture.height, picture.width) for instance in instances]
        shape = (0, picture.height, picture.width)
        target["masks"] = torch.from_numpy(np.stack(masks)).byte() if masks else torch.zeros(shape, dtype=torch.uint8)
    if outputs == "keypoints":
        points = [keypoint_places(instance) for instance in instances]
        target["keypoints"] = torch.tensor(points, dtype=torch.float32).reshape(len(points), -1, 3)
    return Sample(read_image(picture), target)


def keypoint_places(instance: Instance) -> list[float]:
    """x, y and visibility of each keypoint; x and y are places in the plane: pixel numbers plus one half."""
    return [value if number % 3 == 2 else value + 0.5 for number, value in enumerate(instance.keypoints or ())]


def keypoint_pixels(places: Float[Tensor, "p 3"]) -> tuple[float, ...]:
    """Inverts `keypoint_places`, for one object."""
    return tuple((places - torch.tensor([0.5, 0.5, 0.0])).flatten().tolist())


def mirrored(sample: Sample, flip_pairs: Sequence[tuple[int, int]] | None) -> Sample:
    """Mirrors a sample left to right; the left eye of a mirrored person becomes the right one."""
    image, target = sample
    width, target = image.shape[2], dict(sample.target)
    target["boxes"] = target["boxes"][:, [2, 1, 0, 3]] * torch.tensor([-1, 1, -1, 1]) + torch.tensor(
        [width, 0, width, 0]
    )
    if "masks" in target:
        target["masks"] = target["masks"].flip(2)
    if "keypoints" in target:
        points = target["keypoints"].clone()
        points[..., 0] = width - points[..., 0]
        places = list(range(points.shape[1]))
        for left, right in flip_pairs or ():
            places[left], places[right] = right, left
        points = points[:, places]
        points[points[..., 2] == 0] = 0  # unlabelled points have no position
        target["keypoints"] = points
    return Sample(image.flip(2), target)


def repeat_factors(pictures: Sequence[Picture], threshold: float) -> list[float]:
    """Repeats of each picture per epoch: at least 1, else the largest sqrt(threshold / share) of its categories.

    Source: Gupta et al. 2019, "LVIS: a dataset for large vocabulary instance segmentation", CVPR.
    """
    by_picture = [{instance.category for instance in picture.instances} for picture in pictures]
    counts = Counter(category for categories in by_picture for category in categories)
    factor = {category: max(1.0, math.sqrt(threshold * len(pictures) / count)) for category, count in counts.items()}
    return [max((factor[category] for category in categories), default=1.0) for categories in by_picture]


def order(factors: Sequence[float], seed: int) -> Iterator[int]:
    """Endless order of pictures, epoch after epoch; a factor's fraction is the probability of one more repeat."""
    expected = torch.tensor(factors, dtype=torch.float64)
    epoch = 0
    while True:
        random = generator(seed, "order", epoch)
        times = expected.floor() + (torch.rand(len(expected), generator=random, dtype=torch.float64) < expected % 1)
        places = torch.arange(len(expected)).repeat_interleave(times.long())
        yield from places[torch.randperm(len(places), generator=random)].tolist()
        epoch += 1


def learnable_instances(picture: Picture, outputs: str) -> list[Instance]:
    """Objects for the training of a detector: no crowds, only objects with an area and with the detector's output."""
    instances = [one for one in picture.instances if not one.crowd and min(one.box[2:]) > 0]
    if outputs == "masks":
        instances = [one for one in instances if one.segmentation is not None]
    if outputs == "keypoints":
        instances = [one for one in instances if one.keypoints is not None and any(one.keypoints[2::3])]
    return instances
