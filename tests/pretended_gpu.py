"""A GPU where there is none: the library takes the paths of a GPU, and what it asks of one is counted (host_waits.py).

with PretendedGPU() as gpu:
    training = build_training(..., device=gpu.device)  # a device of type cuda
    with gpu.counting() as counts:
        training.step(order)
print(counts.table())  # each wait with the line of annulus that it comes from

Everything computes on the CPU, but each storage belongs to the host or to the pretended GPU. A tensor is on the GPU if
it was asked for there (`device=`, `.to(device)`) or made from tensors that are there. It says so when asked for its
device. As on a GPU, tensors of the two sides do not mix, and autocast casts to bfloat16.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest import mock

import torch
from host_waits import Counts, index_of, line, starts_kernel, waits
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CUDA, HOST = torch.device("cuda"), torch.device("cpu")
VALUES = {"tolist", "__repr__"}  # read without an operator of ATen


class PretendedGPU:
    """A context in which `device` can be used though there is no GPU."""

    device = CUDA
    # By address; a weak reference keeps an address from being used again. What the library keeps from one context is
    # still there in the next.
    _there: ClassVar[dict[int, StorageWeakRef]] = {}
    _pinned: ClassVar[dict[int, StorageWeakRef]] = {}

    def __init__(self, *, autocast: bool = True) -> None:
        """Without `autocast` its numbers are those of the CPU, up to rounding."""
        self._autocast = autocast
        self._counts: Counts | None = None
        self.new_there = False  # whether a tensor made from no other one is on the GPU
        self.moving: bool | None = None  # a copy between the sides runs, to the GPU or from it

    def __enter__(self) -> "PretendedGPU":
        self._stack = ExitStack()
        for context in (
            mock.patch.object(torch, "Generator", _Generator),
            mock.patch.object(torch, "autocast", self._cast(torch.autocast)),
            mock.patch.object(torch, "is_autocast_enabled", _of_cpu(torch.is_autocast_enabled)),
            mock.patch.object(torch, "get_autocast_dtype", _of_cpu(torch.get_autocast_dtype)),
            mock.patch.object(torch.cuda, "mem_get_info", return_value=(2**40, 2**40)),
            _Operators(self),
            _Functions(self),
        ):
            self._stack.enter_context(context)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)

    def _cast(self, autocast: type[torch.autocast]) -> Callable[..., torch.autocast]:
        def cast(device: str, *args: Any, enabled: bool = True, **kwargs: Any) -> torch.autocast:
            return autocast("cpu", *args, enabled=enabled and self._autocast, **kwargs)

        return cast

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        """What happens in this context."""
        self._counts = Counts()
        try:
            yield self._counts
        finally:
            self._counts = None

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """What happens in this context is the test's own."""
        counts, self._counts = self._counts, None
        try:
            yield
        finally:
            self._counts = counts

    def count(self, events: str, event: str) -> None:
        if self._counts is not None:
            getattr(self._counts, events)[event, line()] += 1

    def holds(self, tensor: Tensor) -> bool:
        return _storage(tensor)._cdata in self._there

    def pinned(self, tensor: Tensor) -> bool:
        return _storage(tensor)._cdata in self._pinned

    def put(self, tensor: Tensor) -> None:
        """The tensor is on the GPU from here on."""
        storage = _storage(tensor)
        self._there.setdefault(storage._cdata, StorageWeakRef(storage))

    def pin(self, tensor: Tensor) -> Tensor:
        storage = _storage(tensor)
        self._pinned.setdefault(storage._cdata, StorageWeakRef(storage))
        return tensor

    def copied_from_host(self, event: str, tensor: Tensor, non_blocking: bool) -> None:
        self.count("copies" if non_blocking and self.pinned(tensor) else "waits", event)

    @contextmanager
    def setting(self, **state: bool | None) -> Iterator[None]:
        """`new_there` and `moving` while an operator runs."""
        before = {name: getattr(self, name) for name in state}
        vars(self).update(state)
        try:
            yield
        finally:
            vars(self).update(before)


def _of_cpu(asked: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda device="cuda": asked("cpu" if device == "cuda" else device)


class _Generator(torch.Generator):
    """A generator of the CPU that says it is on the GPU, where it was asked for there."""

    def __new__(cls, device: torch.device | str = "cpu") -> "_Generator":
        made = super().__new__(cls, "cpu")
        made.asked = torch.device(device)
        return made

    @property
    def device(self) -> torch.device:
        return self.asked


class _Functions(TorchFunctionMode):
    """Torch's functions and methods: what names a device, copies between the sides, or reads values behind ATen."""

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
        if own is not None and name in ("to", "cpu", "cuda"):
            return self._moved(name, own, args[1:], kwargs)
        if name == "pin_memory":
            assert not there, "only memory of the host can be pinned"
            return gpu.pin(own.clone())
        if name == "is_pinned":
            return gpu.pinned(own)
        if there and name in ("numpy", "__array__"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if there and name in VALUES:
            gpu.count("waits", name)
            return func(*args, **kwargs)
        device = torch.device(kwargs.get("device") or HOST)
        new_there = device == CUDA or any(isinstance(each, Tensor) and gpu.holds(each) for each in tree_leaves(args))
        generator = kwargs.get("generator")
        if generator is not None and (generator.device.type == "cuda") != new_there:
            raise RuntimeError(f"{name} on {'the GPU' if new_there else 'the host'} with the other side's generator")
        if device == CUDA:
            kwargs["device"] = HOST
            if name in ("tensor", "as_tensor", "asarray"):
                gpu.count("waits", name)
        pinned = kwargs.pop("pin_memory", False)
        with gpu.setting(new_there=new_there):
            result = func(*args, **kwargs)
            if device == CUDA and name in ("tensor", "as_tensor", "asarray"):
                gpu.put(result)
        return gpu.pin(result) if pinned else result

    def _moved(self, name: str, own: Tensor, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """`own.to(...)`, perhaps on the other side."""
        gpu, there = self.gpu, self.gpu.holds(own)
        copy, other = kwargs.pop("copy", False), kwargs.pop("other", args[0] if args else None)
        if name != "to":
            device, dtype, non_blocking, layout = torch.device(name), None, kwargs.get("non_blocking", False), None
        elif isinstance(other, Tensor):
            device, dtype, layout = other.device, other.dtype, None
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
    """ATen's operators, those of backward too: what they start, and on which side their results are."""

    def __init__(self, gpu: PretendedGPU) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, kwargs, name = self.gpu, kwargs or {}, func._schema.name
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        there = [gpu.holds(each) for each in tensors]
        result = func(*args, **kwargs)
        if gpu.moving is not None:
            side = gpu.moving
        elif any(there):
            side = True
            self._count(func, name, args, kwargs, tensors, there)
        else:
            side = not tensors and gpu.new_there
            if side and starts_kernel(func):
                gpu.count("kernels", name)
        if side and name != "aten::copy_":
            for each in tree_leaves(result):
                if isinstance(each, Tensor):
                    gpu.put(each)
        return result

    def _count(
        self, func: Any, name: str, args: tuple, kwargs: dict[str, Any], tensors: list[Tensor], there: list[bool]
    ) -> None:
        gpu = self.gpu
        if name == "aten::copy_" and there[0] != there[1]:
            if there[1]:
                gpu.count("waits", "copy_")
            else:
                gpu.copied_from_host("copy_", tensors[1], kwargs.get("non_blocking", len(args) > 2 and args[2]))
            return
        index = index_of(name, args)
        for each, on_gpu in zip(tensors, there, strict=True):
            if on_gpu or each.dim() == 0:
                continue
            if not (there[0] and any(each is one for one in index)):
                raise RuntimeError(f"{name} at {line()} mixes tensors of the GPU and of the host: {tuple(each.shape)}")
            gpu.count("waits", f"{name} by the host")
        if waits(func, args, kwargs):
            gpu.count("waits", name)
        if starts_kernel(func):
            gpu.count("kernels", name)


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()
