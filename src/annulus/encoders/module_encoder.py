"""Any network as an encoder that methods train."""

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.errors import InputError, abridge

Pool = Literal["mean", "first"] | Callable[[Any], Tensor]


class ModuleEncoder(nn.Module):
    """A network whose output (batch, dim), floats of any length, becomes unit embeddings (batch, dim).

    With a `head`, the network computes the pooled features (batch, width) that probes read, and the head computes the
    embeddings. An example is a backbone of timm, torchvision or lightly, and its projection head; both can be saved and
    exported alone. `MoCo.create` and the other methods wrap a plain network themselves. The network's state is under
    `network.`.

    `pool` computes vectors from another output. "mean" takes a map (batch, width, y, x) or tokens (batch, tokens,
    width), and "first" takes the first token; a function takes any output. If the output is an object, as
    transformers' models return, both names read its `last_hidden_state`. Without `pool`, the vector is its
    `pooler_output`.

    >>> encoder = annulus.ModuleEncoder(nn.Sequential(nn.Flatten(), nn.Linear(192, 16)), dim=16)
    >>> encoder(torch.rand(4, 3, 8, 8)).norm(dim=1).sum().round()
    tensor(4., grad_fn=<RoundBackward0>)
    >>> encoder = annulus.ModuleEncoder(nn.Flatten(), dim=16, head=nn.Linear(192, 16))
    >>> encoder.pooled(torch.rand(4, 3, 8, 8)).shape
    torch.Size([4, 192])
    >>> encoder = annulus.ModuleEncoder(nn.Conv2d(3, 16, 3), dim=16, pool="mean")
    >>> encoder(torch.rand(4, 3, 8, 8)).shape
    torch.Size([4, 16])
    """

    names: tuple[str, ...] = ("",)  # of its networks
    name: str | None = None  # of the network: LIBRARY/MODEL, or the import path that rebuilds it
    width: int | None = None  # of the pooled features, if the network's name states it
    view_size: int | None = None  # pixels a side of its views, if the name states them

    def __init__(
        self,
        network: Callable[[Tensor], Any],
        dim: int | None = None,
        head: nn.Module | None = None,
        pool: Pool | None = None,
    ) -> None:
        """`dim`: numbers of an embedding, which methods need; None: the output's own.

        Raises:
            InputError: for another `pool`.
        """
        super().__init__()
        if not (pool in (None, "mean", "first") or callable(pool)):
            raise InputError(f"pool {abridge(pool)}: give 'mean', 'first' or a function of the network's output")
        self.network, self.dim, self.head, self.pool = network, dim, head, pool

    def view(self, images: UInt8[Tensor, "b c h w"]) -> Float[Tensor, "b c y x"]:
        """Converts bytes to the network's input in evaluation: whole images in [0, 1], in the network's precision."""
        precision = next((weight.dtype for weight in self.parameters()), torch.float32)
        return (images.float() / 255).to(precision)

    def pooled(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b c"]:
        """Input of the probes: the network's output. Without a head these are embeddings of any length.

        Raises:
            InputError: for images that are not floats; if the network's output has another shape.
        """
        if not isinstance(images, Tensor) or not images.is_floating_point():
            given = isinstance(images, Tensor)
            kind = str(images.dtype).removeprefix("torch.") if given else f"a {type(images).__name__}"
            raise InputError(f"images are {kind}; give floats in [0, 1], such as images.float() / 255")
        width, flat = (self.dim, f", nn.Linear(WIDTH, {self.dim})") if self.head is None else (None, "")
        example = f"nn.Sequential(backbone, nn.Flatten(){flat})"
        output = pooled_output(self.network(self.prepared(images)), self.pool)
        return _vectors("network", output, len(images), width, example)

    def prepared(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        """The network's input: the unchanged images."""
        return images

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Maps pooled features to the unit sphere.

        Raises:
            InputError: if the head's output has another shape.
        """
        if self.head is not None:
            pooled = _vectors("head", self.head(pooled), len(pooled), self.dim, f"nn.Linear(WIDTH, {self.dim})")
        return F.normalize(pooled.float(), dim=1)

    def forward(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b d"]:
        """Unit embeddings."""
        return self.embed(self.pooled(images))

    def embeddings(self, images: Float[Tensor, "b ..."]) -> tuple[Float[Tensor, "b d"], ...]:
        """The embedding of each network; this encoder has one network."""
        return (self(images),)

    def embeddings_and_pooled(self, images: Float[Tensor, "b ..."]) -> tuple[Float[Tensor, "b _"], ...]:
        """`embeddings`, then each network's pooled features without gradient, for a probe beside the encoder."""
        pooled = self.pooled(images)
        return self.embed(pooled), pooled.detach()


AnyEncoder = Encoder | SplitEncoder | ModuleEncoder


def pooled_output(output: Any, pool: Pool | None) -> Any:
    """The output, or the vectors that `pool` computes from it.

    Raises:
        InputError: for an object without the values that `pool` reads.
    """
    if callable(pool):
        return pool(output)
    if not isinstance(output, Tensor):
        name = "pooler_output" if pool is None else "last_hidden_state"
        values = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if not isinstance(values, Tensor):
            raise InputError(
                f"the network's output is a {type(output).__name__} without {name}; give annulus.ModuleEncoder("
                'NETWORK, DIM, pool=...): "mean" or "first" of its last_hidden_state, or a function of the output'
            )
        output = values
    match output.ndim, pool:
        case (4, "mean"):
            return output.mean(dim=(2, 3))
        case (4, None) if output.shape[2:] == (1, 1):
            return output.flatten(1)
        case (3, "mean"):
            return output.mean(dim=1)
        case (3, "first"):
            return output[:, 0]
    return output


def _vectors(part: str, output: object, images: int, width: int | None, example: str) -> Tensor:
    """Returns the output. Raises InputError unless it has `width` real numbers (None: any count) for each image."""
    if isinstance(output, Tensor) and output.is_complex():
        kind = str(output.dtype).removeprefix("torch.")
        raise InputError(
            f"the {part}'s output is {kind}; give a {part} of real numbers, such as "
            "torch.view_as_real(output).flatten(1)"
        )
    if isinstance(output, Tensor) and output.ndim == 2 and len(output) == images and width in (None, output.shape[1]):
        return output
    kind = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
    more = ', or annulus.ModuleEncoder(NETWORK, DIM, pool="mean")' if getattr(output, "ndim", 2) > 2 else ""
    raise InputError(
        f"the {part}'s output is {kind} for {images} images; give a {part} whose output is "
        f"(batch, {width or 'WIDTH'}), such as {example}{more}"
    )


def as_encoder(
    network: nn.Module | str, dim: int | None, seed: int, pool: Pool | None = None
) -> tuple[AnyEncoder, int]:
    """Makes an encoder that methods take; returns it and the width of its embeddings.

    The weights of a network by name depend on the seed.

    Raises:
        InputError: for a plain network or a name without `dim`; for an encoder of annulus with another `dim` than its
            own; for a name that its library does not have; for a `pool` beside an encoder that pools by itself.
    """
    if pool is not None and isinstance(network, AnyEncoder | str):
        raise InputError("pool is for a plain network; this encoder has its own, so leave out pool")
    if not isinstance(network, nn.Module | str):
        raise InputError(
            f"encoder is a {type(network).__name__}; give a torch.nn.Module that embeds a batch of images, or a name "
            "such as 'timm/resnet18'"
        )
    if isinstance(network, Encoder | SplitEncoder):
        own = network.config.embedding_dim
    elif isinstance(network, ModuleEncoder) and network.dim is not None:
        own = network.dim
    elif isinstance(network, ModuleEncoder):
        raise InputError("this encoder has no dim; give annulus.ModuleEncoder(NETWORK, DIM), such as dim=128")
    elif not isinstance(dim, Integral) or dim <= 0:
        raise InputError(f"dim {dim!r}: with a plain network, give the number of its outputs, such as dim=128")
    elif isinstance(network, str):
        from annulus.encoders.by_name import fresh

        return fresh(network, dim, seed), dim
    else:
        return ModuleEncoder(network, dim, pool=pool), dim
    if dim not in (None, own):
        raise InputError(f"dim {dim!r}, but this encoder's embeddings have {own} numbers; leave out dim")
    return network, own
