"""Contrastive methods, and the memory of each one's keys.

    ir            a memory bank
    pirl          ir with a second query: the jigsaw of the image
    moco          a momentum encoder and a queue of its keys
    moco-jigsaw   moco with a second query: the jigsaw of a view; with the views `infomin` it is InfoMin
    simclr        the other views of the batch
    simo          a momentum encoder and its keys of the batch

Modules: `step` (interface of the loop), `contrast` (from scores to a bound's estimate; settings in `contrast_config`),
`memory` (bank and queue), `keys` (the momentum encoder), `jigsaw_branch`, and `critics` (scores of pairs: the dot
product and learned ones).

Every method can have a split: two encoders, each of a part of the image, and two memories. Each encoder's queries meet
the other one's keys. CMC is ir with the split lab.

The loop calls these functions of any method:

    start(embed)                  before the first step
    before_epoch(epoch, embed)    before each epoch; it clusters the images, for example
    loss(views, index, progress)  returns a Step; the loop minimises the loss of its estimate
    after_step(index, step)       writes the memory after backward has read it

`embed()` returns the current embeddings of all training images. `views` holds a tensor for each of the method's
`views`, of this process's share of the batch. `index` holds the training rows of the whole batch. All processes gather
the embeddings that become keys. Each computes the loss of its own queries, and the mean is the loss of the batch.
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
