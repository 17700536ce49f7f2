"""Encoders as files: weights, and beside them as JSON the configuration that rebuilds the encoder."""

from functools import partial
from pathlib import Path
from typing import Any

from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import Encoder, SplitEncoder, build_encoder
from annulus.encoders.module_encoder import AnyEncoder, ModuleEncoder
from annulus.errors import InputError
from annulus.files.weights import Kind, load_network, save_network

KIND = Kind(
    "an encoder",
    "give the path of its .safetensors file, with the .json of the same name beside it (in a checkout of annulus "
    "`dvc repro --force pretrain` makes both)",
)


def save_encoder(encoder: AnyEncoder, weights: Path | str, network: str | None = None) -> None:
    """Writes the weights in float32, and the configuration as JSON of the same name beside them.

    `network` names the network of a `ModuleEncoder`. It is a name of timm or torchvision, such as
    "torchvision/resnet18", or the import path "MODULE:FUNCTION" of a function without arguments that returns the
    network, or the whole encoder. Encoders made by name, and networks of timm and transformers, do not need it. The
    network is built once to compare its layers.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> with TemporaryDirectory() as folder:
    ...     annulus.save_encoder(annulus.build_encoder(config, seed=0), Path(folder) / "encoder.safetensors")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['encoder.json', 'encoder.safetensors']

    Raises:
        InputError: for another class of network, or a file name that does not end in .safetensors; if the disk is full;
            for a network that its name does not build.
    """
    config = describe(encoder, network)
    if Path(weights).suffix != ".safetensors":  # rate0.5 and rate0.7 would share one JSON, rate0.json
        raise InputError(f"{weights} does not end in .safetensors; give such a name, beside which the JSON has its own")
    save_network(encoder, config, Path(weights).expanduser())


def load_encoder(weights: Path | str, trust: bool = False) -> AnyEncoder:
    """Loads an encoder of `save_encoder`, in evaluation mode and frozen.

    A loaded encoder of annulus refuses pixels outside [0, 1]. torch.export takes it, but its program checks no pixels.

    `weights` may be a folder that `annulus export ENCODER --to hub` wrote, or its download. `trust`: execute the
    function whose import path the file names. Libraries' networks need no `trust`, and execute no code of others.

    Raises:
        InputError: if a file is missing or has another content, or the weights do not have the configuration's shapes;
            for an import path without `trust`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> with TemporaryDirectory() as folder:
    ...     annulus.save_encoder(annulus.build_encoder(config, seed=0), Path(folder) / "encoder.safetensors")
    ...     encoder = annulus.load_encoder(Path(folder) / "encoder.safetensors")
    >>> encoder.pooled(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 128])
    """
    encoder = load_network(Path(weights).expanduser(), _parsed, partial(_built, trust=trust), KIND)
    if not isinstance(encoder, ModuleEncoder):
        encoder.checks_pixels = True
    return encoder


def describe(encoder: AnyEncoder, network: str | None = None) -> Any:
    """The configuration that rebuilds the encoder; `network` as for `save_encoder`.

    Raises:
        InputError: for another class of network, or a `network` beside an encoder that needs none.
    """
    if isinstance(encoder, Encoder | SplitEncoder):
        if network is not None:
            raise InputError("network is for an annulus.ModuleEncoder; leave it out, as this encoder has its own")
        return encoder.config
    if isinstance(encoder, ModuleEncoder):
        from annulus.encoders import rebuilt

        return rebuilt.describe(encoder, network)
    if isinstance(getattr(encoder, "_orig_mod", None), AnyEncoder):
        raise InputError("encoder is what torch.compile made; give its _orig_mod, which has the same weights")
    raise InputError(
        f"encoder is a {type(encoder).__name__}; give one of annulus.build_encoder, or wrap a network of your own: "
        "annulus.ModuleEncoder(NETWORK, DIM)"
    )


def _parsed(described: Any) -> Any:
    if isinstance(described, dict) and "network" in described:
        from annulus.encoders.rebuilt import ModuleConfig

        return ModuleConfig.checked(described)
    return EncoderConfig.checked(described)


def _built(config: Any, trust: bool) -> AnyEncoder:
    """Builds the network with new weights.

    Raises:
        InputError: for an import path without trust.
    """
    if isinstance(config, EncoderConfig):
        return build_encoder(config, seed=0)
    from annulus.encoders.rebuilt import rebuild

    if config.library is None and not trust:
        raise InputError(
            f"the encoder's network is built by code, {config.network}, and nothing is executed; look at that code, "
            "then annulus.load_encoder(FILE, trust=True)"
        )
    return rebuild(config)
