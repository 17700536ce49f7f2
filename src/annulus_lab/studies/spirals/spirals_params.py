"""Sections of the params.yaml of the study of spirals."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MinLen

from annulus.errors import InputError
from annulus.settings import (
    Decay,
    Depth,
    Fraction,
    Positive,
    Rate,
    Rows,
    Rule,
    Section,
    Share,
    Steps,
    Temperature,
    Width,
)
from annulus_lab.config.file import checked
from annulus_lab.config.params import each_once, plain

Noise = Annotated[list[Annotated[float, Ge(0), Le(1e9)]], MinLen(1), Rule(each_once)]


@dataclass(frozen=True, kw_only=True)
class SpiralsParams(Section):
    """mutualinfo Figure 6: two intertwined spirals, seen through noise."""

    points: Rows
    test_points: Rows  # for the read-out, which learns from `points`
    turns: Positive  # of each spiral around the centre
    inner: Fraction  # first radius over last radius
    noise: Noise  # eta: a view adds U(0, eta) to each coordinate
    start: Literal["he", "torch"]  # the rule of the initial weights
    hidden: Width
    layers: Depth  # hidden ones
    negatives: Rows
    batch_size: Rows
    iterations: Steps
    learning_rate: Rate
    momentum: Share
    weight_decay: Decay
    temperature: Temperature
    bank_rate: Share
    curve_points: Steps  # of the loss over training
    shown_points: Steps  # of the learned plane, from the first seed

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.curve_points > self.iterations:
            raise InputError(
                f"curve_points: {self.curve_points} of {self.iterations} iterations; a point is the mean loss of one "
                "iteration or more: take fewer points"
            )


@dataclass(frozen=True, kw_only=True)
class SearchParams(Section):
    """Settings that the paper leaves open, by name: each sets some parameters of the spirals."""

    iterations: Steps
    noise: Noise
    settings: Annotated[dict[str, dict[str, Any]], MinLen(1)]

    def variants(self, spirals: SpiralsParams, source: str) -> dict[str, SpiralsParams]:
        """Parameters of each setting; `source` names the settings' origin.

        Raises:
            InputError: for a key that the spirals lack, or a value that they refuse.
        """
        shared = plain(spirals) | {"iterations": self.iterations, "noise": self.noise}
        return {name: checked(shared | own, f"{source}.{name}", SpiralsParams) for name, own in self.settings.items()}
