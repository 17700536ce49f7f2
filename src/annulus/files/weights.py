"""A network as two files: its weights, and its configuration as JSON of the same name."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from annulus.errors import InputError
from annulus.files.packed import write_tensors
from annulus.files.regular import check_regular, read_text
from annulus.files.results import write_text

FOLDER_WEIGHTS, FOLDER_CONFIG = "model.safetensors", "config.json"  # a network as a folder, by the Hub's names

Config = TypeVar("Config")
Network = TypeVar("Network", bound=nn.Module)


class Kind(NamedTuple):
    """Expected content of a file (`an encoder`), and the way out for an error."""

    name: str
    way_out: str


def save_network(network: nn.Module, config: Any, weights: Path) -> None:
    """Writes the weights, and the configuration (a dataclass) as JSON of the same name beside them."""
    write_pair(network, config, weights, weights.with_suffix(".json"))


def write_pair(
    network: nn.Module, config: Any, weights: Path, described: Path, metadata: dict[str, str] | None = None
) -> None:
    """Writes both files. A kill between them leaves weights without JSON, never with the JSON of another network.

    Floats are written as float32, the type in which the configuration builds the network.
    """
    text = json.dumps(asdict(config), indent=2, sort_keys=True) + "\n"  # before the first file is written
    tensors = network.state_dict()
    # Copies: safetensors refuses two names of one tensor, as a layer in two places has.
    state = {
        name: (tensor.float() if tensor.is_floating_point() else tensor).clone() for name, tensor in tensors.items()
    }
    write_tensors(weights, state, metadata, ready=partial(described.unlink, missing_ok=True))
    write_text(described, text)


def load_network(
    weights: Path, parse: Callable[[Any], Config], build: Callable[[Config], Network], kind: Kind
) -> Network:
    """Loads a network of `save_network`, or of a folder in the Hub's form, in evaluation mode and frozen.

    Raises:
        InputError: if a file is missing or of another kind, or the weights do not have the configuration's shapes.
    """
    try:
        if weights.is_dir():
            weights, described = weights / FOLDER_WEIGHTS, weights / FOLDER_CONFIG
        else:
            described = weights.with_suffix(".json")
        check_regular(weights)
        config = parse(json.loads(read_text(described)))
        state = load_file(weights)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise InputError(
            f"{weights} or its JSON is missing or not {kind.name} of annulus ({error}); {kind.way_out}"
        ) from error
    network = build(config)  # its weights are replaced below
    if (fault := difference(network.state_dict(), state)) is not None:
        raise InputError(
            f"{weights} does not have the shapes of {described.name} ({fault}); load the two files of one run"
        )
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise InputError(f"{weights}: {name} holds NaN or infinity; {kind.way_out}")
    network.load_state_dict(state)
    return network.eval().requires_grad_(False)


def check_keys(described: Any, config: type) -> None:
    """Raises ValueError unless the JSON has exactly the fields of a configuration."""
    names = {field.name for field in fields(config)}
    if not isinstance(described, dict) or described.keys() != names:
        actual = ", ".join(sorted(described)) if isinstance(described, dict) else type(described).__name__
        raise ValueError(f"it holds {actual or 'nothing'}, expected {', '.join(sorted(names))}")


def statistics(described: Mapping[str, Any], planes: int) -> dict[str, tuple[float, ...]]:
    """Returns `mean` and `std` of such JSON. Raises ValueError unless each has `planes` finite numbers."""
    for name in ("mean", "std"):
        numbers = described[name]
        finite = isinstance(numbers, list) and all(type(n) in (int, float) and abs(n) < 1e30 for n in numbers)
        if not finite or len(numbers) != planes:
            raise ValueError(f"{name} is {numbers!r}, expected {planes} finite numbers")
    return {name: tuple(map(float, described[name])) for name in ("mean", "std")}


def difference(expected: Mapping[str, Tensor], loaded: Mapping[str, Tensor]) -> str | None:
    """The first tensor whose type or shape differs from the configuration, as a sentence, or None."""
    loaded_kinds, expected_kinds = (
        {name: f"{tensor.dtype} {tuple(tensor.shape)}".removeprefix("torch.") for name, tensor in tensors.items()}
        for tensors in (loaded, expected)
    )
    for name in [*expected, *loaded]:
        actual, required = loaded_kinds.get(name, "nothing"), expected_kinds.get(name, "nothing")
        if actual != required:
            return f"{name} is {actual}, expected {required}"
    return None
