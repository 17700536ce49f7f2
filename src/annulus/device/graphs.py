"""A network's pass and its backward as CUDA graphs: the host starts hundreds of kernels by two calls."""

import weakref
from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from annulus.errors import InputError

Result = TypeVar("Result", Tensor, tuple[Tensor, ...])
Call = Callable[[Tensor], Result]
FORMS = 8  # of inputs that are captured; each keeps memory


class Graphed:
    """A call on a batch, replayed from CUDA graphs: one for the pass, and where weights learn one for backward.

    The call reads its batch and the modules' parameters and buffers, changes nothing but these buffers, and returns
    new tensors, always as many. Of each form of a batch the first one captures it; weights and buffers may change
    their numbers, and where they lie elsewhere it is captured again. The call runs as it is where a module or a weight
    has a hook, which a replay would leave out or run twice, where a pass still waits for its backward, beyond `FORMS`
    forms, off a GPU, and in a new form while an earlier pass's loss is kept.
    """

    def __init__(self, call: Call, module: nn.Module) -> None:
        self.call = call
        self.modules = [*module.modules()]
        self.captured: dict[Hashable, _Captured] = {}
        self.passes: weakref.WeakSet[_Pass] = weakref.WeakSet()

    def __call__(self, batch: Tensor) -> Result:
        weights = self._weights()
        if not batch.is_cuda or batch.requires_grad or torch.is_inference_mode_enabled() or self._hooked(weights):
            return self.call(batch)
        with torch.cuda.device_of(batch):  # graphs are captured and replayed on the current device
            return self._replayed(batch, weights)

    def _replayed(self, batch: Tensor, weights: Sequence[Tensor]) -> Result:
        learning = [each for each in weights if each.requires_grad] if torch.is_grad_enabled() else []
        form = _form(batch, self.modules, learning)
        found = self.captured.get(form)
        if found is None or found.places != self._places(weights):
            # A pass whose loss is kept, even after backward, keeps its weights' nodes of autograd, on its stream, which
            # a capture may not touch.
            full = found is None and len(self.captured) == FORMS
            if full or self.passes:
                return self.call(batch)
            found = self.captured[form] = _Captured(self.call, batch, learning, self._buffers, self.passes)
            found.places = self._places(weights)  # a first pass may make buffers
        return self.call(batch) if found.waits else found(batch, learning)

    def _weights(self) -> list[Tensor]:
        """The parameters, each once where layers share it."""
        every = (each for module in self.modules for each in module._parameters.values() if each is not None)
        return [*{id(each): each for each in every}.values()]

    def _hooked(self, weights: Sequence[Tensor]) -> bool:
        # A weight's hook would be captured, and run again on what a replay returns.
        return any(weight._backward_hooks for weight in weights) or any(
            module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
            for module in self.modules
        )

    def _buffers(self) -> list[Tensor]:
        return [each for module in self.modules for each in module._buffers.values() if each is not None]

    def _places(self, weights: Sequence[Tensor]) -> list[int]:
        """Where all that a pass reads lies."""
        return [each.data_ptr() for each in (*weights, *self._buffers())]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Graphed":
        """A graph of other weights is another one: the copy captures its own."""
        new = memo[id(self)] = Graphed.__new__(Graphed)
        new.call, new.modules = deepcopy(self.call, memo), deepcopy(self.modules, memo)
        new.captured, new.passes = {}, weakref.WeakSet()
        return new


def _form(batch: Tensor, modules: Sequence[nn.Module], learning: Sequence[Tensor]) -> Hashable:
    """All that the kernels of a pass depend on, but for numbers and their places."""
    kind = batch.device.type
    return (
        *(batch.shape, batch.stride(), batch.dtype, batch.device),
        *(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind), torch.is_grad_enabled()),
        *(module.training for module in modules),
        *map(id, learning),
    )


class _Captured:
    """The graphs of one form, with memory of their own for the batch, the results and the gradients."""

    def __init__(
        self,
        call: Call,
        batch: Tensor,
        learning: Sequence[Tensor],
        buffers: Callable[[], list[Tensor]],
        passes: "weakref.WeakSet[_Pass]",
    ) -> None:
        """Capture a pass, after two that warm up; the numbers of buffers are those of before.

        Raises:
            InputError: when a pass gives a buffer another tensor, which a replay would not.
        """
        self.places: list[int] = []
        self.passes, self.last = passes, weakref.ref(_Pass())
        self.batch = batch.detach().clone()
        own = buffers()
        before = [buffer.clone() for buffer in own]
        # What is made at a first pass (machine code, choices of cuDNN, buffers) cannot be captured.
        side = torch.cuda.Stream(batch.device)
        side.wait_stream(torch.cuda.current_stream(batch.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                found = [each for each in _listed(call(self.batch)) if each.requires_grad]
                given = [torch.zeros_like(each) for each in found]
                if found:
                    torch.autograd.grad(found, learning, given, allow_unused=True)
        torch.cuda.current_stream(batch.device).wait_stream(side)
        del found
        torch.clear_autocast_cache()  # of weights cast in these passes, which a graph would read for ever
        places = [buffer.data_ptr() for buffer in buffers()]
        result, self.replay, pool = record(lambda: call(self.batch), None)
        results, self.one = _listed(result), isinstance(result, Tensor)
        self.learns = [place for place, each in enumerate(results) if each.requires_grad]
        self.given, self.gradients = given, ()
        if self.learns:
            learnt = [results[place] for place in self.learns]
            self.gradients, self.replay_backward, _ = record(
                lambda: torch.autograd.grad(learnt, learning, given, allow_unused=True), pool
            )
        # A graph of autograd that stays would keep the weights' nodes in it, and these the stream of the capture.
        self.results = [each.detach() for each in results]
        torch.clear_autocast_cache()  # it holds weights that only a replay computes
        for buffer, value in zip(own, before, strict=True):
            buffer.copy_(value)
        if places != [buffer.data_ptr() for buffer in buffers()]:
            raise InputError(
                "the network gives a buffer another tensor at each pass, which CUDA graphs do not replay; "
                "write into it (buffer.copy_), or set ANNULUS_COMPILE=yes"
            )

    @property
    def waits(self) -> bool:
        """True where a pass may still need what the next one would overwrite."""
        last = self.last()
        return last is not None and last.waits

    def __call__(self, batch: Tensor, learning: Sequence[Tensor]) -> Result:
        found = _Replayed.apply(self, batch, *learning) if self.learns else self.run(batch)
        return found[0] if self.one else found

    def begin(self) -> "_Pass":
        """A new pass, the last one from here on."""
        new = _Pass()
        self.passes.add(new)
        self.last = weakref.ref(new)
        return new

    def run(self, batch: Tensor) -> tuple[Tensor, ...]:
        """Replay the pass; its results are copies, which the next one leaves alone."""
        self.batch.copy_(batch)
        self.replay()
        return tuple(each.clone() for each in self.results)

    def run_backward(self, given: Sequence[Tensor]) -> list[Tensor | None]:
        """Replay backward; copies of its gradients: a parameter's own may be one of them, to which the next is added.

        One kernel copies all, and each as it lies in memory: a product with 1 has the same bits.
        """
        torch._foreach_copy_(self.given, [given[place] for place in self.learns])
        self.replay_backward()
        copies = iter(torch._foreach_mul([each for each in self.gradients if each is not None], 1))
        return [None if each is None else next(copies) for each in self.gradients]


class _Pass:
    """One pass through the graphs, alive as long as autograd's graph of it."""

    waits = True  # for its backward


class _Replayed(Function):
    """The graphs in autograd's."""

    @staticmethod
    def forward(ctx: Any, captured: _Captured, batch: Tensor, *learning: Tensor) -> tuple[Tensor, ...]:
        ctx.captured, ctx.own = captured, captured.begin()
        found = captured.run(batch)
        ctx.mark_non_differentiable(*(each for place, each in enumerate(found) if place not in captured.learns))
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients.

        Raises:
            InputError: the second time, when their memory holds other numbers.
        """
        if not ctx.own.waits:
            raise InputError(
                "backward ran twice over one pass, whose CUDA graphs keep what it needs once; "
                "set ANNULUS_COMPILE=yes, or call the network again"
            )
        ctx.own.waits = False
        return None, None, *ctx.captured.run_backward(given)


def record(run: Callable[[], Any], pool: Any) -> tuple[Any, Callable[[], None], Any]:
    """Capture a run: its result, whose numbers each replay makes anew; the replay; the pool of its memory.

    Other threads go on meanwhile: loaders pin memory, which a capture would refuse to all.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        found = run()
    return found, graph.replay, graph.pool()


def _listed(result: Result) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)
