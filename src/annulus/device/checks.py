"""Checks of numbers that a GPU computes, for which the host does not wait: looked at later, or by the GPU itself.

On a CPU there is nothing to wait for: a check is looked at when it is made.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from annulus.device.distributed import all_gather
from annulus.errors import InputError

MARGIN = 0.01  # by which pixels may lie outside [0, 1]: resampling rounds

# From a number to the sentence that refuses it, or None.
Fault = Callable[[float], str | None]


class Checks:
    """Checks of numbers on a GPU, to be looked at together when the host waits for the GPU anyway."""

    def __init__(self) -> None:
        self._made: list[tuple[Tensor, Fault]] = []

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Context in which checks wait for `look`; outside of it each check waits for the GPU."""
        before = _checks.set(self)
        try:
            yield
        finally:
            _checks.reset(before)

    def look(self) -> None:
        """Evaluate the checks made since the last look.

        Raises:
            InputError: what the first faulty number's check says.
        """
        made, self._made = self._made, []
        if made:
            numbers = all_gather(torch.stack([number.double() for number, _ in made])[None])
            for number, (_, fault) in zip(numbers.T.tolist(), made, strict=True):
                _refuse(number, fault)

    def add(self, number: Num[Tensor, ""], fault: Fault) -> None:
        """Look at this number later."""
        self._made.append((number, fault))


_checks: ContextVar[Checks | None] = ContextVar("checks", default=None)


def check(number: Num[Tensor, ""], fault: Fault) -> None:
    """Refuse a number for which `fault` returns a sentence: at once, or on a GPU in `Checks.put_off` at the next look.

    Within `put_off`, all processes refuse if one must, so that none waits for another in vain. Elsewhere each process
    checks its own number, so that another library's loop may call from one process alone.

    Raises:
        InputError: with that sentence.
    """
    checks = _checks.get()
    if checks is None:
        _refuse([float(number)], fault)
    elif number.is_cuda:
        checks.add(number.detach(), fault)
    else:
        _refuse(all_gather(number.detach()[None]).double().tolist(), fault)


def require(
    holds: Callable[[], Bool[Tensor, ""]], device: torch.device, received: Callable[[], str], expected: str
) -> None:
    """Refuse numbers from another library's loop: at once on a CPU; on a GPU by an assertion, which ends the process.

    In `Checks.put_off`, this library's own loop, nothing is checked on a GPU: the loop makes no such numbers.

    Raises:
        InputError: with what was received and what is expected, on a CPU.
    """
    if device.type == "cpu":
        if not holds():
            raise InputError(f"{received()}; {expected}")
    elif _checks.get() is None:
        torch._assert_async(holds(), expected)


def in_own_loop() -> bool:
    """Returns True within this library's own loop, which checks its losses and names the images of a NaN."""
    return _checks.get() is not None


def require_range(name: str, index: Int[Tensor, "*b"], first: int, last: int, expected: str) -> None:
    """Refuse, as `require` does, row or column numbers outside [first, last), which torch may take from the end.

    Raises:
        InputError: with the lowest and the highest, on a CPU.
    """
    if index.numel():
        holds, received = lambda: _within(index, first, last), lambda: f"{name} holds {index.min()} to {index.max()}"
        require(holds, index.device, received, expected)


def require_pixels(name: str, images: Float[Tensor, "..."], expected: str) -> None:
    """Refuse, as `require` does, pixels outside [0, 1], and NaN.

    Raises:
        InputError: with the lowest and the highest, on a CPU.
    """
    if images.numel():
        text = f"{name} from {{:.4g}} to {{:.4g}}"
        require(lambda: _in_range(images), images.device, lambda: text.format(*images.aminmax()), expected)


def _in_range(images: Float[Tensor, "..."]) -> Bool[Tensor, ""]:
    lowest, highest = images.aminmax()  # NaN where a pixel is
    return (lowest >= -MARGIN) & (highest <= 1 + MARGIN)


def _within(index: Int[Tensor, "*b"], first: int, last: int) -> Bool[Tensor, ""]:
    lowest, highest = index.aminmax()
    return (lowest >= first) & (highest < last)


def _refuse(numbers: Sequence[float], fault: Fault) -> None:
    for number in numbers:
        if (sentence := fault(number)) is not None:
            raise InputError(sentence)
