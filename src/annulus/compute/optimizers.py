"""Torch's optimisers, ready for workers: what their first step would import in each of them is imported here, once."""

from collections.abc import Iterable
from typing import Any

import torch._dynamo  # noqa: F401  (it takes three seconds)
from torch import Tensor, nn
from torch.optim import SGD, Adam

__all__ = ["SGD", "Adam", "FusedSGD"]


class FusedSGD(SGD):
    """`SGD(fused=True)` over the parameters as they lie in memory.

    On a CPU the fused kernel copies every gradient whose last dimension is not the innermost, such as those of weights
    with channels last: more than half of its time. It also reads a gradient whose strides differ from its parameter's
    in the wrong order, and says nothing: here that is refused.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], **settings: Any) -> None:
        self.parameters = list(parameters)
        lying = [parameter.detach().permute(_order(parameter)) for parameter in self.parameters]
        super().__init__(lying, fused=True, **settings)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """One step along the gradients of the parameters.

        Raises:
            RuntimeError: for a gradient that lies otherwise in memory than its parameter.
        """
        for parameter, seen in zip(self.parameters, self.param_groups[0]["params"], strict=True):
            gradient = parameter.grad
            if gradient is not None and _steps(gradient) != _steps(parameter):
                raise RuntimeError(
                    f"a gradient of shape {tuple(gradient.shape)} has strides {gradient.stride()}, its parameter "
                    f"{parameter.stride()}; let the backward that made it keep the parameter's layout"
                )
            order = _order(parameter)  # a network that was moved or cast has other tensors
            seen.data = parameter.detach().permute(order)
            seen.grad = None if gradient is None else gradient.permute(order)
        super().step()


def _steps(tensor: Tensor) -> list[int]:
    """The strides of all dimensions but those of size 1, along which there is no step."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _order(tensor: Tensor) -> list[int]:
    """The dimensions, the innermost last. That of a gradient may differ in dimensions of size 1 alone."""
    return sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
