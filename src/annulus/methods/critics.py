"""Witness functions: how a query and a stored embedding are scored together."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.compute.rng import derive
from annulus.config.methods import IRParams

HIDDEN = 128  # units of a nonlinear layer (mutualinfo section 2, witness designs)


class Dot(nn.Module):
    """z^T m / temperature."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> Float[Tensor, "b n"]:
        # Dividing the queries rather than the scores spares a pass over the largest tensor.
        return (queries / self.temperature) @ rows.T


class Bilinear(Dot):
    """z^T W m / temperature; W starts as the identity, where it is the dot product."""

    def __init__(self, dim: int, temperature: float) -> None:
        super().__init__(temperature)
        self.weight = nn.Parameter(torch.eye(dim))

    def forward(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> Float[Tensor, "b n"]:
        return super().forward(queries @ self.weight, rows)


class Concatenation(nn.Module):
    """An MLP of [z; m] with `hidden` nonlinear layers; 0: one linear layer, which cannot tell which m goes with z.

    The first layer is linear in z and m apart, so no pair is ever concatenated.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        width = HIDDEN if hidden else 1
        self.of_query, self.of_row = nn.Linear(dim, width), nn.Linear(dim, width, bias=False)
        layers: list[nn.Module] = []
        for layer in range(hidden):
            layers += [nn.ReLU(), nn.Linear(HIDDEN, HIDDEN if layer + 1 < hidden else 1)]
        self.rest = nn.Sequential(*layers)

    def forward(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> Float[Tensor, "b n"]:
        return self.rest(self.of_query(queries)[:, None] + self.of_row(rows)).squeeze(2)


def build_witness(params: IRParams, seed: int) -> nn.Module:
    """The witness function of an encoder's embeddings, with fresh weights from the seed.

    Source: mutualinfo section 2 (witness designs, Fig. 7 a, b), in rising expressivity.
    """
    if params.witness == "dot":
        return Dot(params.temperature)
    if params.witness == "bilinear":
        return Bilinear(params.embedding_dim, params.temperature)
    with torch.random.fork_rng(devices=[]):  # torch initialises from the global generator
        torch.default_generator.manual_seed(derive(seed, "witness"))
        hidden = {"concat-linear": 0, "mlp-1": 1, "mlp-2": 2}[params.witness]
        return Concatenation(params.embedding_dim, hidden)
