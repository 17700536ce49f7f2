"""CUDA graphs of a network's pass and its backward: the host starts hundreds of kernels by two calls."""

import weakref
from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.modules.module import _has_any_global_hook

from annulus.errors import InputError

Result = TypeVar("Result", Tensor, tuple[Tensor, ...])
Call = Callable[[Tensor], Result]
FORMS = 8  # captured forms at most; each takes memory


class Graphed:
    """A call on a batch, replayed from CUDA graphs: one for the pass and, if weights learn, one for backward.

    The call reads its batch and the modules' parameters and buffers, writes these buffers alone, and always returns
    the same number of new tensors. The first batch of a form is captured. Weights and buffers may change their values;
    if their addresses change, the form is captured again. The call runs without graphs

    - if a module or a weight has a hook, or all modules have: a replay would omit it or run it twice
    - if a pass still waits for its backward
    - beyond `FORMS` forms, and off a GPU
    - in a new form while the loss of an earlier pass exists.
    """

    def __init__(self, call: Call, module: nn.Module) -> None:
        self.call = call
        self.modules = [*module.modules()]
        self.numbers = _numbers(self.modules)
        self.captured: dict[Hashable, _Captured] = {}
        self.passes: weakref.WeakSet[_Pass] = weakref.WeakSet()

    def __call__(self, batch: Tensor) -> Result:
        weights = self._weights()
        if not batch.is_cuda or batch.requires_grad or torch.is_inference_mode_enabled() or self._hooked(weights):
            return self.call(batch)
        with torch.cuda.device_of(batch):  # graphs are captured and replayed on the current device
            return self._replayed(batch, weights)

    def _replayed(self, batch: Tensor, weights: Sequence[Tensor]) -> Result:
        learning = [weight for weight in weights if weight.requires_grad] if torch.is_grad_enabled() else []
        form = _form(batch, self.numbers, learning)
        graphs = self.captured.get(form)
        if graphs is None or graphs.addresses != self._addresses(weights):
            # A pass whose loss still exists, even after backward, holds its weights' autograd nodes on its stream. A
            # capture may not touch that stream.
            full = graphs is None and len(self.captured) == FORMS
            if full or self.passes:
                return self.call(batch)
            graphs = self.captured[form] = _Captured(self.call, batch, learning, self._buffers, self.passes)
            graphs.addresses = self._addresses(weights)  # a first pass may create buffers
        return self.call(batch) if graphs.waits else graphs(batch, learning)

    def _weights(self) -> list[Tensor]:
        """The parameters; a parameter that layers share appears once."""
        parameters = (weight for module in self.modules for weight in module._parameters.values() if weight is not None)
        return [*{id(weight): weight for weight in parameters}.values()]

    def _hooked(self, weights: Sequence[Tensor]) -> bool:
        # A weight's hook would be captured, and run again on the result of a replay.
        return (
            bool(_has_any_global_hook())
            or any(weight._backward_hooks for weight in weights)
            or any(
                module._forward_hooks
                or module._forward_pre_hooks
                or module._backward_hooks
                or module._backward_pre_hooks
                for module in self.modules
            )
        )

    def _buffers(self) -> list[Tensor]:
        return [buffer for module in self.modules for buffer in module._buffers.values() if buffer is not None]

    def _addresses(self, weights: Sequence[Tensor]) -> list[int]:
        """Addresses of the weights and the buffers."""
        return [tensor.data_ptr() for tensor in (*weights, *self._buffers())]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Graphed":
        """Copies the call without its graphs: the copy has other weights and captures its own."""
        new = memo[id(self)] = Graphed.__new__(Graphed)
        new.call, new.modules = deepcopy(self.call, memo), deepcopy(self.modules, memo)
        new.numbers = _numbers(new.modules)
        new.captured, new.passes = {}, weakref.WeakSet()
        return new


def _numbers(modules: Sequence[nn.Module]) -> list[tuple[dict[str, Any], str]]:
    """Places of the modules' own numbers, such as their mode, momentum and share of dropout."""
    return [
        (vars(module), name)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, int | float)
    ]


def _form(batch: Tensor, numbers: Sequence[tuple[dict[str, Any], str]], learning: Sequence[Tensor]) -> Hashable:
    """Cache key of a capture: shapes, strides, types, modes and the modules' numbers, without values and addresses."""
    kind, backends = batch.device.type, torch.backends
    return (
        *(batch.shape, batch.stride(), batch.dtype, batch.device),
        *(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind), torch.is_grad_enabled()),
        *(backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision),  # TF32
        *(backends.cudnn.deterministic, torch.are_deterministic_algorithms_enabled()),
        *(own.get(name) for own, name in numbers),
        *map(id, learning),
    )


class _Captured:
    """The graphs of one form, with their own memory for the batch, the results and the gradients."""

    def __init__(
        self,
        call: Call,
        batch: Tensor,
        learning: Sequence[Tensor],
        buffers: Callable[[], list[Tensor]],
        passes: "weakref.WeakSet[_Pass]",
    ) -> None:
        """Captures a pass after two warm-up passes, and restores the buffers' values and the random states.

        Raises:
            InputError: if a pass replaces the tensor of a buffer, which a replay cannot do.
        """
        with torch.random.fork_rng([batch.device], device_type="cuda"):
            self._capture(call, batch, learning, buffers)
        self.passes = passes

    def _capture(
        self, call: Call, batch: Tensor, learning: Sequence[Tensor], buffers: Callable[[], list[Tensor]]
    ) -> None:
        self.addresses: list[int] = []
        self.last = weakref.ref(_Pass())
        self.batch = batch.detach().clone()
        own = buffers()
        before = [buffer.clone() for buffer in own]
        # A first pass compiles machine code, lets cuDNN choose and creates buffers, which cannot be captured.
        side = torch.cuda.Stream(batch.device)
        side.wait_stream(torch.cuda.current_stream(batch.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                outputs = [output for output in _listed(call(self.batch)) if output.requires_grad]
                output_gradients = [torch.zeros_like(output) for output in outputs]
                if outputs:
                    torch.autograd.grad(outputs, learning, output_gradients, allow_unused=True)
        torch.cuda.current_stream(batch.device).wait_stream(side)
        del outputs
        torch.clear_autocast_cache()  # weights cast in these passes, which a graph would read for ever
        addresses = [buffer.data_ptr() for buffer in buffers()]
        result, self.replay, pool = record(lambda: call(self.batch), None)
        results, self.single = _listed(result), isinstance(result, Tensor)
        self.learns = [place for place, output in enumerate(results) if output.requires_grad]
        self.output_gradients, self.gradients = output_gradients, ()
        if self.learns:
            learnt = [results[place] for place in self.learns]
            self.gradients, self.replay_backward, _ = record(
                lambda: torch.autograd.grad(learnt, learning, output_gradients, allow_unused=True), pool
            )
        # A stored autograd graph would hold the weights' nodes, and these the stream of the capture.
        self.results = [output.detach() for output in results]
        torch.clear_autocast_cache()  # only a replay computes the cast weights in it
        for buffer, value in zip(own, before, strict=True):
            buffer.copy_(value)
        if addresses != [buffer.data_ptr() for buffer in buffers()]:
            raise InputError(
                "the network gives a buffer another tensor at each pass, which CUDA graphs do not replay; "
                "write into it (buffer.copy_), or set ANNULUS_COMPILE=yes"
            )

    @property
    def waits(self) -> bool:
        """True while the last pass may still need memory that the next one overwrites."""
        last = self.last()
        return last is not None and last.waits

    def __call__(self, batch: Tensor, learning: Sequence[Tensor]) -> Result:
        results = _Replayed.apply(self, batch, *learning) if self.learns else self.run(batch)
        return results[0] if self.single else results

    def begin(self) -> "_Pass":
        """Returns a new pass, which is now the last one."""
        new = _Pass()
        self.passes.add(new)
        self.last = weakref.ref(new)
        return new

    def run(self, batch: Tensor) -> tuple[Tensor, ...]:
        """Replays the pass and returns copies of its results, which the next replay does not overwrite."""
        self.batch.copy_(batch)
        self.replay()
        return tuple(result.clone() for result in self.results)

    def run_backward(self, output_gradients: Sequence[Tensor]) -> list[Tensor | None]:
        """Replays backward and returns copies of its gradients. Autograd may store one as `.grad` and add to it later.

        One kernel copies all gradients with their strides: a product with 1 has the same bits.
        """
        torch._foreach_copy_(self.output_gradients, [output_gradients[place] for place in self.learns])
        self.replay_backward()
        copies = iter(torch._foreach_mul([gradient for gradient in self.gradients if gradient is not None], 1))
        return [None if gradient is None else next(copies) for gradient in self.gradients]


class _Pass:
    """One pass through the graphs. Autograd's graph of the pass keeps it alive."""

    waits = True  # until its backward


class _Replayed(Function):
    """The CUDA graphs as a function of autograd."""

    @staticmethod
    def forward(ctx: Any, captured: _Captured, batch: Tensor, *learning: Tensor) -> tuple[Tensor, ...]:
        ctx.captured, ctx.own = captured, captured.begin()
        results = captured.run(batch)
        ctx.mark_non_differentiable(*(result for place, result in enumerate(results) if place not in captured.learns))
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *output_gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients.

        Raises:
            InputError: at the second call, since their memory then holds other numbers.
        """
        if not ctx.own.waits:
            raise InputError(
                "backward ran twice over one pass, whose CUDA graphs keep what it needs once; "
                "set ANNULUS_COMPILE=yes, or call the network again"
            )
        ctx.own.waits = False
        return None, None, *ctx.captured.run_backward(output_gradients)


def record(run: Callable[[], Any], pool: Any) -> tuple[Any, Callable[[], None], Any]:
    """Captures a run. Returns its result, the replay that recomputes the result, and the memory pool.

    Other threads continue: the default capture mode would forbid loaders to pin memory.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        result = run()
    return result, graph.replay, graph.pool()


def _listed(result: Result) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)
