"""The trial of view operators: each fault has its sentence, and operators without one pass."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from test_views_operators import TINT

from annulus.errors import InputError
from annulus.views import Operator, Solarize, ViewSet
from annulus.views.view_trial import try_operator


def operator(apply=lambda view, drawn: view, draw=lambda count, generator: None):
    """Builds a user's operator from functions."""
    own = {"draw": lambda self, *args: draw(*args), "apply": lambda self, *args: apply(*args)}
    return dataclass(frozen=True, kw_only=True)(type("Mine", (Operator,), own))()


class Drawn(NamedTuple):
    chosen: torch.Tensor
    amounts: object


def uniform(count, generator):
    return torch.rand(count, generator=generator)


FAULTY = {
    "draw without the generator": (
        operator(draw=lambda count: None),
        r"Mine.draw fails on made-up views of 64 pixels: TypeError: .*takes 1 positional argument but 2 were given "
        r"\(test_views_view_trial.py, line \d+\); its arguments are \(count, generator\)",
    ),
    "apply with an error": (
        operator(lambda view, drawn: view @ torch.ones(3, 3)),
        r"Mine.apply fails on made-up views of 64 pixels: RuntimeError: .*\(test_views_view_trial.py, line \d+\); its "
        r"arguments are \(view, drawn\); if such views are too small for it, raise annulus.InputError",
    ),
    "one number for all": (
        operator(draw=lambda count, generator: torch.rand(1, generator=generator)),
        r"Mine.draw gives torch.float32 of shape \(1,\) on cpu for 32 images; give an entry for each image, on the CPU",
    ),
    "a number": (
        operator(draw=lambda count, generator: 0.5),
        "Mine.draw gives a float; give a tensor with an entry for each image, or a NamedTuple of them",
    ),
    "a plain tuple": (
        operator(draw=lambda count, generator: (uniform(count, generator), uniform(count, generator))),
        "Mine.draw gives a tuple; give a tensor",
    ),
    "a number within": (
        operator(draw=lambda count, generator: Drawn(uniform(count, generator), 3)),
        "Mine.draw gives a int; give a tensor",
    ),
    "nothing": (
        operator(lambda view, drawn: None),
        r"Mine.apply gives a NoneType for torch.float32 of shape \(32, 3, 64, 64\); return the images",
    ),
    "another size": (
        operator(lambda view, drawn: view[:, :, 1:]),
        r"Mine.apply gives torch.float32 of shape \(32, 3, 63, 64\) for torch.float32 of shape \(32, 3, 64, 64\); ret",
    ),
    "whole numbers": (operator(lambda view, drawn: (255 * view).byte()), "Mine.apply gives torch.uint8 of shape"),
    "torch's own generator": (
        operator(lambda view, drawn: view * torch.rand(len(view), 1, 1, 1)),
        "Mine gives other views from the same random state; draw in `draw` alone, by its generator",
    ),
    "torch's own generator in draw": (
        operator(lambda view, drawn: view * drawn[:, None, None, None], lambda count, generator: torch.rand(count)),
        "Mine gives other views from the same random state",
    ),
    "too bright": (
        operator(lambda view, drawn: view + 0.5),
        r"Mine.apply gives values from 0.5 to 1.5 for RGB in \[0, 1\]; clamp them, and avoid NaN",
    ),
    "too dark": (operator(lambda view, drawn: view - 0.5), "Mine.apply gives values from -0.5 to 0.5 for RGB"),
    "NaN without contrast": (
        operator(lambda view, drawn: (view / view.std(dim=(1, 2, 3), keepdim=True)).clamp(0, 1)),
        "Mine.apply gives values from nan to nan for RGB",
    ),
    "writing": (
        operator(lambda view, drawn: view.mul_(0.5)),
        "Mine.apply writes into its input; let it change a copy",
    ),
}


@pytest.mark.parametrize("case", FAULTY)
def test_each_fault_has_its_sentence_where_a_set_is_made(case):
    faulty, sentence = FAULTY[case]
    with pytest.raises(InputError, match=f"^{sentence}"):
        ViewSet(operators={"mine": faulty})


def refusing(*_):
    raise InputError("views of 64 pixels are too small")


@pytest.mark.parametrize(
    "fine",
    [
        TINT,
        Solarize(probability=0.5, threshold=0.5),
        operator(),
        operator(lambda view, drawn: view + 1e-6),
        operator(
            lambda view, drawn: view * drawn.chosen[:, None, None, None], lambda *args: Drawn(uniform(*args), None)
        ),
        operator(refusing),
        operator(draw=refusing),
    ],
    ids=[
        "of the README",
        "solarisation",
        "as it is",
        "rounded",
        "in part nothing drawn",
        "refused",
        "refused as drawn",
    ],
)
def test_one_without_a_fault_passes_whatever_the_caller_has_chosen(fine, untouched_global_randomness, in_float64):
    with torch.inference_mode():
        try_operator(fine)
