"""SiMo: MoCo without its queue; the keys of the current batch are the whole memory."""

import logging
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.compute.device import autocast
from annulus.compute.distributed import all_gather_with_grad, world_size
from annulus.config.methods import SiMoParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Progress
from annulus.methods.critics import scaled
from annulus.methods.keys import KeyEncoder
from annulus.methods.step import Method, Setting, Step
from annulus.negatives.scores import Products

log = logging.getLogger("annulus")


class SiMo(Method):
    """Momentum keys of the current batch, positive and negative; K of the others are drawn per query, or all.

    Source: Zhu et al. 2020, arXiv:2010.01929, Section 3. The paper does not say how K < N negatives are picked; here
    they are drawn.
    """

    def __init__(self, encoder: Encoder, params: SiMoParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        groups = params.shuffle_groups if params.batch_norm == "shuffle" else None
        if groups is None and world_size() == 1:
            log.warning(
                "methods.simo.batch_norm: sync has no other process to synchronise with; "
                "in one process it is ordinary batch normalisation over the whole batch"
            )
        self.keys = KeyEncoder(encoder, params.momentum, groups, setting.seed)
        self.contrast = Contrast(setting.contrast, setting.images, setting.seed, setting.device)
        self.to(setting.device)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], progress: Progress) -> Step:
        """Each query against its key and the keys of other images in the batch."""
        with autocast(views[0].device):
            query = self.encoder(views[0])
        query, key = all_gather_with_grad(query), self.keys(views[1])
        scores = Products(scaled(query, self.params.temperature), key)
        # Column i holds image i's key: each query's own, and its positive.
        own = torch.arange(len(index), device=index.device)
        return Step(self.contrast(scores, index, progress, self_index=own, column_images=index), query)

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Let the key encoder follow."""
        self.keys.follow(self.encoder)
