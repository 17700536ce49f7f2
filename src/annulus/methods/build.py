"""From a method's parameters to the method."""

from annulus.config.methods import AnyMethod, CMCParams, IRParams, MoCoParams, SimCLRParams, SiMoParams
from annulus.encoders.encoder import Encoder, LabEncoder
from annulus.methods.cmc import ContrastiveMultiviewCoding
from annulus.methods.ir import InstanceDiscrimination
from annulus.methods.moco import MomentumContrast
from annulus.methods.simclr import SimCLR
from annulus.methods.simo import SiMo
from annulus.methods.step import Setting

Method = InstanceDiscrimination | ContrastiveMultiviewCoding | MomentumContrast | SimCLR | SiMo

METHODS = {
    IRParams: InstanceDiscrimination,
    CMCParams: ContrastiveMultiviewCoding,
    MoCoParams: MomentumContrast,
    SimCLRParams: SimCLR,
    SiMoParams: SiMo,
}


def build_method(encoder: Encoder | LabEncoder, params: AnyMethod, setting: Setting) -> Method:
    """The method that the parameters are for."""
    return METHODS[type(params)](encoder, params, setting)
