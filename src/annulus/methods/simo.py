"""SiMo: MoCo without its queue; the keys of the current batch are the whole memory."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.distributed import local, world_size
from annulus.encoders.batchnorm import synchronised
from annulus.encoders.module_encoder import AnyEncoder, Pool, as_encoder
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.methods.critics import scaled
from annulus.methods.keys import KeyEncoder
from annulus.methods.step import Method, MethodSettings, Setting, Step
from annulus.negatives.scores import Products
from annulus.settings import Rows, Share
from annulus.views.batch_share import BatchShare

log = logging.getLogger("annulus")


@dataclass(frozen=True, kw_only=True)
class SiMoSettings(MethodSettings):
    """Settings of SiMo. batch_norm: statistics of all processes' batches, or of shuffled groups as in MoCo.

    >>> settings = annulus.methods.SiMoSettings(
    ...     temperature=0.2, negatives="all", embedding_dim=128, warmup=0.0, head="mlp-bn",
    ...     momentum=0.999, batch_norm="sync", shuffle_groups=8,
    ... )
    >>> settings.negative_columns(images=50_000, batch=256, queue=0)
    255
    """

    networks: ClassVar = 2
    momentum: Share
    batch_norm: Literal["sync", "shuffle"]
    shuffle_groups: Rows
    head: Literal["linear", "mlp", "mlp-bn"]

    @property
    def norm_groups(self) -> int:
        """Parts of the shuffled keys; 1 without shuffling."""
        return self.shuffle_groups if self.batch_norm == "shuffle" else 1

    @property
    def method(self) -> "type[SiMo]":
        return SiMo

    def negative_columns(self, images: int, batch: int, queue: int) -> int:
        """The keys of the batch's other images."""
        return batch - 1


class SiMo(Method):
    """Momentum keys of the current batch, as positives and negatives; each query draws K of the others, or takes all.

    With a split, each network's queries meet the other network's keys.

    Source: Zhu et al. 2020, arXiv:2010.01929, Section 3. The paper does not define the choice of K < N negatives;
    here they are drawn.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> bound = annulus.bounds.InfoNCE(eqco_alpha=65536.0)
    >>> method = annulus.methods.SiMo.create(network, images=100, dim=16, contrast=annulus.ContrastConfig(bound=bound))
    >>> step = method.loss([torch.rand(8, 3, 8, 8), torch.rand(8, 3, 8, 8)])  # nothing is stored: no index
    >>> step.estimate.loss.backward()
    >>> method.after_step(None, step)  # after the optimiser's step: moves the key encoder
    """

    def __init__(self, encoder: AnyEncoder, params: SiMoSettings, setting: Setting) -> None:
        super().__init__(encoder, params, setting)
        groups = params.shuffle_groups if params.batch_norm == "shuffle" else None
        if groups is None and world_size() == 1:
            log.warning(
                "batch_norm 'sync' of SiMo has no other process to synchronise with; "
                "in one process it is ordinary batch normalisation over the whole batch"
            )
        self.keys = KeyEncoder(encoder, params.momentum, groups, setting.seed, setting.own_views)
        self.to(setting.device)

    @classmethod
    def create(
        cls,
        encoder: nn.Module | str,
        *,
        images: int,
        dim: int | None = None,
        contrast: ContrastConfig | None = None,
        temperature: float = 0.2,
        momentum: float = 0.999,
        batch_norm: Literal["sync", "shuffle"] = "sync",
        shuffle_groups: int = 8,
        pool: Pool | None = None,
        seed: int = 0,
    ) -> Self:
        """SiMo for your own loop, with the defaults of Zhu et al. 2020, arXiv:2010.01929, Section 3.

        `encoder`: an encoder of annulus, or any module that embeds a batch as (batch, dim), or a name. A name such as
        "timm/resnet18" gives a network with fresh weights and a linear head, and needs `dim`. `pool` turns a module's
        map, tokens or output object into vectors, as in `ModuleEncoder`.
        Training images are numbered from 0 to `images` - 1. `contrast`: negatives and bound. By default InfoNCE with
        all other keys of the batch; the paper adds EqCo's margin: bound=annulus.bounds.InfoNCE(eqco_alpha=65536.0).
        `batch_norm`: with several processes "sync" replaces the batch-norm layers of `encoder` too; their weights stay.

        Raises:
            InputError: if a setting is outside its limits, or the encoder does not return embeddings of `dim` numbers.
        """
        encoder, dim = as_encoder(encoder, dim, seed, pool)
        if batch_norm == "sync" and world_size() > 1:
            encoder = synchronised(encoder)
        return cls._by_hand(
            encoder,
            SiMoSettings,
            images,
            dim,
            contrast or ContrastConfig(),
            seed,
            temperature=temperature,
            momentum=momentum,
            batch_norm=batch_norm,
            shuffle_groups=shuffle_groups,
        )

    def batch_shares(self, batch: int, steps: int) -> list[list[BatchShare]]:
        """Shares of the next batches: this process's own images for queries, its part of the shuffled ones for keys."""
        return self.keys.batch_shares(batch, steps)

    def loss(
        self,
        views: Sequence[Float[Tensor, "b 3 h w"]],
        index: Int[Tensor, "all"] | None = None,
        progress: Progress = END,
    ) -> Step:
        """Contrasts each query with its key and the keys of other images in the batch.

        `index` is needed only if clusters of the training images choose negatives or neighbours.
        """
        index = self.check(views, index)
        queries, pooled = self.embed(views[0])
        keys = self.keys(views[1])
        # Column i holds the key of image i: query i's own column, and its positive.
        own = local(torch.arange(len(index), device=index.device))
        estimates = [
            contrast(
                Products(scaled(query, self.params.temperature), key),
                local(index),
                progress,
                self_index=own,
                column_images=index,
            )
            for contrast, query, key in zip(self.contrasts, queries, reversed(keys), strict=True)
        ]
        return Step(reduce(add, estimates), queries[0], pooled=pooled)

    def after_step(self, index: Int[Tensor, "all"] | None, step: Step, *, follow: bool = True) -> None:
        """Moves the key encoder one step."""
        if follow:
            self.keys.follow(self.encoder)
