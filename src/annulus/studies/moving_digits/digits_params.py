"""Sections of the params.yaml of the study of moving digits."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, MinLen

from annulus.errors import InputError, nearest
from annulus.settings import Decay, Rate, Rows, Rule, Section, Share, Steps, Temperature
from annulus.studies.moving_digits.grounds import CLASSES

FACTORS = ("digit", "background", "position")

Side = Annotated[int, Ge(1), Le(1024)]  # pixels


def _factors(shared: list[str]) -> None:
    for factor in shared:
        if factor not in FACTORS:
            raise InputError(f"factor {factor!r} is none of {', '.join(FACTORS)}{nearest(factor, FACTORS)}")
    if len(set(shared)) < len(shared):
        raise InputError(f"{', '.join(shared)}: a factor stands twice; name each once")


Shared = Annotated[list[str], MinLen(1), Rule(_factors)]


@dataclass(frozen=True, kw_only=True)
class WorldParams(Section):
    """A digit that moves over a background: how large, how fast, and where both come from."""

    canvas: Side
    digit: Side
    ground: Side  # of a background image, of which every frame shows a crop as large as the canvas
    speed: Annotated[float, Gt(0), Le(1)]  # of the canvas, a frame
    frames: Annotated[int, Ge(1), Le(1000)]  # the first view: a video's first frames
    target: Annotated[int, Ge(1), Le(1000)]  # the frame, counted from 1, whose factors the second view shares
    digits: str | None  # a folder with train/CLASS/* and test/CLASS/*; null: scikit-learn's digits
    grounds: str | None  # the same of backgrounds; null: generated ones
    train_grounds: Rows  # of generated ones
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
class TrainingParams(Section):
    """Factors that the two views share, and settings of training and read-outs."""

    sharings: Annotated[list[Shared], MinLen(1)]
    videos: Rows  # of an epoch, each drawn anew
    batch_size: Annotated[int, Ge(2), Le(2**16)]  # a video stands against the others of its batch
    epochs: Steps
    learning_rate: Rate
    momentum: Share | None  # of SGD; null: Adam
    temperature: Temperature
    train_images: Rows  # from which read-outs learn
    test_images: Annotated[int, Ge(2), Le(2**24)]  # made of unseen digits and backgrounds
    read_out_decay: Decay  # of the weights of the heads on frozen features

    def __post_init__(self) -> None:
        super().__post_init__()
        sets = [frozenset(shared) for shared in self.sharings]
        for place, shared in enumerate(sets):
            if shared in sets[:place]:
                raise InputError(f"sharings: {', '.join(self.sharings[place])} stands twice; delete one of them")
        if self.videos < self.batch_size:
            raise InputError(f"videos: {self.videos} fill no batch of {self.batch_size}; take more videos")
