"""Random generators: each draw uses one derived from `seed` and the draw's name."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import nn

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
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 1)


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


@contextmanager
def first_weights(seed: int) -> Iterator[None]:
    """Layers that are made within draw their first weights from this seed: they draw from torch's global generator.

    Afterwards the global generator is as it was.
    """
    with torch.random.fork_rng(devices=[]):  # the GPUs' generators would start CUDA in every worker
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed GPUs too
        yield
