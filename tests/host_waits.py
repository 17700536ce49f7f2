"""What makes the host wait for a GPU, and what starts a kernel there, counted with the lines that they come from.

A wait is whatever stops the host until the GPU has done all that it was given:

    values   item, bool, int, float, tolist, cpu, printing: the host asks for a number that is there
    shapes   nonzero, unique, bincount, a mask as an index, repeat_interleave without output_size: the size of the
             result is such a number. Torch tags these operators (`dynamic_output_shape`, `data_dependent_output`)
    copies   from the host to the GPU, unless the memory is pinned and the copy does not block. Such copies are also
             torch.tensor(..., device=) and an index of the host into a tensor of the GPU

A kernel is an operator of ATen on a tensor of the GPU, but for views and for making empty tensors. An operator counts
once, though a sort, a convolution's gradient, or an optimiser of many weights are several kernels. Copies that nobody
waits for count apart.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

LIBRARY = "src/annulus/"
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}
NO_KERNEL = {
    *("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"),
    *("aten::_unsafe_view", "aten::_reshape_alias", "aten::set_", "aten::is_same_size", "aten::_local_scalar_dense"),
}

# An event and the line of annulus that it comes from, such as ("aten::nonzero", "negatives/samplers.py:204").
Events = Counter[tuple[str, str]]


@dataclass
class Counts:
    """What happened on the pretended GPU."""

    waits: Events = field(default_factory=Counter)
    kernels: Events = field(default_factory=Counter)
    copies: Events = field(default_factory=Counter)  # that nobody waits for

    def table(self) -> str:
        """Every wait, and the files that start kernels."""
        rows = [f"{self.waits.total()} waits, {self.kernels.total()} kernels, {self.copies.total()} copies"]
        rows += [f"{count:6} x {event:28} {line}" for (event, line), count in self.waits.most_common()]
        files: Counter[str] = Counter()
        for (_, line), count in self.kernels.items():
            files[line.split(":")[0]] += count
        return "\n".join(rows + [f"{count:6} kernels {file}" for file, count in files.most_common()])


def index_of(name: str, args: tuple) -> list[Tensor]:
    """The tensors by which an operator indexes its first argument."""
    return [each for each in tree_leaves(args[1]) if isinstance(each, Tensor)] if name in INDEXED else []


def waits(operator: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the host waits for what the operator finds."""
    name = operator._schema.name
    if name in INDEXED:
        return any(each.dtype in (torch.bool, torch.uint8) for each in index_of(name, args))
    if name == "aten::repeat_interleave":
        return kwargs.get("output_size") is None
    return not {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}.isdisjoint(operator.tags)


def starts_kernel(operator: Any) -> bool:
    """Whether the operator has anything to compute."""
    return not operator.is_view and operator._schema.name not in NO_KERNEL


def line() -> str:
    """The line of annulus that runs, innermost."""
    frame = sys._getframe(1)
    while frame is not None:
        _, found, place = frame.f_code.co_filename.partition(LIBRARY)
        if found:
            return f"{place}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"
