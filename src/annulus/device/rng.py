"""Random generators, one for each draw, derived from the seed and the draw's name."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from annulus.errors import InputError, abridge


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for one purpose, independent of the seeds for others: derive(0, "order", epoch).

    An empty name is ignored: each of two networks has a name, a single one has none.

    Raises:
        InputError: unless the seed is a whole number, 0 or more.
    """
    if not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed {abridge(seed)}: give a whole number, 0 or more")
    words = [zlib.crc32(str(name).encode()) for name in names if name != ""]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0]) >> 1


def generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for one purpose, on the device of its draws."""
    return torch.Generator(device).manual_seed(derive(seed, *names))


class Drawing(nn.Module):
    """A module with its own random `generator`; checkpoints hold the random state beside the buffers."""

    generator: torch.Generator

    def get_extra_state(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())


class DrawingOnDevice(Drawing):
    """A module whose generator follows it: on another device it draws from a new generator with the same seed.

    On its return to a kind of device, the generator continues from its last state there. A checkpoint's state of
    another kind of device waits until the module moves there. The length of a state identifies the kind.
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
    """Context in which new layers draw their first weights from this seed, by torch's global generator.

    Afterwards the global generator has its previous state.
    """
    with torch.random.fork_rng(devices=[]):  # the GPUs' generators would start CUDA in every worker
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed GPUs too
        yield
