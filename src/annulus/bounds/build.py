"""From a section of params.yaml to a bound; nothing else in this room reads a section."""

from annulus.bounds.alpha import CPC, MLCPC
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.bound import Bound
from annulus.bounds.infonce import InfoNCE
from annulus.bounds.la import LocalAggregation
from annulus.bounds.partition import PartitionFunction
from annulus.config.bounds import BinaryNCEParams, BoundParams, CPCParams, InfoNCEParams, LAParams, MLCPCParams


def build_bound(params: BoundParams) -> Bound:
    """The bound of these settings."""
    match params:
        case InfoNCEParams():
            return InfoNCE(params.eqco_alpha)
        case BinaryNCEParams():
            return BinaryNCE(PartitionFunction(params.normaliser, params.constant, params.rate))
        case LAParams():
            return LocalAggregation()
        case CPCParams():
            return CPC(params.alpha, params.eqco_alpha)
        case MLCPCParams():
            return MLCPC(params.alpha_start, params.alpha_end, params.divide_by_alpha, params.eqco_alpha)
        case _:
            raise TypeError(f"no bound is known for {type(params).__name__}")
