"""Describes a head of torch's layers as JSON, and builds it again."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from annulus.errors import InputError

# The arguments that rebuild a layer; `bias` is True if the layer has one.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "Linear": ("in_features", "out_features", "bias"),
    "BatchNorm1d": ("num_features", "eps", "momentum", "affine", "track_running_stats"),
    "LayerNorm": ("normalized_shape", "eps", "elementwise_affine", "bias"),
    "Dropout": ("p",),
    "ReLU": (),
    "GELU": ("approximate",),
    "SiLU": (),
    "Identity": (),
}


def describe(layer: nn.Module) -> dict[str, Any]:
    """Name and arguments of a layer, or the layers of a sequence.

    Raises:
        InputError: for a layer of another class.
    """
    kind = type(layer).__name__
    if type(layer) is nn.Sequential:
        return {"layers": [describe(part) for part in layer]}
    if type(layer) is not getattr(nn, kind, None) or kind not in ARGUMENTS:
        raise InputError(
            f"the head has a layer {kind}, and a file describes heads of Sequential, {', '.join(ARGUMENTS)} alone; "
            "name a function that builds the whole encoder: save_encoder(ENCODER, FILE, network='MODULE:FUNCTION')"
        )
    return {"layer": kind} | {name: _argument(layer, name) for name in ARGUMENTS[kind]}


def build(described: Any) -> nn.Module:
    """Builds the layer of a description.

    Raises:
        ValueError: for any other value.
    """
    match described:
        case {"layers": list(layers), **more} if not more:
            return nn.Sequential(*map(build, layers))
        case {"layer": str(kind), **arguments} if kind in ARGUMENTS and arguments.keys() == {*ARGUMENTS[kind]}:
            try:
                return getattr(nn, kind)(**arguments)
            except (TypeError, ValueError, RuntimeError) as error:
                raise ValueError(f"head has a {kind} that torch does not build ({error})") from error
    raise ValueError(f"head is {str(described)[:100]}, expected layers of {', '.join(ARGUMENTS)}")


def _argument(layer: nn.Module, name: str) -> Any:
    value = getattr(layer, name)
    if name == "bias":
        return value is not None
    return list(value) if isinstance(value, tuple) else value
