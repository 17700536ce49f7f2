"""A network in lower precision with all its weights cast at once: autocast on a GPU, in fewer kernels.

Autocast casts the weight of each layer when the layer runs, and its gradient when it comes back: two kernels a layer
that take longer to start than to run.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import functional_call


def in_lower(network: nn.Module, x: Float[Tensor, "b *rest"]) -> Any:
    """network(x), on a GPU under autocast with the weights of its convolutions and linear layers cast together.

    A compiler joins the casts itself.
    """
    if x.is_cuda and torch.is_autocast_enabled("cuda") and not torch.compiler.is_compiling():
        return cast_together(network, x, torch.get_autocast_dtype("cuda"))
    return network(x)


def cast_together(network: nn.Module, x: Float[Tensor, "b *rest"], dtype: torch.dtype) -> Any:
    """network(x) under autocast, its weights in this type; their gradients have the weights' own type and strides."""
    weights = {
        f"{name}.{kind}" if name else kind: weight
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
        for kind, weight in layer.named_parameters(recurse=False)
    }
    if not weights:
        return network(x)
    return functional_call(network, dict(zip(weights, _Cast.apply(dtype, *weights.values()), strict=True)), (x,))


class _Cast(Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*weights)
        lower = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        torch._foreach_copy_(lower, weights)
        return tuple(lower)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # a second derivative is asked for, which the copy of all at once has not
            return None, *map(Tensor.type_as, gradients, ctx.saved_tensors)
        own = [torch.empty_like(weight) for weight in ctx.saved_tensors]
        torch._foreach_copy_(own, gradients)
        return None, *own
