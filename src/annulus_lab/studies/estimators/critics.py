"""Critics: functions that score every x with every y, for the bounds.

A trained critic approaches the log density ratio, up to the freedom of its bound; `Ideal` is that ratio.
"""

from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus_lab.studies.estimators.toys import Toy


def mlp(inputs: int, hidden: int, layers: int, outputs: int) -> nn.Sequential:
    """`layers` hidden layers of `hidden` units with ReLU, then a linear one."""
    widths = [inputs, *[hidden] * layers]
    blocks = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*blocks, nn.Linear(widths[-1], outputs))


class Separable(nn.Module):
    """g(x) . h(y): an MLP for each variable, as two encoders of two views.

    `temperature` None: the plain product. A number: embeddings are L2-normalised, and it divides their product.

    Source: Song and Ermon 2020, arXiv:2007.09852, Appendix C.2 (two hidden layers of 256 units, 32 outputs);
    Zhu et al. 2020, arXiv:2010.01929, Appendix C (one hidden layer of 256);
    Wu et al. 2020, arXiv:2005.13149, Appendix E (five layers, 10 hidden units).
    """

    def __init__(self, dims: int, hidden: int, layers: int, outputs: int, temperature: float | None = None) -> None:
        super().__init__()
        self.x_network, self.y_network = mlp(dims, hidden, layers, outputs), mlp(dims, hidden, layers, outputs)
        self.temperature = temperature

    def embed_x(self, x: Float[Tensor, "n dx"]) -> Float[Tensor, "n e"]:
        return self._scaled(self.x_network(x))

    def embed_y(self, y: Float[Tensor, "m dy"]) -> Float[Tensor, "m e"]:
        return self._scaled(self.y_network(y))

    def forward(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]) -> Float[Tensor, "n m"]:
        return self.embed_x(x) @ self.embed_y(y).T

    def _scaled(self, embedding: Float[Tensor, "n e"]) -> Float[Tensor, "n e"]:
        # Each factor has the root, so that the temperature divides the product once.
        return embedding if self.temperature is None else F.normalize(embedding, dim=1) / self.temperature**0.5


class Joint(nn.Module):
    """MLP of the concatenated x and y, for every pair: n m passes through all layers after the first.

    Source: Song and Ermon 2020, arXiv:2007.09852, Appendix C.2 (two hidden layers of 256 units).
    """

    def __init__(self, dims: int, hidden: int, layers: int) -> None:
        super().__init__()
        # The first layer of a concatenation is the sum of a layer of x and one of y: n + m products, not n m.
        bound = (2 * dims) ** -0.5  # as nn.Linear starts one layer of the 2 dims inputs
        self.x_layer, self.y_layer = nn.Linear(dims, hidden), nn.Linear(dims, hidden, bias=False)
        for weight in (self.x_layer.weight, self.x_layer.bias, self.y_layer.weight):
            nn.init.uniform_(weight, -bound, bound)
        self.rest = nn.Sequential(nn.ReLU(), mlp(hidden, hidden, layers - 1, 1))

    def forward(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]) -> Float[Tensor, "n m"]:
        return self.rest(self.x_layer(x)[:, None] + self.y_layer(y)).squeeze(-1)


class Ideal(nn.Module):
    """Log density ratio of a toy: without training, so that it tests the bound alone."""

    def __init__(self, toy: Toy) -> None:
        super().__init__()
        self.toy = toy

    def forward(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]) -> Float[Tensor, "n m"]:
        return self.toy.log_ratio(x, y)
