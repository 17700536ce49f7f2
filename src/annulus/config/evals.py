"""Sections of the probes."""

from typing import Literal, Self

from pydantic import Field, model_validator

from annulus.config.params import Count, Decay, Params, Rate, Rows, Temperature


class KnnParams(Params):
    k: Count
    temperature: Temperature
    layer: Literal["pooled", "embedding"]


class LinearParams(Params):
    """Logistic regression on frozen features. patience, drops: the rate falls tenfold on a plateau."""

    inputs: Literal["features", "views"]
    layer: Literal["pooled", "map"]
    momentum: float = Field(ge=0, lt=1)
    weight_decay: Decay
    patience: Count | None
    drops: int = Field(ge=0, le=1000)

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.patience is None) != (self.drops == 0):
            raise ValueError(
                f"patience {self.patience} and drops {self.drops} go together; "
                "give both, or patience: null and drops: 0"
            )
        return self


class LinearScale(Params):
    epochs: Count
    batch_size: Rows
    learning_rate: Rate


class SegmentationParams(Params):
    """A decoder of frozen feature maps; width: channels of its two convolutions."""

    width: int = Field(ge=1, le=4096)
    epochs: Count
    batch_size: Rows
    learning_rate: Rate
