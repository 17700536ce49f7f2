"""Trial of view operators on made-up views, so that a fault appears before training and not in its first step."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from annulus.device.trial_contexts import naming, usual
from annulus.errors import InputError
from annulus.views.operators import Operator, View, describe

VIEWS, SIZE = 32, 64
NEAR = 1e-3  # tolerance around 0 and 1, for rounding


def try_operator(operator: Operator) -> None:
    """Tries an operator on made-up views, once for equal operators: a study reads `params.yaml` for each run.

    If it raises InputError for views of this size, the trial ends without error.

    Raises:
        InputError: if `draw` or `apply` raises; if the parameters lack an entry for each image; if the same random
            state gives other views; if the result has another shape or values outside [0, 1]; if `apply` writes into
            its input.
    """
    try:
        hash(operator)
    except TypeError:
        _try(operator)
    else:
        _try_once(operator)


@usual()
def _try(operator: Operator) -> None:
    name = type(operator).__name__
    views = torch.rand(VIEWS, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    views[0], views[1] = 0, 1  # without contrast, as a view of the sky
    result, again = (_applied(operator, views) for _ in range(2))
    if isinstance(result, InputError) or isinstance(again, InputError):
        return
    if not isinstance(result, Tensor) or result.shape != views.shape or not result.is_floating_point():
        raise InputError(f"{name}.apply gives {describe(result)} for {describe(views)}; return the images")
    low, high = result.min().item(), result.max().item()
    if not (low >= -NEAR and high <= 1 + NEAR):  # NaN fails both
        raise InputError(
            f"{name}.apply gives values from {low:.4g} to {high:.4g} for RGB in [0, 1]; clamp them, and avoid NaN, "
            "for example for views without contrast"
        )
    if not torch.equal(result, again):
        raise InputError(f"{name} gives other views from the same random state; draw in `draw` alone, by its generator")


_try_once = lru_cache(_try)  # an error is not kept


def _applied(operator: Operator, views: View) -> Any:
    """Applies the operator from a fixed random state. Returns the views, or the InputError that it raised."""
    name, numbers, before = type(operator).__name__, f"views of {SIZE} pixels", views.clone()
    with naming(f"{name}.draw", numbers, "its arguments are (count, generator)"):
        try:
            drawn = operator.draw(len(views), torch.Generator().manual_seed(0))
        except InputError as error:
            return error
    _check_drawn(drawn, name)
    advice = "its arguments are (view, drawn); if such views are too small for it, raise annulus.InputError"
    with naming(f"{name}.apply", numbers, advice):
        try:
            result = operator.apply(views, drawn)
        except InputError as error:
            return error
    if not torch.equal(views, before):
        raise InputError(f"{name}.apply writes into its input; let it change a copy")
    return result


def _check_drawn(drawn: Any, name: str) -> None:
    """Checks that a process can select the parameters of its images.

    Raises:
        InputError: unless they are None, a tensor on the CPU with an entry for each image, or a NamedTuple of such.
    """
    if isinstance(drawn, tuple) and hasattr(drawn, "_fields"):
        for field in drawn:
            _check_drawn(field, name)
    elif isinstance(drawn, Tensor):
        if drawn.shape[:1] != (VIEWS,) or drawn.device.type != "cpu":
            raise InputError(
                f"{name}.draw gives {describe(drawn)} on {drawn.device} for {VIEWS} images; give an entry for each "
                "image, on the CPU"
            )
    elif drawn is not None:
        raise InputError(
            f"{name}.draw gives {describe(drawn)}; give a tensor with an entry for each image, or a NamedTuple of them"
        )
