"""Random numbers for queries. Every process draws for the whole batch and takes the numbers of its own queries.

So several processes draw the same numbers as one process, without communication.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from annulus.device.distributed import local, world_size
from annulus.errors import InputError


@dataclass(frozen=True)
class Shared:
    """A generator with the same state in every process; a process takes its share (`local`) of a batch's queries.

    A batch has `views` queries of each image: first the first view of all images, then the next view.
    """

    generator: torch.Generator
    views: int = 1


Random = torch.Generator | Shared


def integers(below: int, queries: int, k: int, random: Random) -> Int[Tensor, "queries k"]:
    """Draws k integers in [0, below) for each query."""
    return _own(
        lambda rows, source: torch.randint(below, (rows, k), generator=source, device=source.device), queries, random
    )


def fractions(queries: int, k: int, random: Random, at_once: int | None = None) -> Float[Tensor, "queries k"]:
    """Draws k float64 numbers in [0, 1) for each query, for all queries of the batch or for `at_once` at a time.

    A sampler passes its `generator` to this function, not to torch: in training it serves all processes.

    >>> random = torch.Generator().manual_seed(0)
    >>> annulus.negatives.fractions(queries=2, k=3, random=random).shape
    torch.Size([2, 3])
    """

    def draw(rows: int, source: torch.Generator) -> Tensor:
        settings = {"generator": source, "device": source.device, "dtype": torch.float64}
        parts = torch.arange(rows).split(at_once or max(1, rows))
        return torch.cat([torch.rand(len(part), k, **settings) for part in parts])

    return _own(draw, queries, random)


def check_generator(random: Random, device: torch.device) -> None:
    """Raises InputError unless `random` is a generator on this device.

    Raises:
        InputError: with its type or device.
    """
    generator = random.generator if isinstance(random, Shared) else random
    if not isinstance(generator, torch.Generator):
        raise InputError(f"generator {random!r}: negatives are drawn from a torch.Generator on the scores' device")
    if generator.device.type != device.type:
        raise InputError(
            f"a generator on {generator.device} with scores on {device}: give "
            f"torch.Generator({device.type!r}).manual_seed(...)"
        )


def _own(draw: Callable[[int, torch.Generator], Tensor], queries: int, random: Random) -> Num[Tensor, "queries k"]:
    if isinstance(random, torch.Generator):
        return draw(queries, random)
    drawn = draw(queries * world_size(), random.generator)
    return drawn if world_size() == 1 else torch.cat([local(view) for view in drawn.chunk(random.views)])
