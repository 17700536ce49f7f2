"""Sections of the params.yaml of studies of toys."""

from typing import Annotated, Any, Literal

from pydantic import Field

from annulus.config.file import checked
from annulus.config.params import Params
from annulus.settings import Decay, Depth, Fraction, Positive, Rate, Rows, Steps, Temperature, Width

Noise = Annotated[float, Field(ge=0, le=1e9)]


class SpiralsParams(Params):
    """mutualinfo Figure 6: two intertwined spirals, whose points are seen through noise."""

    points: Rows
    test_points: Rows  # for the read-out, which learns from `points`
    turns: Positive  # of each spiral around the centre
    inner: Fraction  # radius at which they start, over that at which they end
    noise: list[Noise] = Field(min_length=1)  # eta: a view adds up to so much to each coordinate
    start: Literal["he", "torch"]  # the rule of the fresh weights
    hidden: Width
    layers: Depth  # hidden ones
    negatives: Rows
    batch_size: Rows
    iterations: Steps
    learning_rate: Rate
    momentum: float = Field(ge=0, lt=1)
    weight_decay: Decay
    temperature: Temperature
    bank_rate: float = Field(ge=0, lt=1)
    curve_points: Steps  # of the loss over training
    shown_points: Steps  # of the learned plane, from the first seed


class SearchParams(Params):
    """Settings that the paper leaves open, by name: each sets some of the spirals' parameters."""

    iterations: Steps
    noise: list[Noise] = Field(min_length=1)
    settings: dict[str, dict[str, Any]] = Field(min_length=1)

    def of(self, spirals: SpiralsParams, source: str) -> dict[str, SpiralsParams]:
        """The parameters of each setting; `source` names the settings' origin.

        Raises:
            InputError: for a key or a value that the spirals' parameters have not.
        """
        shared = spirals.model_dump() | {"iterations": self.iterations, "noise": self.noise}
        return {name: checked(shared | own, f"{source}.{name}", SpiralsParams) for name, own in self.settings.items()}
