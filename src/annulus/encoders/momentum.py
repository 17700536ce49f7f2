"""The slow copy of an encoder, which computes the keys of MoCo and SiMo."""

import dis
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from annulus.errors import InputError

Network = TypeVar("Network", bound=nn.Module)


def momentum_copy(encoder: Network) -> Network:
    """Copies an encoder with its head and buffers. The copy shares no memory with it and takes no gradient.

    Raises:
        InputError: for an encoder that cannot be copied: its weights wait for a first batch or are computed by a hook,
            `deepcopy` fails, or a function of the copy would call the encoder itself.
    """
    for place, value in _attributes(encoder):
        if isinstance(value, Tensor) and is_lazy(value):
            raise InputError(
                f"{place} waits for a first batch, and its copy for the keys would draw other numbers; "
                "pass a batch through the network first"
            )
        if isinstance(value, Tensor) and value.grad_fn is not None:
            raise InputError(
                f"{place} is computed from other tensors, and cannot be copied for the keys; in place of "
                "torch.nn.utils.weight_norm or spectral_norm take that of torch.nn.utils.parametrizations"
            )
    try:
        copy = deepcopy(encoder)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"the encoder cannot be copied for the keys ({error}); give a network that copy.deepcopy takes"
        ) from error
    own = {id(part) for part in (*encoder.modules(), *encoder.parameters(), *encoder.buffers())}
    for place, value in _attributes(copy):
        if not isinstance(value, Tensor) and _reaches(value, own):
            raise InputError(
                f"{place} holds a function that calls the encoder itself, and so would the copy for the keys; "
                "make it a method of the layer's class, or types.MethodType(FUNCTION, LAYER)"
            )
    return copy.requires_grad_(False)


def _attributes(network: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yields names and values that a pass reads from each layer: tensors, own attributes, hooks; no inner layers."""
    usual = vars(nn.Module()).keys() - {"_forward_hooks", "_forward_pre_hooks"}
    for path, layer in network.named_modules():
        for name, value in {**layer._parameters, **layer._buffers, **vars(layer)}.items():
            if name not in usual:
                yield f"{path}.{name}".lstrip("."), value


def _reaches(value: Any, own: set[int]) -> bool:
    """Returns True if a function, or one within a container, holds a module or tensor of these ids."""
    waiting, seen = [value], set()
    while waiting:
        part = waiting.pop()
        if id(part) in own:
            return True
        if id(part) not in seen:
            seen.add(id(part))
            waiting.extend(_held(part))
    return False


def _held(value: Any) -> Iterator[Any]:
    """Yields parts of a container, or a function's object, closure, defaults, and global networks and tensors."""
    match value:
        case nn.Module():
            yield from value.modules()
        case MethodType():
            yield from (value.__self__, value.__func__)
        case partial():
            yield from (value.func, *value.args, *value.keywords.values())
        case FunctionType():
            yield from (cell.cell_contents for cell in value.__closure__ or ())
            yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
            named = (value.__globals__.get(name) for name in _names(value.__code__))
            yield from (part for part in named if isinstance(part, nn.Module | Tensor))
        case dict():
            yield from value.values()
        case list() | tuple():
            yield from value


def _names(code: CodeType) -> Iterator[str]:
    """Yields the names of globals that a function and its inner functions read."""
    yield from (instruction.argval for instruction in dis.get_instructions(code) if instruction.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


class Following:
    """Update after the optimiser's step: theta_copy <- momentum * theta_copy + (1 - momentum) * theta_encoder.

    Only parameters move. Buffers stay: the copy's batch normalisation keeps the statistics of its own forward passes.
    An average of the encoder's statistics would belong to activations that the copy does not have, and an average of
    `num_batches_tracked` would not be a count. MoCo's authors and the libraries that follow them do the same.

    Source: He et al. 2020, arXiv:1911.05722, Eq. 2; Zhu et al. 2020, arXiv:2010.01929, Appendix B.1.
    """

    def __init__(self, copy: nn.Module, encoder: nn.Module) -> None:
        """Collects the parameters once: a walk through layers takes a GPU's host longer than the update."""
        self.encoder = encoder
        slow, fast = dict(copy.named_parameters()), dict(encoder.named_parameters())
        assert fast.keys() == slow.keys(), "the copy has other layers than its encoder"
        paths = [name.rpartition(".") for name in slow]
        # The layers' dictionaries, not tensors: a network that is moved later has other tensors.
        self.places = [
            (copy.get_submodule(path)._parameters, encoder.get_submodule(path)._parameters, name)
            for path, _, name in paths
        ]

    @torch.no_grad()
    def step(self, momentum: float) -> None:
        """Moves the copy's parameters."""
        slow, fast = zip(*((own[name], other[name]) for own, other, name in self.places), strict=True)
        torch._foreach_lerp_(slow, fast, 1 - momentum)
