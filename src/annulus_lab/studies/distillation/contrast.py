"""Builds a sampler and a bound from the section `contrast`."""

from annulus.bounds.alpha import CPC, MLCPC
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.bound import Bound
from annulus.bounds.infonce import InfoNCE
from annulus.methods.contrast_config import ContrastConfig
from annulus_lab.studies.distillation.distillation_params import ContrastParams

RATE = 0.99  # of the normaliser `moving-average`


def build_contrast(params: ContrastParams) -> ContrastConfig:
    """Sampler, bound and number of negatives of these settings."""
    sampler = getattr(params.samplers, params.sampler)
    return ContrastConfig(sampler, neighbours=None, bound=_build_bound(params), negatives=params.negatives)


def _build_bound(params: ContrastParams) -> Bound:
    match params.bound:
        case "binary-nce":
            return BinaryNCE(normaliser=params.normaliser, constant=1.0, rate=RATE)
        case "infonce":
            return InfoNCE()
        case "cpc":
            return CPC(params.alpha)
        case "mlcpc":
            return MLCPC(params.alpha, params.alpha)
        case _:
            raise TypeError(f"no bound is known for {params.bound}")
