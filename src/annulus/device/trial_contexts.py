"""Contexts of trials. A trial calls a user's function with made-up numbers and names the line that fails."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from annulus.errors import InputError

TORCH = str(Path(torch.__file__).parent)


@contextmanager
def usual() -> Iterator[None]:
    """Context with a CPU, float32, gradients and torch's random state of seed 0. Afterwards the caller's are back."""
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float32)
        with torch.device("cpu"), torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)  # torch.manual_seed would seed GPUs too
            yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def naming(function: str, numbers: str, advice: str) -> Iterator[None]:
    """Context that turns any error into an InputError with the line of its cause."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = [frame for frame in frames if not frame.filename.startswith(TORCH)][-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{function} fails on made-up {numbers}: {reason} ({Path(place.filename).name}, line {place.lineno}); "
            f"{advice}"
        ) from error
