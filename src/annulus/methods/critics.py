"""Critics: scores of a query with a stored embedding."""

from functools import cached_property
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.rng import derive, first_weights
from annulus.errors import InputError
from annulus.negatives.own import SelfIndex
from annulus.negatives.scores import Products, Scores, StoredScores

Critic = Literal["dot", "bilinear", "concat-linear", "mlp-1", "mlp-2"]
HIDDEN = 128  # units of a nonlinear layer, from the paper's Appendix I
BLOCK = 2**20  # units of pairs at a time without gradient: they fit the processor's cache


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

    def forward(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> Scores:
        return Products(scaled(queries, self.temperature), rows)


class Bilinear(Dot):
    """z^T W m / temperature; W starts as the identity, which gives the dot product."""

    def __init__(self, dim: int, temperature: float) -> None:
        super().__init__(temperature)
        self.weight = nn.Parameter(torch.eye(dim))

    def forward(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> Scores:
        return super().forward(queries @ self.weight, rows)


class Concatenation(nn.Module):
    """An MLP of [z; m] with `hidden` nonlinear layers; 0: one linear layer, which ranks the m alike for all z.

    The first layer is the sum of a linear layer of z and one of m, so pairs are never concatenated.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        width = HIDDEN if hidden else 1
        self.of_query, self.of_row = nn.Linear(dim, width), nn.Linear(dim, width, bias=False)
        layers: list[nn.Module] = []
        for layer in range(hidden):
            layers += [nn.ReLU(), nn.Linear(HIDDEN, HIDDEN if layer + 1 < hidden else 1)]
        self.rest = nn.Sequential(*layers)

    def forward(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> Scores:
        return _Pairs(self.rest, self.of_query(queries)[:, None], self.of_row(rows))


class _Pairs(Scores):
    """Scores of a `Concatenation`, from its first layer's outputs for queries (b, 1, h) and rows (n, h).

    The table has no gradient. `gather` and `every` have one, for which each layer's units of their pairs are kept.
    """

    def __init__(self, rest: nn.Module, query_units: Float[Tensor, "b 1 h"], row_units: Float[Tensor, "n h"]) -> None:
        self.rest, self.query_units, self.row_units = rest, query_units, row_units

    @cached_property
    def table(self) -> Float[Tensor, "b n"]:
        with torch.no_grad():
            blocks = self.query_units.split(max(1, BLOCK // self.row_units.numel()))
            return torch.cat([self.rest(block + self.row_units).squeeze(2) for block in blocks])

    @property
    def unread(self) -> Float[Tensor, "b n"]:
        return self.row_units.new_zeros(()).expand(len(self.query_units), len(self.row_units))

    def gather(self, index: Int[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        return self.rest(self.query_units + F.embedding(index, self.row_units)).squeeze(2)

    def every(
        self, own: SelfIndex, index: Int[Tensor, "b k"] | None = None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k"] | None]:
        return StoredScores(self.rest(self.query_units + self.row_units).squeeze(2)).every(own, index)


def build_critic(
    critic: Critic,
    dim: int,
    temperature: float,
    seed: int,
    name: str = "",
) -> nn.Module:
    """Builds a critic of embeddings of `dim` numbers, with fresh weights from the seed.

    The critics are listed in rising expressivity. `name` distinguishes two critics of one method.

    Source: Wu et al. 2020, arXiv:2005.13149, Figure 7.

    Raises:
        InputError: for an unknown critic.
    """
    match critic:
        case "dot":
            return Dot(temperature)
        case "bilinear":
            return Bilinear(dim, temperature)
        case "concat-linear" | "mlp-1" | "mlp-2":
            with first_weights(derive(seed, "critic", name)):
                return Concatenation(dim, {"concat-linear": 0, "mlp-1": 1, "mlp-2": 2}[critic])
        case _:
            raise InputError(f"critic {critic!r} is none of dot, bilinear, concat-linear, mlp-1, mlp-2")
