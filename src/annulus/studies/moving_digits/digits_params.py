"""Sections of the params.yaml of the study of moving digits."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from annulus.config.params import Params
from annulus.errors import InputError, nearest
from annulus.settings import Decay, Rate, Rows, Steps, Temperature

FACTORS = ("digit", "background", "position")

Side = Annotated[int, Field(ge=1, le=1024)]  # pixels


def _factors(shared: list[str]) -> list[str]:
    for factor in shared:
        if factor not in FACTORS:
            raise InputError(f"factor {factor!r} is none of {', '.join(FACTORS)}{nearest(factor, FACTORS)}")
    if len(set(shared)) < len(shared):
        raise InputError(f"{', '.join(shared)}: a factor stands twice; name each once")
    return shared


Shared = Annotated[list[str], Field(min_length=1), AfterValidator(_factors)]


class WorldParams(Params):
    """A digit that moves over a background: how large, how fast, and where both come from."""

    canvas: Side
    digit: Side
    ground: Side  # of a background image, of which every frame shows a crop as large as the canvas
    speed: float = Field(gt=0, le=1)  # of the canvas, a frame
    frames: int = Field(ge=1, le=1000)  # the first view: a video's first frames
    target: int = Field(ge=1, le=1000)  # the frame, counted from 1, whose factors the second view shares
    digits: str | None  # a folder with train/CLASS/* and test/CLASS/*; null: scikit-learn's digits
    grounds: str | None  # the same of backgrounds; null: generated ones
    train_grounds: Rows  # of generated ones
    test_grounds: Rows

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
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
        return self


class TrainingParams(Params):
    """Factors that the two views share, and settings of training and read-outs."""

    sharings: list[Shared] = Field(min_length=1)
    videos: Rows  # of an epoch, each drawn anew
    batch_size: int = Field(ge=2, le=2**16)  # a video stands against the others of its batch
    epochs: Steps
    learning_rate: Rate
    momentum: float | None = Field(ge=0, lt=1)  # of SGD; null: Adam
    temperature: Temperature
    train_images: Rows  # from which read-outs learn
    test_images: int = Field(ge=2, le=2**24)  # made of unseen digits and backgrounds
    read_out_decay: Decay  # of the weights of the heads on frozen features

    @model_validator(mode="after")
    def _different(self) -> Self:
        sets = [frozenset(shared) for shared in self.sharings]
        for place, shared in enumerate(sets):
            if shared in sets[:place]:
                raise InputError(f"sharings: {', '.join(self.sharings[place])} stands twice; delete one of them")
        if self.videos < self.batch_size:
            raise InputError(f"videos: {self.videos} fill no batch of {self.batch_size}; take more videos")
        return self
