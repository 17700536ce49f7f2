"""Means of the gradients over processes, sent while backward still computes further gradients."""

from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from annulus.device.distributed import world_size

BUCKET = 2**22  # gradient values sent at a time: few calls, and the first one early in backward


class GradientMeans:
    """Replaces gradients by their means over processes. Call `wait` between backward and the optimiser's step.

    Backward reaches the last parameters first, so these are sent first. If a process lacks a gradient that another one
    has, it counts as zero, and the process receives the mean. If no process has it, the gradient stays None. In one
    process nothing happens.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        self.buckets = [_Bucket(some) for some in _parts(reversed(learning))] if world_size() > 1 else []
        self.sent = 0
        for bucket in self.buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(partial(self._arrived, bucket))

    def wait(self) -> None:
        """Sends the remaining buckets and stores the means as gradients."""
        for bucket in self.buckets[self.sent :]:
            bucket.send()
        for bucket in self.buckets:
            bucket.take()
        self.sent = 0

    def _arrived(self, bucket: "_Bucket", _: nn.Parameter) -> None:
        """Sends the complete buckets in order, which is the same in every process.

        Raises:
            RuntimeError: if this bucket was complete already, by a second backward before `wait`.
        """
        if bucket.missing == 0:
            raise RuntimeError("backward ran twice before `GradientMeans.wait`; call it after each backward")
        bucket.missing -= 1
        while self.sent < len(self.buckets) and self.buckets[self.sent].missing == 0:
            self.buckets[self.sent].send()
            self.sent += 1


class _Bucket:
    """Parameters whose gradients are sent together."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, self.missing = parameters, len(parameters)
        self.gradients: list[Tensor] = []
        self.flat: Tensor | None = None  # the gradients, then a 1 for each gradient that this process has
        self.work: Any = None

    def send(self) -> None:
        first = self.parameters[0]
        held = torch.ones(len(self.parameters), dtype=first.dtype, device=first.device)
        for place in self._without():
            held[place] = 0
        self.gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        # Values of several types are sent in the widest type.
        self.flat = torch.cat([values.reshape(-1) for values in (*self.gradients, held)])
        self.work = dist.all_reduce(self.flat, group=_group(dist.group.WORLD), async_op=True)

    def take(self) -> None:
        self.work.wait()
        sizes = [*(gradient.numel() for gradient in self.gradients), len(self.parameters)]
        *means, held = self.flat.div_(world_size()).split(sizes)
        for gradient, mean in zip(self.gradients, means, strict=True):
            gradient.copy_(mean.view(gradient.shape))
        for place in self._without():  # the host waits for a GPU only here
            if held[place] > 0:
                self.parameters[place].grad = self.gradients[place]
        self.missing = len(self.parameters)

    def _without(self) -> list[int]:
        return [place for place, parameter in enumerate(self.parameters) if parameter.grad is None]


@cache
def _group(world: Any) -> Any:
    """Group of all processes for gradients alone, apart from the batch statistics that are sent meanwhile."""
    return dist.new_group()


def _parts(parameters: Iterable[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yields the parameters in order, about `BUCKET` values at a time."""
    part, values = [], 0
    for parameter in parameters:
        part.append(parameter)
        values += parameter.numel()
        if values >= BUCKET:
            yield part
            part, values = [], 0
    if part:
        yield part
