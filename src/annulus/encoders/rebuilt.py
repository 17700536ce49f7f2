"""`ModuleConfig`: the configuration that rebuilds a `ModuleEncoder`, stored as JSON beside its weights.

`network` names the network. It is `timm/MODEL` or `torchvision/MODEL`, or `transformers/TYPE` with the configuration in
`settings`; their libraries build it without weights. Or it is an import path `MODULE:FUNCTION`: a function of the
user's own code returns the network, or the whole encoder. Building an import path executes that code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, Self

from torch import nn

from annulus.device.rng import first_weights
from annulus.encoders import layers
from annulus.encoders.by_name import LIBRARIES, named
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.encoders.named_encoder import NamedEncoder
from annulus.errors import InputError, abridge
from annulus.files.weights import check_keys, difference

IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
MOST_DIM = 2**16


@dataclass(frozen=True)
class ModuleConfig:
    """The network's name, its library's settings, and the parts that annulus adds."""

    network: str
    settings: Mapping[str, Any] | None  # of transformers
    preprocessing: Mapping[str, Any] | None  # of an encoder by name; None: the network takes unchanged images
    dim: int | None
    head: Mapping[str, Any] | None
    pool: Literal["mean", "first"] | None

    @property
    def library(self) -> str | None:
        """The library that builds the network; None for an import path."""
        return None if IMPORT_PATH.fullmatch(self.network) else self.network.partition("/")[0]

    @classmethod
    def checked(cls, described: Any) -> Self:
        """Parses the content of the JSON file. Nothing is imported or built.

        Raises:
            ValueError: for a missing or unknown key, or a value that no encoder has.
        """
        check_keys(described, cls)
        network, dim = described["network"], described["dim"]
        library = network.partition("/")[0] if isinstance(network, str) else ""
        if library not in {*LIBRARIES, "transformers"} and not IMPORT_PATH.fullmatch(str(network)):
            raise ValueError(f"network is {network!r}, expected LIBRARY/MODEL or MODULE:FUNCTION")
        if not (dim is None or (type(dim) is int and 1 <= dim <= MOST_DIM)):
            raise ValueError(f"dim is {dim!r}, expected null or a whole number from 1 to {MOST_DIM}")
        if described["pool"] not in (None, "mean", "first"):
            raise ValueError(f"pool is {described['pool']!r}, expected null, mean or first")
        for name in ("settings", "preprocessing", "head"):
            if not isinstance(described[name], dict | None):
                raise ValueError(f"{name} is {abridge(described[name])}, expected null or an object")
        if described["head"] is not None:
            with first_weights(0):
                layers.build(described["head"])
        return cls(**described)


def describe(encoder: ModuleEncoder, network: str | None) -> ModuleConfig:
    """The configuration of an encoder. `network`: the name of its network; None: the encoder's own.

    Raises:
        InputError: if the network has no name; for a pooling function, or a head of other layers; if the name builds
            another network.
    """
    by_name = isinstance(encoder, NamedEncoder) and network is None
    name, settings = (encoder.name, None) if by_name else _source(encoder, network)
    with first_weights(0):
        whole = IMPORT_PATH.fullmatch(name) is not None and isinstance(_called(name), ModuleEncoder)
    if callable(encoder.pool) and not whole:
        raise InputError(
            "pool is a function, which no file keeps; name a function that builds the whole encoder: "
            "save_encoder(ENCODER, FILE, network='MODULE:FUNCTION')"
        )
    config = ModuleConfig(
        network=name,
        settings=settings,
        preprocessing=dict(encoder.config) if by_name else None,
        dim=encoder.dim,
        head=None if whole or encoder.head is None else layers.describe(encoder.head),
        pool=None if whole else encoder.pool,
    )
    again = rebuild(config)
    fault = difference(again.state_dict(), encoder.state_dict())
    if fault is None and repr(again.network) != repr(encoder.network):
        fault = f"it prints as {_first_other(repr(encoder.network), repr(again.network))}"
    if fault is not None:
        raise InputError(
            f"{name} builds another network than this encoder's ({fault}); name a function of your own that builds it: "
            "save_encoder(ENCODER, FILE, network='MODULE:FUNCTION')"
        )
    return config


def rebuild(config: ModuleConfig) -> ModuleEncoder:
    """Builds an encoder with new weights. If the configuration has an import path, this executes the user's own code.

    Raises:
        InputError: if the library is not installed or has no such network, or the import path returns no network.
    """
    with first_weights(0):
        encoder = _rebuilt(config)
    encoder.name = config.network
    return encoder


def _rebuilt(config: ModuleConfig) -> ModuleEncoder:
    if config.library is None:
        network = _called(config.network)
        if isinstance(network, ModuleEncoder):
            return network
    elif config.library == "transformers":
        network = _transformers_network(config.settings)
    else:
        encoder = named(config.network)
        if config.preprocessing is not None:
            _configure(encoder, config.preprocessing)
            encoder.dim, encoder.head = config.dim, _head(config)
            return encoder
        network = encoder.network
    return ModuleEncoder(network, config.dim, _head(config), config.pool)


def _head(config: ModuleConfig) -> nn.Module | None:
    return None if config.head is None else layers.build(config.head)


def _source(encoder: ModuleEncoder, network: str | None) -> tuple[str, Mapping[str, Any] | None]:
    """Name and settings of a network.

    Raises:
        InputError: if it has no name.
    """
    network = network or encoder.name
    configuration = getattr(encoder.network, "config", None)
    if (network or "transformers/").startswith("transformers/") and hasattr(configuration, "model_type"):
        return f"transformers/{configuration.model_type}", configuration.to_dict()
    timm_config = getattr(encoder.network, "pretrained_cfg", None) or {}
    if network is None and "architecture" in timm_config:
        return f"timm/{timm_config['architecture']}", None
    if network is None or not (network.partition("/")[0] in LIBRARIES or IMPORT_PATH.fullmatch(network)):
        raise InputError(
            f"network {abridge(network)}: name what builds this {type(encoder.network).__name__}: "
            "save_encoder(ENCODER, FILE, network='torchvision/resnet18'), 'timm/MODEL', or a function of your own, "
            "'MODULE:FUNCTION'"
        )
    return network, None


def _called(path: str) -> nn.Module:
    """Calls the function of an import path, and returns its module.

    Raises:
        InputError: if the path cannot be imported or returns no module; for a function of the script itself.
    """
    module, _, names = path.partition(":")
    if module == "__main__":
        raise InputError(f"network {path!r}: a later process has another __main__; move the function into a module")
    try:
        target: Any = import_module(module)
        for name in names.split("."):
            target = getattr(target, name)
        built = target()
    except (ImportError, AttributeError, TypeError) as error:
        raise InputError(
            f"network {path!r} is not built ({error}); give a function without arguments, whose module this Python "
            "imports"
        ) from error
    if not isinstance(built, nn.Module):
        raise InputError(f"network {path!r} gives a {type(built).__name__}; give a function of a torch.nn.Module")
    return built


def _transformers_network(settings: Mapping[str, Any] | None) -> nn.Module:
    """Builds transformers' own network of a configuration; never executes code of others.

    Raises:
        InputError: if transformers is not installed or has no such network.
    """
    if find_spec("transformers") is None:
        raise InputError("this encoder's network is built by transformers; pip install transformers")
    from transformers import AutoConfig, AutoModel

    try:
        return AutoModel.from_config(AutoConfig.for_model(**settings or {}), trust_remote_code=False)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"transformers does not build this network ({' '.join(str(error).split())[:300]})") from error


def _configure(encoder: NamedEncoder, preprocessing: Mapping[str, Any]) -> None:
    """Sets the preprocessing that a file names.

    Raises:
        InputError: unless its keys and types are the same as in the library's.
    """
    own = {key: list(value) if isinstance(value, tuple) else value for key, value in encoder.config.items()}
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in preprocessing.items()}
    if {key: _kind(value) for key, value in own.items()} != {key: _kind(value) for key, value in given.items()}:
        raise InputError(
            f"preprocessing {abridge(given)} is not that of {encoder.name}, such as {abridge(own)}; write the encoder "
            "again with this version of the library"
        )
    encoder.configure(preprocessing)


def _kind(value: Any) -> Any:
    return [_kind(entry) for entry in value] if isinstance(value, list) else "number" if _number(value) else type(value)


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e6


def _first_other(one: str, other: str) -> str:
    """The first line of `one` that differs from `other`."""
    lines = zip(one.splitlines(), [*other.splitlines(), ""], strict=False)
    return next((a.strip() for a, b in lines if a != b), "more layers")
