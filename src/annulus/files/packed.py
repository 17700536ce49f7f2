"""One packed file of tensors (safetensors): the same content gives the same bytes, and nothing is unpickled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from annulus.errors import InputError
from annulus.files.results import replacing


def write_packed(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors and a JSON description, whole or not at all.

    Raises:
        InputError: when the disk is full or the folder cannot be written.
    """
    # One metadata entry: safetensors orders several at random, which would change the file's hash.
    description = {"annulus": json.dumps(about, sort_keys=True)}
    contiguous = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata=description)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def read_packed(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the description that `write_packed` wrote.

    Raises:
        InputError: when the file is missing or is not one of annulus's.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["annulus"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is missing or not a file that annulus wrote ({error}); run `dvc repro`") from error
