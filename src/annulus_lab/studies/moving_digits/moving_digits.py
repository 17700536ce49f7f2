"""Colourful moving digits: two views of a video that share chosen factors.

One view is the video's first frames, the other an image that shares the factors with a later frame. The factors of a
frame are the digit's class, the background and the position. Views that share the digit have two random drawings of one
class. A shared background is one image, cropped anew for every frame.

Source: Tian et al. 2020, arXiv:2005.10243, Section 4.2, Appendix B.1.
"""

from collections.abc import Collection
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from annulus_lab.studies.moving_digits.digit_scenes import Scenes, draw_scenes
from annulus_lab.studies.moving_digits.digits_params import WorldParams
from annulus_lab.studies.moving_digits.motion import draw_paths


class DigitImages(NamedTuple):
    """One split's digits and backgrounds, with their classes."""

    digits: UInt8[Tensor, "m d d"]
    digit_labels: Int64[Tensor, "m"]
    grounds: UInt8[Tensor, "k 3 g g"]
    ground_labels: Int64[Tensor, "k"]


class ViewPair(NamedTuple):
    """Two views of each video: its first frames, video after video, and an image."""

    first: Scenes  # n * frames of them
    second: Scenes
    target: Scenes  # the frame whose factors the second view shares


class World:
    """Draws scenes, videos and views."""

    def __init__(self, params: WorldParams, images: DigitImages) -> None:
        self.params, self.images = params, images
        self.room = params.canvas - images.digits.shape[-1]
        self.margin = images.grounds.shape[-1] - params.canvas
        self.by_class = images.digit_labels.argsort(stable=True)
        self.class_counts = images.digit_labels.bincount()

    def scenes(self, count: int, random: torch.Generator) -> Scenes:
        """Draws frames with independent factors."""
        return Scenes(
            torch.randint(len(self.images.digits), (count,), generator=random),
            torch.randint(len(self.images.grounds), (count,), generator=random),
            (self.room * torch.rand(count, 2, generator=random)).round().long(),
            self.crops(count, random),
        )

    def crops(self, count: int, random: torch.Generator) -> Int64[Tensor, "n 2"]:
        return torch.randint(self.margin + 1, (count, 2), generator=random)

    def redrawn(self, digits: Int64[Tensor, "n"], random: torch.Generator) -> Int64[Tensor, "n"]:
        """Random digits of the same classes."""
        labels = self.images.digit_labels[digits]
        places = (torch.rand(len(digits), generator=random, dtype=torch.float64) * self.class_counts[labels]).long()
        return self.by_class[self.class_counts.cumsum(dim=0)[labels] - 1 - places]

    def pairs(self, count: int, shared: Collection[str], random: torch.Generator) -> ViewPair:
        """Draws two views of `count` videos. The draws do not depend on `shared`: all sharings have the same videos."""
        params = self.params
        start, other = self.scenes(count, random), self.scenes(count, random)
        frames = max(params.frames, params.target)
        paths = draw_paths(count, frames, self.room, params.speed * params.canvas, random).round().long()
        first = Scenes(
            start.digit.repeat_interleave(params.frames),
            start.ground.repeat_interleave(params.frames),
            paths[:, : params.frames].flatten(0, 1),
            self.crops(count * params.frames, random),
        )
        target = start._replace(place=paths[:, params.target - 1])
        drawing = self.redrawn(target.digit, random)
        second = Scenes(
            drawing if "digit" in shared else other.digit,
            target.ground if "background" in shared else other.ground,
            target.place if "position" in shared else other.place,
            other.crop,
        )
        return ViewPair(first, second, target)

    def pixels(self, scenes: Scenes) -> Float[Tensor, "n 3 canvas canvas"]:
        """Images of the scenes."""
        return draw_scenes(scenes, self.images.digits, self.images.grounds, self.params.canvas)
