"""Drawn parameters of a batch: a tensor with an entry for each image, a NamedTuple of such tensors, or None.

They are drawn on the CPU. So a CPU and a GPU compute the same views, and the host does not wait for a GPU to learn the
number of chosen images.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from annulus.device.copies import to_device

Parameters = TypeVar("Parameters")


def map_tensors(parameters: Parameters, change: Callable[[Tensor], Tensor]) -> Parameters:
    """Applies `change` to each tensor of the parameters."""
    if isinstance(parameters, Tensor):
        return change(parameters)
    return None if parameters is None else type(parameters)(*(map_tensors(field, change) for field in parameters))


def pick(parameters: Parameters, rows: Int[Tensor, "r"] | slice) -> Parameters:
    """Selects the parameters of some rows."""
    return map_tensors(parameters, lambda field: field[rows])


def numbered(parameters: Parameters) -> Parameters:
    """Replaces masks by the numbers of the chosen images, here on the CPU: on a GPU the host would wait for it."""
    return map_tensors(parameters, lambda field: field.nonzero().squeeze(1) if field.dtype == torch.bool else field)


def on(parameters: Parameters, device: torch.device) -> Parameters:
    """Sends the parameters to a device, in one copy."""
    if device.type == "cpu":
        return parameters
    fields: list[Tensor] = []
    map_tensors(parameters, lambda field: fields.append(field) or field)
    arrived = iter(to_device(fields, device))
    return map_tensors(parameters, lambda _: next(arrived))
