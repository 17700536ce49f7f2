"""A network's pass compiled by torch, for those who ask: fewer kernels, each doing more."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from annulus.device.device import compiling

Call = TypeVar("Call", bound=Callable)


def compiled(call: Call) -> Call:
    """The call, where ANNULUS_COMPILE asks for it compiled at its first use, for the sizes that it then has."""
    asked = compiling()
    if asked == "no":
        return call
    return torch.compile(call, dynamic=False, mode="reduce-overhead" if asked == "graphs" else None)


def lasting(tensor: Tensor) -> Tensor:
    """The tensor, told to torch as one that stays where it is: a graph may write into it."""
    if compiling() == "graphs":
        torch._dynamo.mark_static_address(tensor)
    return tensor
