"""A trial of view operators on made-up views: their faults are found before a training, not in its first step."""

from typing import Any

import torch
from torch import Tensor

from annulus.device.trial import naming, usual
from annulus.errors import InputError
from annulus.views.operators import Operator, View, described

VIEWS, SIZE = 32, 64
NEAR = 1e-3  # of 0 and 1, where rounding may lead


@usual()
def try_operator(operator: Operator) -> None:
    """Refuse an operator that makes no views; one that raises InputError for views of this size is not tried.

    Raises:
        InputError: when its `draw` or `apply` ends in an error; when what it draws has no entry for each image; when it
            gives other views from the same random state, anything but images of the same shape, or values beyond
            [0, 1]; when it writes into the views that it is given.
    """
    name = type(operator).__name__
    views = torch.rand(VIEWS, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    views[0], views[1] = 0, 1  # without contrast, as a view of the sky
    seen, again = (_applied(operator, views) for _ in range(2))
    if isinstance(seen, InputError) or isinstance(again, InputError):
        return
    if not isinstance(seen, Tensor) or seen.shape != views.shape or not seen.is_floating_point():
        raise InputError(f"{name}.apply gives {described(seen)} for {described(views)}; return the images")
    low, high = seen.min().item(), seen.max().item()
    if not (low >= -NEAR and high <= 1 + NEAR):  # nor is NaN
        raise InputError(
            f"{name}.apply gives values from {low:.4g} to {high:.4g} for RGB in [0, 1]; clamp them, and leave out NaN, "
            "as of views without contrast"
        )
    if not torch.equal(seen, again):
        raise InputError(
            f"{name} gives other views from the same random state; let its `draw` alone draw, by its generator"
        )


def _applied(operator: Operator, views: View) -> Any:
    """The changed views, from the same random state each time; to refuse is an answer too."""
    name, numbers, before = type(operator).__name__, f"views of {SIZE} pixels", views.clone()
    with naming(f"{name}.draw", numbers, "its arguments are (count, generator)"):
        try:
            drawn = operator.draw(len(views), torch.Generator().manual_seed(0))
        except InputError as error:
            return error
    _check_drawn(drawn, name)
    advice = "its arguments are (view, drawn); where such views are too small for it, raise annulus.InputError"
    with naming(f"{name}.apply", numbers, advice):
        try:
            seen = operator.apply(views, drawn)
        except InputError as error:
            return error
    if not torch.equal(views, before):
        raise InputError(f"{name}.apply writes into the views that it is given; let it change a copy")
    return seen


def _check_drawn(drawn: Any, name: str) -> None:
    """Refuse parameters of which a process could not take those of its images.

    Raises:
        InputError: for anything but None, a tensor with an entry for each image on the CPU, or a NamedTuple of such.
    """
    if isinstance(drawn, tuple) and hasattr(drawn, "_fields"):
        for field in drawn:
            _check_drawn(field, name)
    elif isinstance(drawn, Tensor):
        if drawn.shape[:1] != (VIEWS,) or drawn.device.type != "cpu":
            raise InputError(
                f"{name}.draw gives {described(drawn)} on {drawn.device} for {VIEWS} images; give an entry for each "
                "image, on the CPU"
            )
    elif drawn is not None:
        raise InputError(
            f"{name}.draw gives {described(drawn)}; give a tensor with an entry for each image, or a NamedTuple of such"
        )
