"""SGD with momentum: the same bits as torch.optim, without the import of torch's compiler.

At its first step an optimiser of torch imports torch._dynamo: two to three seconds and 150 MB in every stage.
optim/torch_optimizers.py has torch's other optimisers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from annulus.settings import Decay, Section, Share


@dataclass(frozen=True, kw_only=True)
class SGDSettings(Section):
    """Momentum and weight decay of `SGD`."""

    momentum: Share
    weight_decay: Decay


class SGD:
    """`torch.optim.SGD` of a list of parameters or of groups. `param_groups` may change between steps."""

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        groups = list(parameters)
        groups = groups if isinstance(groups[0], Mapping) else [{"params": groups}]
        shared = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        self.param_groups = [{**shared, **group, "params": list(group["params"])} for group in groups]
        self.buffers: dict[Tensor, Tensor] = {}  # momentum of each parameter that has had a gradient

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients; a parameter without a gradient stays."""
        for group in self.param_groups:
            learning = [parameter for parameter in group["params"] if parameter.grad is not None]
            if learning:
                self._move(group, learning, [parameter.grad for parameter in learning], self._momenta(learning))

    def state_dict(self) -> dict[str, Any]:
        """The groups' current rates and the parameters' momenta; None for a parameter that has had no gradient."""
        rates = [group["lr"] for group in self.param_groups]
        return {"rates": rates, "buffers": [self.buffers.get(parameter) for parameter in self._all()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for group, rate in zip(self.param_groups, state["rates"], strict=True):
            group["lr"] = rate
        pairs = zip(self._all(), state["buffers"], strict=True)
        self.buffers = {parameter: buffer.to(parameter, copy=True) for parameter, buffer in pairs if buffer is not None}

    def _all(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _momenta(self, learning: Sequence[Tensor]) -> list[Tensor]:
        momenta = [self.buffers.get(parameter) for parameter in learning]
        for place, (parameter, buffer) in enumerate(zip(learning, momenta, strict=True)):
            if buffer is None:
                momenta[place] = self.buffers[parameter] = torch.zeros_like(parameter)
        return momenta

    def _move(
        self, group: Mapping[str, Any], learning: list[Tensor], gradients: list[Tensor], momenta: list[Tensor]
    ) -> None:
        if group["weight_decay"]:
            gradients = torch._foreach_add(gradients, learning, alpha=group["weight_decay"])
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, gradients)
        torch._foreach_add_(learning, momenta, alpha=-group["lr"])


class FusedSGD(SGD):
    """`torch.optim.SGD(fused=True)` over the parameters in their memory order.

    On a CPU torch's fused kernel copies every gradient whose last dimension is not the innermost, such as gradients of
    weights with channels last: more than half of its time. It also silently misreads a gradient whose strides differ
    from its parameter's; here that raises an error.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], **settings: float) -> None:
        self.parameters = list(parameters)
        self.orders = [_order(parameter) for parameter in self.parameters]
        self.layouts = [(parameter.data_ptr(), parameter.stride()) for parameter in self.parameters]
        ordered = zip(self.parameters, self.orders, strict=True)
        super().__init__([parameter.detach().permute(order) for parameter, order in ordered], **settings)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients of the parameters.

        Raises:
            RuntimeError: if a gradient has another memory layout than its parameter.
        """
        learning, gradients = [], []
        for place, (parameter, view) in enumerate(zip(self.parameters, self._all(), strict=True)):
            gradient = parameter.grad
            if gradient is None:
                continue
            layout = parameter.data_ptr(), parameter.stride()
            if gradient.stride() != layout[1] and _steps(gradient) != _steps(parameter):
                raise RuntimeError(
                    f"a gradient of shape {tuple(gradient.shape)} has strides {gradient.stride()}, its parameter "
                    f"{parameter.stride()}; keep the parameter's layout in the backward that computes the gradient"
                )
            if layout != self.layouts[place]:  # a network that was moved or cast has other tensors
                self._update_layout(place, view, parameter)
            learning.append(view)
            gradients.append(gradient if gradient.ndim == 1 else gradient.permute(self.orders[place]))
        if learning:
            self._move(self.param_groups[0], learning, gradients, self._momenta(learning))

    def _update_layout(self, place: int, view: Tensor, parameter: nn.Parameter) -> None:
        """Points a view to its parameter's current memory, and puts its momentum in the same order."""
        before, order = self.orders[place], _order(parameter)
        self.orders[place], self.layouts[place] = order, (parameter.data_ptr(), parameter.stride())
        view.data = parameter.detach().permute(order)
        if view in self.buffers:
            momentum = self.buffers[view].permute([before.index(dim) for dim in range(parameter.ndim)])
            self.buffers[view] = torch.empty_like(view).copy_(momentum.permute(order))

    def _move(
        self, group: Mapping[str, Any], learning: list[Tensor], gradients: list[Tensor], momenta: list[Tensor]
    ) -> None:
        settings = {name: group[name] for name in ("lr", "momentum", "weight_decay")}
        plain = {"dampening": 0.0, "nesterov": False, "maximize": False, "is_first_step": False}
        torch._fused_sgd_(learning, gradients, momenta if group["momentum"] else [], **settings, **plain)


def _steps(tensor: Tensor) -> list[int]:
    """The strides of all dimensions larger than 1."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _order(tensor: Tensor) -> list[int]:
    """The dimensions in memory order, the innermost last. A gradient's order may differ in dimensions of size 1."""
    return sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
