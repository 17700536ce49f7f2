"""Bounds: scores to nats. No device, no random numbers, no memory.

Scores are similarities divided by the temperature, a row per query. A score of -inf is absent and does not count. A NaN
among the scores makes the loss NaN, where a loop detects it without another pass over the scores. Positives are the
columns that should score highest: first the query's own, then its neighbours. Every loss is in nats, a mean over
queries. Its ceiling is its value if all scores are equal. Ceiling minus loss estimates the mutual information: 0 at
chance, and at most the ceiling.
"""

from annulus.bounds.alpha import CPC, MLCPC, cpc, mlcpc
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.bound import Bound, Estimate
from annulus.bounds.dcl import DCL, dcl  # hides the module of the same name, as do those below
from annulus.bounds.hcl import HCL, hcl
from annulus.bounds.infonce import InfoNCE, infonce
from annulus.bounds.la import LocalAggregation
from annulus.bounds.loss import Loss
from annulus.bounds.sigmoid import Sigmoid, sigmoid
from annulus.bounds.simple import Simple, simple
from annulus.bounds.supcon import SupCon, supcon

__all__ = [
    "CPC",
    "DCL",
    "HCL",
    "MLCPC",
    "BinaryNCE",
    "Bound",
    "Estimate",
    "InfoNCE",
    "LocalAggregation",
    "Loss",
    "Sigmoid",
    "Simple",
    "SupCon",
    "cpc",
    "dcl",
    "hcl",
    "infonce",
    "mlcpc",
    "sigmoid",
    "simple",
    "supcon",
]

BOUNDS = {  # by their keys in params.yaml
    "infonce": InfoNCE,
    "binary-nce": BinaryNCE,
    "la": LocalAggregation,
    "cpc": CPC,
    "mlcpc": MLCPC,
    "dcl": DCL,
    "hcl": HCL,
    "supcon": SupCon,
    "sigmoid": Sigmoid,
    "simple": Simple,
}
