"""Any network as an encoder that methods train."""

from numbers import Integral

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.errors import InputError


class ModuleEncoder(nn.Module):
    """A network whose output (batch, dim), floats of any length, becomes unit embeddings (batch, dim).

    With a `head`, the network gives the pooled features (batch, width) that probes read, and the head makes them
    embeddings: a backbone of timm, torchvision or lightly, and its projection head. Both stay yours to save and export.
    `MoCo.create` and its siblings wrap a plain network so by themselves. The network's state is under `network.`.

    >>> encoder = annulus.ModuleEncoder(nn.Sequential(nn.Flatten(), nn.Linear(192, 16)), dim=16)
    >>> encoder(torch.rand(4, 3, 8, 8)).norm(dim=1).sum().round()
    tensor(4., grad_fn=<RoundBackward0>)
    >>> encoder = annulus.ModuleEncoder(nn.Flatten(), dim=16, head=nn.Linear(192, 16))
    >>> encoder.pooled(torch.rand(4, 3, 8, 8)).shape
    torch.Size([4, 192])
    """

    names: tuple[str, ...] = ("",)  # of its networks

    def __init__(self, network: nn.Module, dim: int, head: nn.Module | None = None) -> None:
        """`dim`: numbers of an embedding."""
        super().__init__()
        self.network, self.dim, self.head = network, dim, head

    def pooled(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b c"]:
        """Input of the probes: the network's output, which without a head are embeddings of any length.

        Raises:
            InputError: for images that are no floats; when the network's output has another shape.
        """
        if not isinstance(images, Tensor) or not images.is_floating_point():
            given = isinstance(images, Tensor)
            kind = str(images.dtype).removeprefix("torch.") if given else f"a {type(images).__name__}"
            raise InputError(f"images are {kind}; give floats in [0, 1], such as images.float() / 255")
        width, flat = (self.dim, f", nn.Linear(WIDTH, {self.dim})") if self.head is None else (None, "")
        example = f"nn.Sequential(backbone, nn.Flatten(){flat})"
        return _vectors("network", self.network(images), len(images), width, example)

    def embed(self, pooled: Float[Tensor, "b c"]) -> Float[Tensor, "b d"]:
        """Pooled features to the unit sphere.

        Raises:
            InputError: when the head's output has another shape.
        """
        if self.head is not None:
            pooled = _vectors("head", self.head(pooled), len(pooled), self.dim, f"nn.Linear(WIDTH, {self.dim})")
        return F.normalize(pooled.float(), dim=1)

    def forward(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b d"]:
        """Unit embeddings."""
        return self.embed(self.pooled(images))

    def embeddings(self, images: Float[Tensor, "b ..."]) -> tuple[Float[Tensor, "b d"], ...]:
        """The embedding of each of its networks: of the one that there is."""
        return (self(images),)

    def embeddings_and_pooled(self, images: Float[Tensor, "b ..."]) -> tuple[Float[Tensor, "b _"], ...]:
        """`embeddings`, then what the head made each of, without gradient: for what learns beside the encoder."""
        pooled = self.pooled(images)
        return self.embed(pooled), pooled.detach()


AnyEncoder = Encoder | SplitEncoder | ModuleEncoder


def _vectors(part: str, output: object, images: int, width: int | None, example: str) -> Tensor:
    """The output, refused unless it is a vector of so many numbers, or of any, for each image."""
    if isinstance(output, Tensor) and output.ndim == 2 and len(output) == images and width in (None, output.shape[1]):
        return output
    kind = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
    raise InputError(
        f"the {part}'s output is {kind} for {images} images; give a {part} whose output is "
        f"(batch, {width or 'WIDTH'}), such as {example}"
    )


def as_encoder(network: nn.Module, dim: int | None) -> tuple[AnyEncoder, int]:
    """An encoder that methods take, and the width of its embeddings.

    Raises:
        InputError: when a plain network comes without `dim`, or an encoder of annulus with another one than its own.
    """
    if not isinstance(network, nn.Module):
        raise InputError(f"encoder is a {type(network).__name__}; give a torch.nn.Module that embeds a batch of images")
    if isinstance(network, Encoder | SplitEncoder):
        own = network.config.embedding_dim
    elif isinstance(network, ModuleEncoder):
        own = network.dim
    elif isinstance(dim, Integral) and dim > 0:
        return ModuleEncoder(network, dim), dim
    else:
        raise InputError(f"dim {dim!r}: with a plain network, give the number of its outputs, such as dim=128")
    if dim not in (None, own):
        raise InputError(f"dim {dim!r}, but this encoder's embeddings have {own} numbers; leave out dim")
    return network, own
