"""A pretended GPU on a CPU: the library takes a GPU's paths, and its waits, operators and copies are counted.

with PretendedGPU() as gpu:
    training = build_training(..., device=gpu.device)  # a device of type cuda
    with gpu.counting() as counts:
        training.step(order)
print(counts.table())  # each wait with the line of annulus that it comes from

Everything computes on the CPU, but each storage belongs to the host or to the pretended GPU. A tensor is on the GPU if
it was placed there (`device=`, `.to(device)`) or made from tensors that are there; its attribute `device` is then the
GPU. As on a GPU, tensors of the two sides do not mix, and autocast casts to bfloat16.

A wait stops the host until the GPU has finished its queued work:

    values   item, bool, int, float, tolist, cpu, printing: the host reads a number that is there
    shapes   nonzero, unique, bincount, a mask as an index, repeat_interleave without output_size: the size of the
             result is such a number. Torch tags these operators (`dynamic_output_shape`, `data_dependent_output`)
    copies   from the host to the GPU, unless the memory is pinned and the copy does not block. Such copies are also
             torch.tensor(..., device=) and an index of the host into a tensor of the GPU

An operator of ATen on a tensor of the GPU counts once; views and new empty tensors do not count. It is one kernel or
more: a sort, a convolution's gradient, or an optimiser of many weights are several. Copies without a wait count apart.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from annulus.encoders import grouped_pass
from annulus.negatives import threshold
from annulus.views import parameters, recipe

CUDA, HOST = torch.device("cuda"), torch.device("cpu")
LIBRARY = "src/annulus/"
MADE_OF_NUMBERS = ("tensor", "as_tensor", "asarray")
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}
NO_KERNEL = {
    *("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"),
    *("aten::_unsafe_view", "aten::_reshape_alias", "aten::set_", "aten::is_same_size", "aten::_local_scalar_dense"),
}


class Counts:
    """Counts of events on the pretended GPU by event and line of annulus: ("aten::nonzero", "negatives/own.py:204")."""

    def __init__(self) -> None:
        self.waits, self.operators, self.copies = Counter(), Counter(), Counter()  # copies: without a wait

    def table(self) -> str:
        """Every wait, and the files that call operators."""
        rows = [f"{self.waits.total()} waits, {self.operators.total()} operators, {self.copies.total()} copies"]
        rows += [f"{count:6} x {event:28} {line}" for (event, line), count in self.waits.most_common()]
        files = Counter()
        for (_, line), count in self.operators.items():
            files[line.split(":")[0]] += count
        return "\n".join(rows + [f"{count:6} operators {file}" for file, count in files.most_common()])


class PretendedGPU:
    """A context in which `device` can be used without a GPU."""

    device = CUDA
    # By address; a weak reference keeps an address from being used again. Tensors that the library keeps from one
    # context are still there in the next.
    _there: ClassVar[dict[int, StorageWeakRef]] = {}
    _pinned: ClassVar[dict[int, StorageWeakRef]] = {}

    def __init__(self, *, autocast: bool = True) -> None:
        """Without `autocast` its numbers equal the CPU's, up to rounding."""
        self._autocast = autocast
        self._counts: Counts | None = None
        self.new_there = False  # a tensor made from no other one is on the GPU
        self.moving: bool | None = None  # direction of the copy that runs: to the GPU (True) or from it (False)

    def __enter__(self) -> "PretendedGPU":
        autocast = torch.autocast

        def cast(device, *args, enabled=True, **kwargs):
            return autocast("cpu", *args, enabled=enabled and self._autocast, **kwargs)

        self._stack = ExitStack()
        for context in (
            mock.patch.object(torch, "Generator", _Generator),
            mock.patch.object(torch, "autocast", cast),
            mock.patch.object(torch, "is_autocast_enabled", _on_cpu(torch.is_autocast_enabled)),
            mock.patch.object(torch, "get_autocast_dtype", _on_cpu(torch.get_autocast_dtype)),
            mock.patch.object(torch.cuda, "mem_get_info", return_value=(2**40, 2**40)),
            _Operators(self),
            _Functions(self),
        ):
            self._stack.enter_context(context)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)

    @contextmanager
    def counting(self):
        """Counts events in this context only, not in an enclosing one."""
        before, self._counts = self._counts, Counts()
        try:
            yield self._counts
        finally:
            self._counts = before

    def count(self, events: str, event: str) -> None:
        if self._counts is not None:
            getattr(self._counts, events)[event, line()] += 1

    def holds(self, tensor: Tensor) -> bool:
        return _storage(tensor)._cdata in self._there

    def pinned(self, tensor: Tensor) -> bool:
        return _storage(tensor)._cdata in self._pinned

    def put(self, tensor: Tensor) -> None:
        """Marks the tensor as one of the GPU."""
        storage = _storage(tensor)
        self._there.setdefault(storage._cdata, StorageWeakRef(storage))

    def pin(self, tensor: Tensor) -> Tensor:
        storage = _storage(tensor)
        self._pinned.setdefault(storage._cdata, StorageWeakRef(storage))
        return tensor

    def copied_from_host(self, event: str, tensor: Tensor, non_blocking: bool) -> None:
        self.count("copies" if non_blocking and self.pinned(tensor) else "waits", event)

    @contextmanager
    def setting(self, **state: bool | None):
        """`new_there` and `moving` while an operator runs."""
        before = {name: getattr(self, name) for name in state}
        vars(self).update(state)
        try:
            yield
        finally:
            vars(self).update(before)


def exact_batch_norm(x, weight, bias, eps, measured):
    """Results of the batch-norm kernels by PyTorch in float64: in float32 PyTorch is less exact than the kernels."""
    exact = measured.double()
    result = grouped_pass.plain(x.double(), weight.double(), bias.double(), eps, exact)
    measured.copy_(exact)
    return result.to(x.dtype)


@contextmanager
def pretended_kernels(gpu: PretendedGPU):
    """A context in which the library finds Triton and trusts its kernels.

    Each function that starts kernels counts them, then computes the CPU's result without counting.
    """
    from annulus.encoders import grouped_kernels  # Triton is on Linux alone
    from annulus.negatives import bisection
    from annulus.views import kernels

    def select(scores, own, first, last, picked):
        for kernel in ("_bracketed", "_kept", "_bisected", "_listed"):
            gpu.count("operators", f"bisection.{kernel}")
        for operator in ["aten::to"] if picked is None else ["aten::gather", "aten::to"]:
            gpu.count("operators", operator)
        with gpu.counting():
            return threshold.plain(scores, own if own.numel() else None, first, last, picked)

    def view(images, boxes, mirrored, jitter, grey, size):
        for kernel in ("_cropped", "_coloured"):
            gpu.count("operators", f"kernels.{kernel}")
        with gpu.counting():
            own = parameters.map_tensors(recipe.Recipe(boxes, mirrored, jitter, grey, None), lambda field: field.cpu())
            return recipe.by_chunks(images.cpu(), own, size).to(gpu.device)

    def normalised(*settings):
        for kernel in ("_parted", "_normalised"):
            gpu.count("operators", f"grouped_kernels.{kernel}")
        with gpu.counting():
            return exact_batch_norm(*settings)

    with (
        mock.patch.object(grouped_pass, "trusted", return_value=True),
        mock.patch.object(threshold, "trusted", return_value=True),
        mock.patch.object(recipe, "trusted", return_value=True),
        mock.patch.object(grouped_kernels, "normalised", normalised),
        mock.patch.object(bisection, "select", select),
        mock.patch.object(kernels, "view", view),
    ):
        yield


def _on_cpu(query):
    return lambda device="cuda": query("cpu" if device == "cuda" else device)


class _Generator(torch.Generator):
    """A generator of the CPU whose `device` is the requested one."""

    def __new__(cls, device: torch.device | str = "cpu") -> "_Generator":
        generator = super().__new__(cls, "cpu")
        generator.target = torch.device(device)
        return generator

    @property
    def device(self) -> torch.device:
        return self.target


class _Functions(TorchFunctionMode):
    """Torch functions and methods that name a device, copy between the sides, or read values behind ATen."""

    def __init__(self, gpu: PretendedGPU) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, kwargs = self.gpu, dict(kwargs or {})
        own = args[0] if args and isinstance(args[0], Tensor) else None
        there = own is not None and gpu.holds(own)
        if func == Tensor.device.__get__:
            return CUDA if there else HOST
        if func == Tensor.is_cuda.__get__:
            return there
        if func == Tensor.is_cpu.__get__:
            return not there
        name = getattr(func, "__name__", "")
        if name == "__get__":  # an attribute, which makes no tensor from nothing
            return func(*args, **kwargs)
        if own is not None and name in ("to", "cpu", "cuda"):
            return self._moved(name, own, args[1:], kwargs)
        if name == "pin_memory":
            assert not there, "only memory of the host can be pinned"
            return gpu.pin(own.clone())
        if name == "is_pinned":
            return gpu.pinned(own)
        if there and name in ("numpy", "__array__"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if there and name in ("tolist", "__repr__"):  # read without an operator of ATen
            gpu.count("waits", name)
            return func(*args, **kwargs)
        device = torch.device(kwargs.get("device") or HOST)
        new_there = device == CUDA or any(gpu.holds(each) for each in tensors_in(args))
        generator = kwargs.get("generator")
        if generator is not None and (generator.device.type == "cuda") != new_there:
            raise RuntimeError(f"{name} on {'the GPU' if new_there else 'the host'} with the other side's generator")
        if device == CUDA:
            kwargs["device"] = HOST
            if name in MADE_OF_NUMBERS:
                gpu.count("waits", name)
        pinned = kwargs.pop("pin_memory", False)
        with gpu.setting(new_there=new_there):
            result = func(*args, **kwargs)
            if device == CUDA and name in MADE_OF_NUMBERS:
                gpu.put(result)
        return gpu.pin(result) if pinned else result

    def _moved(self, name: str, own: Tensor, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """`own.to(...)`, perhaps on the other side."""
        gpu, there = self.gpu, self.gpu.holds(own)
        copy, other = kwargs.pop("copy", False), kwargs.pop("other", args[0] if args else None)
        if name != "to":
            device, dtype, non_blocking, layout = torch.device(name), None, kwargs.get("non_blocking", False), None
        elif isinstance(other, Tensor):
            device, dtype, layout = CUDA if gpu.holds(other) else HOST, other.dtype, None
            non_blocking = kwargs.get("non_blocking", args[1] if len(args) > 1 else False)
        else:
            device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
        options = {"memory_format": layout} if layout is not None else {}
        target = there if device is None else device.type == "cuda"
        if target == there:
            return own.to(own.dtype if dtype is None else dtype, copy=copy, **options)
        if target:
            gpu.copied_from_host(name, own, non_blocking)
        else:
            gpu.count("waits", name)
        with gpu.setting(moving=target):
            return own.to(own.dtype if dtype is None else dtype, copy=True, **options)


class _Operators(TorchDispatchMode):
    """ATen's operators, also in backward: counts them and records the side of their results."""

    def __init__(self, gpu: PretendedGPU) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, kwargs, name = self.gpu, kwargs or {}, func._schema.name
        tensors = [*tensors_in(args), *tensors_in(kwargs.values())]
        there = [gpu.holds(each) for each in tensors]
        result = func(*args, **kwargs)
        operates = not func.is_view and name not in NO_KERNEL
        if gpu.moving is not None:
            side = gpu.moving
        elif side := any(there):
            if name == "aten::copy_" and there[0] and not there[1]:
                gpu.copied_from_host("copy_", tensors[1], kwargs.get("non_blocking", len(args) > 2 and args[2]))
            elif name == "aten::copy_" and there[1] and not there[0]:
                gpu.count("waits", "copy_")
            else:
                self._count_waits(func, name, args, kwargs, tensors, there)
                if operates:
                    gpu.count("operators", name)
        else:
            side = not tensors and gpu.new_there
            if side and operates:
                gpu.count("operators", name)
        if side and name != "aten::copy_":
            for each in tensors_in([result]):
                gpu.put(each)
        return result

    def _count_waits(
        self, func: Any, name: str, args: tuple, kwargs: dict, tensors: list[Tensor], there: list[bool]
    ) -> None:
        """Counts a wait if the host waits for an operand of an operator on the GPU, or for its result."""
        index = tensors_in(args[1]) if name in INDEXED else []
        for each, on_gpu in zip(tensors, there, strict=True):
            if on_gpu or each.dim() == 0:
                continue
            if not (there[0] and any(each is one for one in index)):
                raise RuntimeError(f"{name} at {line()} mixes tensors of the GPU and of the host: {tuple(each.shape)}")
            self.gpu.count("waits", f"{name} by the host")
        if index:
            waits = any(each.dtype in (torch.bool, torch.uint8) for each in index)
        elif name == "aten::repeat_interleave":
            waits = kwargs.get("output_size") is None
        else:
            waits = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(func.tags)
        if waits:
            self.gpu.count("waits", name)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """Tensors among values, in lists, tuples and dictionaries too. Torch's own walk takes ten times as long."""
    tensors = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += tensors_in(value)
        elif isinstance(value, dict):
            tensors += tensors_in(value.values())
    return tensors


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()


def line() -> str:
    """The innermost line of annulus that runs."""
    frame = sys._getframe(1)
    while frame is not None:
        _, separator, place = frame.f_code.co_filename.replace("\\", "/").partition(LIBRARY)
        if separator:
            return f"{place}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"
