"""Sections of training: encoder, optimiser, learning rate, how much compute."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from annulus.config.evals import LinearScale
from annulus.config.params import Count, Decay, Params, Rate, Rows


class BackboneParams(Params):
    """Network and stem; vit_small's stem is the side of its patches in pixels."""

    architecture: Literal[
        "resnet18",
        "resnet34",
        "resnet50",
        "resnet101",
        "resnet152",
        "resnet50_x2",
        "resnet50_x4",
        "resnext101_32x8d",
        "resnext152_32x8d",
        "vit_small",
        "alexnet",
        "convnet",
    ]
    stem: Literal["imagenet", "cifar", "patch16", "patch8", "patch4"]

    @property
    def patch(self) -> int:
        """Pixels a side of a transformer's patches, 0 for the other networks."""
        return int(self.stem.removeprefix("patch")) if self.stem.startswith("patch") else 0

    @model_validator(mode="after")
    def _stem_fits(self) -> Self:
        if (self.architecture == "vit_small") != (self.patch > 0):
            raise ValueError(
                f"{self.architecture} has no stem {self.stem}: vit_small takes patch16, patch8 or patch4, "
                "the other networks take imagenet or cifar"
            )
        return self


class OptimizerParams(Params):
    """SGD."""

    momentum: float = Field(ge=0, lt=1)
    weight_decay: Decay


class ConstantSchedule(Params):
    """The rate stays."""


class CosineSchedule(Params):
    """The rate falls to zero along half a cosine."""


class MilestoneSchedule(Params):
    """The rate is multiplied by `factor` at each share of training."""

    at: list[Annotated[float, Field(gt=0, lt=1)]]
    factor: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.at != sorted(set(self.at)):
            raise ValueError(f"milestones must rise, got {self.at}")
        return self


class PlateauSchedule(Params):
    """The rate is multiplied by `factor` when validation has not risen for `patience` epochs."""

    patience: Count
    factor: float = Field(gt=0, lt=1)
    drops: Count


ScheduleParams = ConstantSchedule | CosineSchedule | MilestoneSchedule | PlateauSchedule


class Schedules(Params):
    constant: ConstantSchedule
    cosine: CosineSchedule
    milestones: MilestoneSchedule
    plateau: PlateauSchedule


class PrepareScale(Params):
    """How many images a split may hold; null: all. A smaller part is drawn evenly over the classes.

    `unlabelled_images`: how many more, without a class, train encoders; `folder` and `stl10` may have some.
    """

    train_images: Count | None
    test_images: Count | None
    unlabelled_images: Annotated[int, Field(ge=0, le=10**9)] | None


class PretrainScale(Params):
    """Pretraining budget: epochs, batch size, number of negatives, queue length, learning rate."""

    epochs: Count
    batch_size: int = Field(ge=2, le=2**24)
    negatives: Rows  # K, where a method samples its negatives
    queue: Rows  # keys that moco keeps
    learning_rate: Rate  # per 256 images of a batch
    validation_images: Count | None  # embedded after an epoch, of the validation part, and again where no bank is kept


class Scale(Params):
    prepare: PrepareScale
    pretrain: PretrainScale
    linear: LinearScale


class Scales(Params):
    tiny: Scale
    demo: Scale
    cpu: Scale
    gpu: Scale
    paper: Scale
