"""Sections of the params.yaml of the study of moving digits."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, MinLen

from annulus.errors import InputError, nearest
from annulus.settings import Decay, Rate, Rows, Rule, Section, Share, Steps, Temperature
from annulus_lab.studies.moving_digits.grounds import CLASSES

FACTORS = ("digit", "background", "position")

DigitPixels = Annotated[int, Ge(1), Le(1024)]  # pixels


def _factors(shared: list[str]) -> None:
    for factor in shared:
        if factor not in FACTORS:
            raise InputError(f"factor {factor!r} is none of {', '.join(FACTORS)}{nearest(factor, FACTORS)}")
    if len(set(shared)) < len(shared):
        raise InputError(f"{', '.join(shared)}: a factor stands twice; name each once")


SharedFactors = Annotated[list[str], MinLen(1), Rule(_factors)]


@dataclass(frozen=True, kw_only=True)
class WorldParams(Section):
    """Digit that moves over a background: sizes, speed, and the sources of both."""

    canvas: DigitPixels
    digit: DigitPixels
    ground: DigitPixels  # of a background image; every frame has a crop of it as large as the canvas
    speed: Annotated[float, Gt(0), Le(1)]  # share of the canvas per frame
    frames: Annotated[int, Ge(1), Le(1000)]  # the first view: a video's first frames
    target: Annotated[int, Ge(1), Le(1000)]  # the frame, counted from 1, whose factors the second view shares
    digits: str | None  # a folder with train/CLASS/* and test/CLASS/*; null: scikit-learn's digits
    grounds: str | None  # a folder of backgrounds in this form; null: generated ones
    train_grounds: Rows  # number of generated ones
    test_grounds: Rows

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.digit >= self.canvas:
            raise InputError(
                f"digit: {self.digit} px on a canvas of {self.canvas} px cannot move; "
                "take a smaller digit or a larger canvas"
            )
        if self.ground < self.canvas:
            raise InputError(
                f"ground: {self.ground} px, of which a frame crops {self.canvas} px; take ground at least as large as "
                "canvas"
            )
        if self.grounds is None and self.train_grounds < len(CLASSES):
            raise InputError(
                f"train_grounds: {self.train_grounds} backgrounds of {len(CLASSES)} classes, which take turns: test "
                f"frames would have classes that training has not; take at least {len(CLASSES)}"
            )


@dataclass(frozen=True, kw_only=True)
class DigitsTrainingParams(Section):
    """Factors that the two views share, and settings of training and read-outs."""

    sharings: Annotated[list[SharedFactors], MinLen(1)]
    videos: Rows  # of an epoch, each drawn anew
    batch_size: Annotated[int, Ge(2), Le(2**16)]  # the other images of the batch are negatives
    epochs: Steps
    learning_rate: Rate
    momentum: Share | None  # of SGD; null: Adam
    temperature: Temperature
    train_images: Rows  # for read-outs
    test_images: Annotated[int, Ge(2), Le(2**24)]  # with unseen digits and backgrounds
    read_out_decay: Decay  # of the weights of the heads on frozen features

    def __post_init__(self) -> None:
        super().__post_init__()
        sets = [frozenset(shared) for shared in self.sharings]
        for place, shared in enumerate(sets):
            if shared in sets[:place]:
                raise InputError(f"sharings: {', '.join(self.sharings[place])} stands twice; delete one of them")
        if self.videos < self.batch_size:
            raise InputError(f"videos: {self.videos} fill no batch of {self.batch_size}; take more videos")
