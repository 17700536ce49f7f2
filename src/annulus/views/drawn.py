"""Parameters drawn for a batch: a tensor with an entry for each image, or a NamedTuple of such; None: nothing drawn.

They are drawn on the CPU, so that a CPU and a GPU make the same views and no GPU is asked which images were chosen.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from annulus.device.copies import to_device

Parameters = TypeVar("Parameters")


def each(parameters: Parameters, change: Callable[[Tensor], Tensor]) -> Parameters:
    """The parameters with each tensor changed."""
    if isinstance(parameters, Tensor):
        return change(parameters)
    return None if parameters is None else type(parameters)(*(each(field, change) for field in parameters))


def pick(parameters: Parameters, rows: Int[Tensor, "r"] | slice) -> Parameters:
    """The parameters of some rows."""
    return each(parameters, lambda field: field[rows])


def numbered(parameters: Parameters) -> Parameters:
    """The same parameters with the numbers of the chosen images; how many there are a GPU would have to be asked."""
    return each(parameters, lambda field: field.nonzero().squeeze(1) if field.dtype == torch.bool else field)


def on(parameters: Parameters, device: torch.device) -> Parameters:
    """The parameters on a device, sent together."""
    if device.type == "cpu":
        return parameters
    fields: list[Tensor] = []
    each(parameters, lambda field: fields.append(field) or field)
    arrived = iter(to_device(fields, device))
    return each(parameters, lambda _: next(arrived))
