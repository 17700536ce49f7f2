"""Critics: how a query and a stored embedding are scored together."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.compute.rng import derive
from annulus.errors import InputError

HIDDEN = 128  # units of a nonlinear layer; the paper says so in appendix H


def scaled(queries: Float[Tensor, "b d"], temperature: float) -> Float[Tensor, "b d"]:
    """Queries divided by the temperature: their dot products with rows are scores.

    Dividing the queries rather than the scores spares a pass over the largest tensor.
    """
    return queries / temperature


class Dot(nn.Module):
    """z^T m / temperature."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> Float[Tensor, "b n"]:
        return scaled(queries, self.temperature) @ rows.T


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


def build_critic(
    critic: Literal["dot", "bilinear", "concat-linear", "mlp-1", "mlp-2"], dim: int, temperature: float, seed: int
) -> nn.Module:
    """The critic of embeddings of `dim` numbers, with fresh weights from the seed, in rising expressivity.

    Source: Wu et al. 2020, arXiv:2005.13149, Figure 7.

    Raises:
        InputError: when no critic has this name.
    """
    match critic:
        case "dot":
            return Dot(temperature)
        case "bilinear":
            return Bilinear(dim, temperature)
        case "concat-linear" | "mlp-1" | "mlp-2":
            with torch.random.fork_rng(devices=[]):  # torch initialises from the global generator
                torch.default_generator.manual_seed(derive(seed, "critic"))
                return Concatenation(dim, {"concat-linear": 0, "mlp-1": 1, "mlp-2": 2}[critic])
        case _:
            raise InputError(f"critic {critic!r} is none of dot, bilinear, concat-linear, mlp-1, mlp-2")
