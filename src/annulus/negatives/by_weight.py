"""Negatives by weight: draws other columns with probabilities proportional to weights, for your own samplers."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.checks import check, in_own_loop, require
from annulus.errors import InputError
from annulus.negatives.by_rank import Count, check_arguments
from annulus.negatives.own import SelfIndex, own_columns
from annulus.negatives.random_numbers import Random, fractions
from annulus.negatives.selection import Selection


def draw_weighted(weights: Float[Tensor, "b n"], self_index: SelfIndex, k: Count, generator: Random) -> Selection:
    """Draws k negatives with replacement, each with probability weight / sum of the other columns' weights.

    Weights are 0 or more. Own columns, columns of weight 0 and columns below about 1e-11 of the largest weight are
    never drawn. A bound counts all negatives alike, without weights.

    Raises:
        InputError: for k "all", since weighted draws have no set; if a query's other columns all have weight 0; if an
            argument has a wrong type, shape or range.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class HarderOften(annulus.negatives.Sampler):  # as Robinson et al. 2021, arXiv:2010.04592
    ...     beta: float
    ...
    ...     def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
    ...         weights = (self.beta * progress * scores).softmax(dim=1)
    ...         return annulus.negatives.draw_weighted(weights, self_index, k, generator)
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> contrast = annulus.ContrastConfig(HarderOften(beta=0.5), negatives=64)
    >>> method = annulus.IR.create(network, images=100, dim=16, contrast=contrast)
    """
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.ndim != 2:
        kind = f"{weights.dtype} of {weights.ndim} axes" if isinstance(weights, Tensor) else type(weights).__name__
        raise InputError(f"weights are {kind}; give floating-point numbers, a row per query and a column per row")
    if k == "all":
        raise InputError("negatives 'all': a sampler that draws by weight has no set; give a number of negatives")
    check_arguments(weights, self_index, k, generator)
    weights = weights.detach().float() if weights.element_size() < 4 else weights.detach()
    others = weights.masked_fill(own_columns(weights, self_index), 0)
    largest = others.amax(dim=1, keepdim=True)
    wrong = ~((largest > 0) & largest.isfinite())[:, 0] | (others < 0).any(dim=1)
    _refuse(wrong.sum())
    # Sums of integers are the same in any order, sums of floats on a GPU are not; and 0 stays 0.
    columns = weights.shape[1]
    upto = (others / largest * 2.0 ** (62 - columns.bit_length())).long().cumsum(dim=1)
    # A float64 below 1 times an integer rounds to less than the integer, so a place is below the total.
    places = (fractions(len(weights), k, generator) * upto[:, -1:]).long()
    index = torch.searchsorted(upto, places, right=True)
    return Selection(index.clamp(max=columns - 1))  # clamped for wrong weights, for which a GPU's check raises later


def _refuse(wrong: Int[Tensor, ""]) -> None:
    """Raises InputError if queries have wrong weights, without a wait for a GPU.

    Raises:
        InputError: with the number of these queries.
    """
    expected = "give finite numbers, 0 or more, and some above 0, such as scores.softmax(dim=1)"

    def received(count: float) -> str:
        return f"weights of {count:.0f} queries are negative or not finite, or 0 for all of the other columns"

    if in_own_loop():
        check(wrong, lambda count: f"{received(count)}; {expected}" if count else None)
    else:
        require(lambda: wrong == 0, wrong.device, lambda: received(float(wrong)), expected)
