"""From a method's section of params.yaml to the method."""

from annulus.config.methods import AnyMethod, IRParams, MoCoParams, PIRLParams, SimCLRParams, SiMoParams
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.methods.ir import InstanceDiscrimination
from annulus.methods.moco import MomentumContrast
from annulus.methods.pirl import PIRL
from annulus.methods.simclr import SimCLR
from annulus.methods.simo import SiMo
from annulus.methods.step import Method, Setting

METHODS: dict[type[AnyMethod], type[Method]] = {
    IRParams: InstanceDiscrimination,
    MoCoParams: MomentumContrast,
    PIRLParams: PIRL,
    SimCLRParams: SimCLR,
    SiMoParams: SiMo,
}


def method_class(params: AnyMethod) -> type[Method]:
    """The class of the method that the parameters are for."""
    if type(params) not in METHODS:
        raise TypeError(f"no method is known for {type(params).__name__}")
    return METHODS[type(params)]


def build_method(encoder: Encoder | SplitEncoder, params: AnyMethod, setting: Setting) -> Method:
    """The method that the parameters are for."""
    return method_class(params)(encoder, params, setting)
