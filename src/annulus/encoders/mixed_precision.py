"""A network in lower precision with all its weights cast at once: autocast on a GPU, in fewer kernels.

Autocast casts each layer's weight when the layer runs, and its gradient in backward: two kernels a layer, which take
longer to start than to run.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function


def in_lower(network: nn.Module, x: Float[Tensor, "b *rest"]) -> Any:
    """Computes network(x); on a GPU under autocast, weights of convolutions and linear layers are cast together.

    A compiler joins the casts itself.
    """
    if x.is_cuda and torch.is_autocast_enabled("cuda") and not torch.compiler.is_compiling():
        return cast_together(network, x, torch.get_autocast_dtype("cuda"))
    return network(x)


def cast_together(network: nn.Module, x: Float[Tensor, "b *rest"], dtype: torch.dtype) -> Any:
    """Computes network(x) under autocast, with weights of this type; gradients have the weights' types and strides."""
    layers = [layer._parameters for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    places = [(own, kind) for own in layers for kind, weight in own.items() if weight is not None]
    weights = [own[kind] for own, kind in places]
    if not weights:
        return network(x)
    lower = _Cast.apply(dtype, *weights)
    # torch.func.functional_call would look up every name of the network: a tenth of the host's time for a step.
    try:
        _put(places, lower)
        return network(x)
    finally:
        _put(places, weights)


def _put(places: Sequence[tuple[dict[str, Tensor | None], str]], tensors: Sequence[Tensor]) -> None:
    for (own, kind), tensor in zip(places, tensors, strict=True):
        own[kind] = tensor


class _Cast(Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*weights)
        lower = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        torch._foreach_copy_(lower, weights)
        return tuple(lower)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # for a second derivative, which `_foreach_copy_` does not support
            return None, *map(Tensor.type_as, gradients, ctx.saved_tensors)
        own = [torch.empty_like(weight) for weight in ctx.saved_tensors]
        torch._foreach_copy_(own, gradients)
        return None, *own
