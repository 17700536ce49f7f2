"""A packed file of tensors (safetensors): equal content gives equal bytes, and reading unpickles nothing."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from annulus.errors import InputError
from annulus.files.regular import check_regular
from annulus.files.results import atomic_write

ROWS_AT_ONCE = 4096  # in a check for NaN
WAY_OUT = "give the path of one (in a checkout of annulus `dvc repro` makes it)"


def write_packed(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Writes tensors and a JSON description, whole or not at all.

    Raises:
        InputError: if the disk is full or the folder cannot be written.
    """
    # One metadata entry: safetensors orders several at random, which would change the file's hash.
    write_tensors(path, tensors, {"annulus": json.dumps(about, sort_keys=True)})


def write_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: dict[str, str] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Writes tensors of any device and layout as safetensors, whole or not at all.

    `ready` is called after the last byte is written, before the file replaces an older one.

    Raises:
        InputError: if the disk is full or the folder cannot be written.
    """
    contiguous = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with atomic_write(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata=metadata)
        except SafetensorError as error:
            raise OSError(str(error)) from error
        ready()


def write_torch(path: Path, content: Mapping[str, Any]) -> None:
    """Writes tensors, numbers, text, and lists and dicts of them by torch.save, whole or not at all.

    Raises:
        InputError: if the disk is full or the folder cannot be written.
    """
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(dict(content), file)
        except RuntimeError as error:  # torch's message hides the error of the disk
            raise error.__context__ or error from None


def read_packed(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads the tensors and the description of a file of `write_packed`.

    Raises:
        InputError: if the file is missing or was not written by annulus.
    """
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["annulus"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is missing or not a file that annulus wrote ({error}); {WAY_OUT}") from error
    if not isinstance(about, dict):
        raise InputError(f"{path} is not a file that annulus wrote (its description is not an object); {WAY_OUT}")
    return tensors, about


class Damaged(InputError):
    """A file of annulus that was edited, or written by another version."""

    def __init__(self, path: Path, fault: str, stage: str) -> None:
        super().__init__(path, fault, stage)  # pickle rebuilds the error from these in another process

    def __str__(self) -> str:
        path, fault, stage = self.args
        return f"{path}: {fault}; write it again (in a checkout of annulus `dvc repro --force {stage}`)"


def check_tensors(
    path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[torch.dtype, str]], stage: str
) -> dict[str, int]:
    """Checks types, shapes and finite floats of tensors. Returns the sizes by letter.

    `expected` maps a name to type and shape. In "n 3 h h", a letter is any size, the same in all tensors. `stage` is
    the stage that writes the file.

    Raises:
        InputError: with the tensor, its type and shape, and the expectation.
    """
    if tensors.keys() != expected.keys():
        actual, required = (", ".join(sorted(names)) or "nothing" for names in (tensors, expected))
        raise Damaged(path, f"holds {actual}, expected {required}", stage)
    sizes: dict[str, int] = {}
    for name, (dtype, shape) in expected.items():
        tensor, letters = tensors[name], shape.split()
        fits = tensor.dtype == dtype and tensor.ndim == len(letters)
        for letter, size in zip(letters, tensor.shape, strict=False):
            fits &= size == (int(letter) if letter.isdigit() else sizes.setdefault(letter, size))
        if not fits:
            known = "".join(f", {letter} = {size}" for letter, size in sizes.items() if letter in letters)
            actual = f"{_kind(tensor.dtype)} of shape ({', '.join(map(str, tensor.shape))})"
            raise Damaged(path, f"{name} is {actual}, expected {_kind(dtype)} of ({shape}){known}", stage)
        if dtype.is_floating_point and not all(some.isfinite().all() for some in tensor.split(ROWS_AT_ONCE)):
            raise Damaged(path, f"{name} holds NaN or infinity, expected finite numbers", stage)
    return sizes


def check_about(path: Path, about: Mapping[str, Any], expected: Mapping[str, Any], stage: str) -> None:
    """Checks that a description has each expected key, with a value of the expected type.

    Raises:
        InputError: with the key, its type and the expected type.
    """
    for key, kind in expected.items():
        if key not in about:
            raise Damaged(path, f"its description has no {key}", stage)
        if type(about[key]) is not kind:
            raise Damaged(path, f"its {key} is {type(about[key]).__name__}, expected {kind.__name__}", stage)


def check_labels(path: Path, labels: Tensor, classes: list[Any], stage: str, lowest: int = 0) -> None:
    """Checks that class names are text, and labels lie from `lowest` to the last class.

    Raises:
        InputError: with the first wrong name or label.
    """
    for name in classes:
        if not isinstance(name, str):
            raise Damaged(path, f"its classes hold {type(name).__name__}, expected names", stage)
    wrong = labels[(labels < lowest) | (labels >= len(classes))]
    if len(wrong):
        raise Damaged(path, f"a label is {int(wrong[0])}, expected {lowest} to {len(classes) - 1}", stage)


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
