"""A network as two files: its weights, and beside them its configuration as JSON of the same name."""

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
    """Content that a file should have (`an encoder`), and the way out when it has another."""

    name: str
    way_out: str


def save_network(network: nn.Module, config: Any, weights: Path) -> None:
    """Write the weights, and the configuration, a dataclass, as JSON of the same name beside them."""
    write_pair(network, config, weights, weights.with_suffix(".json"))


def write_pair(
    network: nn.Module, config: Any, weights: Path, described: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write both files; a kill between them leaves no JSON, never one beside the weights of another network.

    Floats are written as float32, in which the configuration builds the network again.
    """
    text = json.dumps(asdict(config), indent=2, sort_keys=True) + "\n"  # before anything is written
    state = {name: one.float() if one.is_floating_point() else one for name, one in network.state_dict().items()}
    write_tensors(weights, state, metadata, ready=partial(described.unlink, missing_ok=True))
    write_text(described, text)


def load_network(
    weights: Path, parse: Callable[[Any], Config], build: Callable[[Config], Network], kind: Kind
) -> Network:
    """The network that `save_network` wrote, in evaluation mode and frozen; also of a folder of the Hub's form.

    Raises:
        InputError: when a file is missing or of another kind, or the weights do not have the configuration's shapes.
    """
    if weights.is_dir():
        weights, described = weights / FOLDER_WEIGHTS, weights / FOLDER_CONFIG
    else:
        described = weights.with_suffix(".json")
    try:
        check_regular(weights)
        config = parse(json.loads(read_text(described)))
        state = load_file(weights)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise InputError(
            f"{weights} or its JSON is missing or not {kind.name} of annulus ({error}); {kind.way_out}"
        ) from error
    network = build(config)  # weights that the file's replace
    if (fault := _difference(network.state_dict(), state)) is not None:
        raise InputError(
            f"{weights} does not have the shapes of {described.name} ({fault}); load the two files of one run"
        )
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise InputError(f"{weights}: {name} holds NaN or infinity; {kind.way_out}")
    network.load_state_dict(state)
    return network.eval().requires_grad_(False)


def check_keys(described: Any, config: type) -> None:
    """Refuse, by a ValueError, JSON that does not hold the fields of a configuration, and nothing else."""
    names = {field.name for field in fields(config)}
    if not isinstance(described, dict) or described.keys() != names:
        held = ", ".join(sorted(described)) if isinstance(described, dict) else type(described).__name__
        raise ValueError(f"it holds {held or 'nothing'}, expected {', '.join(sorted(names))}")


def statistics(described: Mapping[str, Any], planes: int) -> dict[str, tuple[float, ...]]:
    """`mean` and `std` of such JSON, one number for each of `planes` channels; else a ValueError."""
    for name in ("mean", "std"):
        numbers = described[name]
        finite = isinstance(numbers, list) and all(type(one) in (int, float) and abs(one) < 1e30 for one in numbers)
        if not finite or len(numbers) != planes:
            raise ValueError(f"{name} is {numbers!r}, expected {planes} finite numbers")
    return {name: tuple(map(float, described[name])) for name in ("mean", "std")}


def _difference(expected: Mapping[str, Tensor], loaded: Mapping[str, Tensor]) -> str | None:
    """The first tensor that differs from the configuration, as a sentence, or None."""
    kinds = [
        {name: f"{held.dtype} {tuple(held.shape)}".removeprefix("torch.") for name, held in tensors.items()}
        for tensors in (loaded, expected)
    ]
    for name in [*expected, *loaded]:
        held, wanted = (of.get(name, "nothing") for of in kinds)
        if held != wanted:
            return f"{name} is {held}, expected {wanted}"
    return None
