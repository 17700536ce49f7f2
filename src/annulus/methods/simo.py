"""SiMo: MoCo without its queue; the keys of the current batch are all the memory there is."""

import logging
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.compute.device import autocast
from annulus.compute.distributed import gather, world
from annulus.config.methods import SiMoParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Moment
from annulus.methods.keys import KeyEncoder
from annulus.methods.step import Setting, Step

log = logging.getLogger("annulus")


class SiMo(nn.Module):
    """Momentum keys of the current batch, positive and negative; K of the others are drawn per query, or all.

    Source: eqco section 2 (SiMo); how K < N negatives are picked is not stated there, and taken from its SimCLR.
    """

    views = 2
    stored = None  # no embedding of every image is kept

    def __init__(self, encoder: Encoder, params: SiMoParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        groups = params.shuffle_groups if params.batch_norm == "shuffle" else None
        if groups is None and world() == 1:
            log.warning(
                "methods.simo.batch_norm: sync has no other process to synchronise with; "
                "in one process it is ordinary batch normalisation over the whole batch"
            )
        self.keys = KeyEncoder(encoder, params.momentum, groups, setting.seed)
        self.contrast = Contrast(setting.objective, setting.images, setting.seed, setting.device)
        self.to(setting.device)

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Nothing: the batch is the memory."""

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Cluster the training images anew, where clusters are needed."""
        if self.contrast.needs_clusters:
            self.contrast.cluster(embed(), epoch)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], moment: Moment) -> Step:
        """The objective of each query against its key and the keys of other images in the batch."""
        with autocast(views[0].device):
            query = self.encoder(views[0])
        query, key = gather(query), self.keys(views[1])
        scores = (query / self.params.temperature) @ key.T
        # Column i holds image i's key: each query's own, and its positive.
        own = torch.arange(len(index), device=index.device)
        return Step(self.contrast(scores, index, moment, own=own, columns=index), query)

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Let the key encoder follow."""
        self.keys.follow(self.encoder)
