"""Contrastive methods, each with the store of the keys that a query is compared with.

    ir            a memory bank
    pirl          the same, whose image must also be found from the pieces of its jigsaw
    moco          a momentum encoder, a queue of its keys
    moco-jigsaw   the same, whose key must also be found from the pieces of a jigsaw: InfoMin, with its views
    simclr        the other views of the batch
    simo          a momentum encoder, its keys of the batch

Made of `step` (what the loop calls), `contrast` (scores to a bound's estimate; `contrast_config`: its settings),
`memory` (bank and queue), `keys` (the momentum encoder), `jigsaw_branch` and `critics` (scores that are no dot
products).

Any of them may have a split: two encoders, each of a part of the image, and two memories; each encoder's queries meet
the other one's keys. CMC is ir with the split lab.

The loop knows no method by name; it calls

    start(embed)                  before the first step
    before_epoch(epoch, embed)    what is done once per epoch, such as clustering
    loss(views, index, progress)  -> Step, whose estimate's loss is minimised
    after_step(index, step)       writes the memory, once backward has read it

where `embed()` gives the embeddings of all training images now, `views` are as many tensors as the method's `views`
says, of this process's share of the batch, and `index` holds the training images' rows of the whole batch. Embeddings
are gathered from all processes as soon as they are made, so that all compute the loss of the whole batch.
"""

from annulus.methods.contrast import Contrast
from annulus.methods.contrast_config import ContrastConfig, Progress
from annulus.methods.ir import IR, IRSettings
from annulus.methods.memory import KeyQueue, MemoryBank
from annulus.methods.moco import MoCo, MoCoSettings
from annulus.methods.moco_jigsaw import MoCoJigsaw, MoCoJigsawSettings
from annulus.methods.pirl import PIRL, PIRLSettings
from annulus.methods.simclr import SimCLR, SimCLRSettings
from annulus.methods.simo import SiMo, SiMoSettings
from annulus.methods.step import Setting, Step

__all__ = [
    "IR",
    "PIRL",
    "Contrast",
    "ContrastConfig",
    "IRSettings",
    "KeyQueue",
    "MemoryBank",
    "MoCo",
    "MoCoJigsaw",
    "MoCoJigsawSettings",
    "MoCoSettings",
    "PIRLSettings",
    "Progress",
    "Setting",
    "SiMo",
    "SiMoSettings",
    "SimCLR",
    "SimCLRSettings",
    "Step",
]

METHODS = {  # by their keys in params.yaml
    "ir": IRSettings,
    "pirl": PIRLSettings,
    "moco": MoCoSettings,
    "moco-jigsaw": MoCoJigsawSettings,
    "simclr": SimCLRSettings,
    "simo": SiMoSettings,
}
