"""Pairs of variables whose mutual information is known, in nats.

Every toy has

    information            the truth
    sample(n, generator)   -> n pairs drawn independently from the joint distribution p(x, y)
    log_ratio(x, y)        log p(x, y) / (p(x) p(y)) of every x with every y: the score of a perfect critic

so a test can compare a bound with the truth without training.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.errors import InputError

IMPOSSIBLE = -1e4  # log ratio of zero density; finite, since a bound reads -inf as an absent score


class Pairs(NamedTuple):
    """Pairs of variables: row i of x belongs to row i of y only."""

    x: Float[Tensor, "n dx"]
    y: Float[Tensor, "n dy"]


@runtime_checkable
class Toy(Protocol):
    """Interface of all toys; x and y may differ in width."""

    @property
    def information(self) -> float: ...

    def sample(self, n: int, generator: torch.Generator) -> Pairs: ...

    def log_ratio(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]) -> Float[Tensor, "n m"]: ...


class CorrelatedGaussians:
    """`dims` independent pairs of standard normal variables, each pair with correlation rho.

    information = -(dims/2) log(1 - rho^2). Appendix C.2 of Song and Ermon prints rho/2 in place of rho^2.

    Source: Poole et al. 2019, arXiv:1905.06922, Section 3; Song and Ermon 2020, arXiv:2007.09852, Appendix C.2;
    Zhu et al. 2020, arXiv:2010.01929, Eq. 15.
    """

    def __init__(self, dims: int, rho: float) -> None:
        self.dims, self.rho = dims, rho

    @classmethod
    def with_information(cls, dims: int, nats: float) -> "CorrelatedGaussians":
        """Gaussians with the positive rho that gives `nats`: 0.4258 for 2 nats in 20 dimensions.

        Raises:
            InputError: when these dimensions cannot hold that many nats in floating point.
        """
        rho = math.sqrt(-math.expm1(-2 * nats / dims))
        if rho == 1:
            raise InputError(
                f"{nats:g} nats need a correlation of 1, to the last digit, in {dims} dimensions; take more"
            )
        return cls(dims, rho)

    @property
    def information(self) -> float:
        return -self.dims / 2 * math.log1p(-(self.rho**2))

    def sample(self, n: int, generator: torch.Generator) -> Pairs:
        x, noise = torch.randn(2, n, self.dims, generator=generator, device=generator.device)
        return Pairs(x, self.rho * x + math.sqrt(1 - self.rho**2) * noise)

    def log_ratio(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]) -> Float[Tensor, "n m"]:
        rest = 1 - self.rho**2
        squares = x.square().sum(dim=1)[:, None] + y.square().sum(dim=1)
        return self.information + (self.rho * (x @ y.T) - self.rho**2 / 2 * squares) / rest


class SumOfGaussians:
    """(X, Y) = Z + e in one dimension each: Z has covariance [[1, -1/2], [-1/2, 1]], e [[1, 9/10], [9/10, 1]].

    The sum has variance 2 and covariance 0.4, so the information is -log(1 - 0.2^2)/2 = 0.02041.

    Source: Wu et al. 2020, arXiv:2005.13149, Appendix E; Wu et al. 2020, arXiv:2010.02037, Appendix B.
    """

    RHO = 0.2

    def __init__(self) -> None:
        self._standard = CorrelatedGaussians(1, self.RHO)  # (X, Y) divided by their standard deviation

    @property
    def information(self) -> float:
        return self._standard.information

    def sample(self, n: int, generator: torch.Generator) -> Pairs:
        z, e = torch.randn(2, n, 2, generator=generator, device=generator.device)
        x = z[:, 0] + e[:, 0]
        y = -0.5 * z[:, 0] + math.sqrt(0.75) * z[:, 1] + 0.9 * e[:, 0] + math.sqrt(0.19) * e[:, 1]
        return Pairs(x[:, None], y[:, None])

    def log_ratio(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]) -> Float[Tensor, "n m"]:
        return self._standard.log_ratio(x / math.sqrt(2), y / math.sqrt(2))


class DiscreteTable:
    """Two variables of few values with any joint distribution; samples are one-hot rows.

    information = sum of p(a, b) log p(a, b) / (p(a) p(b)), exactly.
    """

    def __init__(self, joint: Float[Tensor, "a b"]) -> None:
        """`joint[a, b]` is the probability of the values a and b."""
        self.joint = joint.double()
        independent = self.joint.sum(dim=1, keepdim=True) * self.joint.sum(dim=0, keepdim=True)
        possible = self.joint > 0
        self._log_ratio = torch.where(possible, (self.joint / independent).log(), IMPOSSIBLE)

    @property
    def information(self) -> float:
        return (self.joint * self._log_ratio).sum().item()

    def sample(self, n: int, generator: torch.Generator) -> Pairs:
        rows, columns = self.joint.shape
        drawn = torch.multinomial(self.joint.flatten(), n, replacement=True, generator=generator)
        one_hot = torch.nn.functional.one_hot
        return Pairs(one_hot(drawn // columns, rows).float(), one_hot(drawn % columns, columns).float())

    def log_ratio(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]) -> Float[Tensor, "n m"]:
        return x @ self._log_ratio.to(x.dtype) @ y.T


def binary_pair(p: float) -> DiscreteTable:
    """X = Y, 1 with probability p: log 2 nats at p = 1/2.

    Source: Song and Ermon 2020, arXiv:2007.09852, Example 1.
    """
    return DiscreteTable(torch.tensor([[1 - p, 0.0], [0.0, p]], dtype=torch.float64))


class Staircase:
    """Correlated Gaussians whose information rises during a run: each level for the same number of steps.

    Source: Song and Ermon 2020, arXiv:2007.09852, Section 5.1 (2, 4, 6, 8 and 10 nats, 4,000 iterations each).
    """

    def __init__(self, dims: int, levels: Sequence[float], steps_per_level: int) -> None:
        self.toys = [CorrelatedGaussians.with_information(dims, nats) for nats in levels]
        self.steps_per_level = steps_per_level

    @property
    def steps(self) -> int:
        """Number of steps of the whole run."""
        return len(self.toys) * self.steps_per_level

    def at(self, step: int) -> CorrelatedGaussians:
        """Toy at a step, counted from 0."""
        return self.toys[step // self.steps_per_level]
