"""Supremum of CNCE for a pair of correlated Gaussians, with negatives from the closest share.

For a query x let r(y) = p(y|x)/p(y). Let S hold the share s of p(y) that the critic f scores highest. Then negatives
follow q = p/s on S. The positive follows p(y|x), and a part of this law lies outside S, where f is not above its values
in S. So CNCE does not fall when that part moves into S. For every law P~ of the positive after such a move,

    CNCE <= E log [ exp f(y_1) / mean_j exp f(y_j) ]  with y_1 ~ P~, y_2.. ~ q    <= KL(P~ || q),

since exp f(y_1) / mean_j exp f(y_j) has mean 1 for exchangeable y, and by Donsker and Varadhan. The right side is least
for P~ = max(s r, level) q: the moved part fills the lowest places, as water does. Over critics it is largest if S holds
the largest r. With f = log max(s r, level) CNCE approaches it as the number of negatives grows. So

    sup CNCE = E_x of the mean of u log u over q, u = max(s r, level), level such that the mean of u is 1.

In expectation CNCE stays below it for every number of negatives. With K negatives and little information the largest
CNCE is about K/(K + 1) of it. This holds for points that the critic has not seen; an estimate on the training points
may exceed it. The ideal critic log r does not reach it: outside S it is lower than in S, and its CNCE falls below 0.

Source: Wu et al. 2020, arXiv:2010.02037, Theorem 3.1; Donsker and Varadhan 1983, "Asymptotic
evaluation of certain Markov process expectations for large time IV".
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.special import ndtr

QUERIES = 2001  # of |x| <= 9, evenly spaced: the integral over x is smooth and vanishes at its ends
HALVINGS = 80


def supremum(rho: float, share: float) -> float:
    """Supremum in nats for standard normal x and y with correlation rho; the information for share 1.

    Negatives come from the closest `share`. With m = x/rho and a = rho^2/(2 - 2 rho^2),
    log r(y) = information + x^2/2 - a (y - m)^2. So s r exceeds the level in an interval around m, and the level at its
    ends gives its width.
    """
    information = -math.log1p(-(rho**2)) / 2
    if share == 1 or rho == 0:
        return information
    x = torch.linspace(-9, 9, QUERIES, dtype=torch.float64)
    peak, curvature = information + x.square() / 2 + math.log(share), rho**2 / (2 - 2 * rho**2)
    y_span, conditional_span = Span(x / rho), Span((x / rho - rho * x) / (1 - rho**2) ** 0.5)  # of p(y), and of p(y|x)
    scale = (1 - rho**2) ** -0.5  # of p(y|x), a width as a number of its standard deviations
    low, high = torch.zeros_like(x), x.abs() / rho + 40  # widths whose end is above the level, and below
    for _ in range(HALVINGS):
        width = (low + high) / 2
        dry = 1 - y_span.mass(width) / share  # of q, outside the interval: the places that are filled
        above = (dry > 0) & ((peak - curvature * width.square()).exp() * dry > 1 - conditional_span.mass(width * scale))
        low, high = torch.where(above, width, low), torch.where(above, high, width)
    level, inside = peak - curvature * low.square(), conditional_span.mass(low * scale)
    nats = peak * inside - curvature * conditional_span.square(low * scale) / scale**2 + (1 - inside) * level
    density = (-x.square() / 2).exp()
    return (density @ torch.where(low > 0, nats, 0.0) / density.sum()).item()


class Span(NamedTuple):
    """Intervals around `centre` under the standard normal law."""

    centre: Float[Tensor, "q"]

    def mass(self, width: Float[Tensor, "q"]) -> Float[Tensor, "q"]:
        """Probability of the interval from centre - width to centre + width."""
        return ndtr(self.centre + width) - ndtr(self.centre - width)

    def square(self, width: Float[Tensor, "q"]) -> Float[Tensor, "q"]:
        """Integral of (z - centre)^2 over the interval from centre - width to centre + width."""
        above, below = ((self.centre + sign * width).square() for sign in (1, -1))
        ends = (width - self.centre) * (-above / 2).exp() + (width + self.centre) * (-below / 2).exp()
        return (1 + self.centre.square()) * self.mass(width) - ends / math.sqrt(2 * math.pi)
