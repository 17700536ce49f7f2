"""Checks of numbers on a GPU without a wait of the host: evaluated later, or by the GPU itself.

On a CPU a check is evaluated at once.
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

# Maps a number to an error sentence, or to None where the number is valid.
Fault = Callable[[float], str | None]


class Checks:
    """Pending checks of numbers on a GPU, evaluated together when the host waits for the GPU anyway."""

    def __init__(self) -> None:
        self._pending: list[tuple[Tensor, Fault]] = []

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Context in which `look` evaluates the checks; outside of it each check waits for the GPU."""
        before = _checks.set(self)
        try:
            yield
        finally:
            _checks.reset(before)

    def look(self) -> None:
        """Evaluates the checks added since the last look.

        Raises:
            InputError: with the sentence of the first check that fails.
        """
        pending, self._pending = self._pending, []
        if pending:
            numbers = all_gather(torch.stack([number.double() for number, _ in pending])[None])
            for number, (_, fault) in zip(numbers.T.tolist(), pending, strict=True):
                _refuse(number, fault)

    def add(self, number: Num[Tensor, ""], fault: Fault) -> None:
        """Adds a check for the next look."""
        self._pending.append((number, fault))


_checks: ContextVar[Checks | None] = ContextVar("checks", default=None)


def check(number: Num[Tensor, ""], fault: Fault) -> None:
    """Raises the sentence that `fault` returns for a number: at once, or on a GPU in `Checks.put_off` at the next look.

    Within `put_off`, all processes raise if one does, so none waits for another in vain. Elsewhere each process checks
    its own number, so another library's loop may call this from one process alone.

    Raises:
        InputError: with the sentence.
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
    """Checks numbers from another library's loop: at once on a CPU; on a GPU by an assertion, which ends the process.

    In `Checks.put_off`, this library's own loop, it checks nothing on a GPU: the loop computes valid numbers.

    Raises:
        InputError: on a CPU, with the value and the expectation.
    """
    if device.type == "cpu":
        if not holds():
            raise InputError(f"{received()}; {expected}")
    elif _checks.get() is None:
        torch._assert_async(holds(), expected)


def in_own_loop() -> bool:
    """Returns True within this library's own loop, which checks its losses and names the images with a NaN."""
    return _checks.get() is not None


def require_range(name: str, index: Int[Tensor, "*b"], first: int, last: int, expected: str) -> None:
    """`require` for row or column numbers within [first, last). Torch would count a negative one from the end.

    Raises:
        InputError: on a CPU, with the lowest and the highest number.
    """
    if index.numel():
        holds, received = lambda: _within(index, first, last), lambda: f"{name} holds {index.min()} to {index.max()}"
        require(holds, index.device, received, expected)


def require_pixels(name: str, images: Float[Tensor, "..."], expected: str) -> None:
    """`require` for pixels within [0, 1], without NaN.

    Raises:
        InputError: on a CPU, with the lowest and the highest pixel.
    """
    if images.numel():
        text = f"{name} from {{:.4g}} to {{:.4g}}"
        require(lambda: _in_range(images), images.device, lambda: text.format(*images.aminmax()), expected)


def _in_range(images: Float[Tensor, "..."]) -> Bool[Tensor, ""]:
    lowest, highest = images.aminmax()  # NaN if a pixel is NaN
    return (lowest >= -MARGIN) & (highest <= 1 + MARGIN)


def _within(index: Int[Tensor, "*b"], first: int, last: int) -> Bool[Tensor, ""]:
    lowest, highest = index.aminmax()
    return (lowest >= first) & (highest < last)


def _refuse(numbers: Sequence[float], fault: Fault) -> None:
    for number in numbers:
        if (sentence := fault(number)) is not None:
            raise InputError(sentence)
