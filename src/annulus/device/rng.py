"""Random generators: each draw uses one derived from `seed` and the draw's name."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from annulus.errors import InputError, shown


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for one purpose, independent of the seeds for others: derive(0, "order", epoch).

    An empty name counts nowhere: one network of two has a name, an only one has none.

    Raises:
        InputError: unless the seed is a whole number, 0 or more.
    """
    if not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed {shown(seed)}: give a whole number, 0 or more")
    words = [zlib.crc32(str(name).encode()) for name in names if name != ""]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0]) >> 1


def generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for one purpose, on the device where its draws are made."""
    return torch.Generator(device).manual_seed(derive(seed, *names))


class Drawing(nn.Module):
    """A module that draws from a `generator` of its own; checkpoints hold its random state beside the buffers."""

    generator: torch.Generator

    def get_extra_state(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())


class DrawingOnDevice(Drawing):
    """A module that draws on its own device: where it moves to another one, from another generator with the same seed.

    The generator of a kind of device that the module comes back to goes on where it was left, and a checkpoint's state
    of another kind waits until the module is there. A state's length tells the kind.
    """

    def __init__(self, seed: int, *names: str | int, device: torch.device | str) -> None:
        super().__init__()
        self._seed, self._left = derive(seed, *names), dict[int, Tensor]()
        self.generator = torch.Generator(device).manual_seed(self._seed)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if len(state["generator"]) == len(self.generator.get_state()):
            super().set_extra_state(state)
        else:
            self._left[len(state["generator"])] = state["generator"].cpu()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        own = self.generator
        device = fn(torch.empty(0, device=own.device)).device
        if device.type != "meta" and device != own.device:
            self._left[len(own.get_state())] = own.get_state()
            self.generator = torch.Generator(device).manual_seed(self._seed)
            state = self._left.get(len(self.generator.get_state()))
            if state is not None:
                self.generator.set_state(state)
        return self


@contextmanager
def first_weights(seed: int) -> Iterator[None]:
    """Layers that are made within draw their first weights from this seed: they draw from torch's global generator.

    Afterwards the global generator is as it was.
    """
    with torch.random.fork_rng(devices=[]):  # the GPUs' generators would start CUDA in every worker
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed GPUs too
        yield
