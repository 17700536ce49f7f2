"""Any network as an encoder that methods train."""

from numbers import Integral

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.errors import InputError


class ModuleEncoder(nn.Module):
    """A network whose output (batch, dim), floats of any length, becomes unit embeddings (batch, dim).

    `MoCo.create` and its siblings wrap a plain network so by themselves. The network's state is under `network.`.

    >>> encoder = annulus.ModuleEncoder(nn.Sequential(nn.Flatten(), nn.Linear(192, 16)), dim=16)
    >>> encoder(torch.rand(4, 3, 8, 8)).norm(dim=1).sum().round()
    tensor(4., grad_fn=<RoundBackward0>)
    """

    names: tuple[str, ...] = ("",)  # of its networks

    def __init__(self, network: nn.Module, dim: int) -> None:
        """`dim`: numbers of an embedding."""
        super().__init__()
        self.network, self.dim = network, dim

    def forward(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b d"]:
        """Unit embeddings.

        Raises:
            InputError: when the network's output has another shape.
        """
        embeddings = self.network(images)
        if not isinstance(embeddings, Tensor) or embeddings.shape != (len(images), self.dim):
            shape = f"shape {tuple(embeddings.shape)}" if isinstance(embeddings, Tensor) else type(embeddings).__name__
            raise InputError(
                f"the network's output is {shape} for {len(images)} images; give a network whose output is (batch, "
                f"{self.dim}), such as nn.Sequential(backbone, nn.Flatten(), nn.Linear(WIDTH, {self.dim}))"
            )
        return F.normalize(embeddings.float(), dim=1)

    def embeddings(self, images: Float[Tensor, "b ..."]) -> tuple[Float[Tensor, "b d"], ...]:
        """The embedding of each of its networks: of the one that there is."""
        return (self(images),)


AnyEncoder = Encoder | SplitEncoder | ModuleEncoder


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
