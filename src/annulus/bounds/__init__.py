"""Bounds: scores to nats. No device, no random numbers, no memory.

Scores are similarities divided by the temperature, a row per query; a score of -inf is absent and counts nowhere. A
NaN among the scores makes the loss NaN, so that a loop notices it there: looking for it would take a pass over them.
Positives are the columns that a query should find: first its own, then its neighbours. Every loss is in nats, a mean
over queries. Its ceiling is its value when all scores are equal. Ceiling minus loss estimates the mutual information:
0 at chance, and at most the ceiling.
"""

from annulus.bounds.alpha import CPC, MLCPC, cpc, mlcpc
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.bound import Bound, Estimate
from annulus.bounds.infonce import InfoNCE, infonce  # the name is the function from here on, no longer its module
from annulus.bounds.la import LocalAggregation
from annulus.bounds.loss import Loss

__all__ = [
    "CPC",
    "MLCPC",
    "BinaryNCE",
    "Bound",
    "Estimate",
    "InfoNCE",
    "LocalAggregation",
    "Loss",
    "cpc",
    "infonce",
    "mlcpc",
]

BOUNDS = {  # by their keys in params.yaml
    "infonce": InfoNCE,
    "binary-nce": BinaryNCE,
    "la": LocalAggregation,
    "cpc": CPC,
    "mlcpc": MLCPC,
}
