"""Encoders by name: `LIBRARY/MODEL`."""

from collections.abc import Mapping
from importlib.util import find_spec

from annulus.device.rng import derive, first_weights
from annulus.encoders.named_encoder import NamedEncoder
from annulus.encoders.timm_encoder import TimmEncoder
from annulus.encoders.torchvision_encoder import TorchvisionEncoder
from annulus.errors import InputError, abridge

LIBRARIES: Mapping[str, type[NamedEncoder]] = {"timm": TimmEncoder, "torchvision": TorchvisionEncoder}


def named(name: str, dim: int | None = None, pretrained: bool = False) -> NamedEncoder:
    """A library's network as an encoder. With `dim`, a linear head computes embeddings of `dim` numbers.

    Raises:
        InputError: for an unknown library or model; if the library is not installed, or cannot provide the pretrained
            weights.
    """
    library, _, model = name.partition("/")
    if library not in LIBRARIES or not model:
        raise InputError(
            f"encoder {abridge(name)}: give a torch.nn.Module, or a name of timm or torchvision, such as "
            "'timm/resnet18'"
        )
    if find_spec(library) is None:
        raise InputError(f"encoder {name!r} needs {library}; pip install {library}")
    return LIBRARIES[library](name, dim, pretrained)


def fresh(name: str, dim: int, seed: int) -> NamedEncoder:
    """A new encoder with a linear head; its weights depend on the seed.

    Raises:
        InputError: as `named`.
    """
    with first_weights(derive(seed, "weights")):
        return named(name, dim)
