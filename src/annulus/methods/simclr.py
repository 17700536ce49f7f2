"""SimCLR: two views of each image in one batch, each the other's positive; all other views are the memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.device import without_autocast
from annulus.device.distributed import all_gather_with_grad, local
from annulus.encoders.module_encoder import AnyEncoder, Pool
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.methods.critics import scaled
from annulus.methods.step import Method, MethodSettings, Setting, Step


@dataclass(frozen=True, kw_only=True)
class SimCLRSettings(MethodSettings):
    """Settings of SimCLR: two views of each image in one batch, each the other's positive.

    >>> settings = annulus.methods.SimCLRSettings(
    ...     temperature=0.5, negatives="all", embedding_dim=128, warmup=0.05, head="mlp"
    ... )
    >>> settings.negative_columns(images=50_000, batch=256, queue=0)
    510
    """

    head: Literal["linear", "mlp", "mlp-bn"]

    @property
    def method(self) -> "type[SimCLR]":
        return SimCLR

    def negative_columns(self, images: int, batch: int, queue: int) -> int:
        """Both views of the batch's other images."""
        return 2 * batch - 2


class SimCLR(Method):
    """In-batch negatives in both directions: each of 2b views is a query once, against 2b - 2 views of other images.

    With a split, each network's queries meet the other network's embeddings: the positive is the other part of the
    image's other view.

    Source: Chen et al. 2020, arXiv:2002.05709, Eq. 1 (NT-Xent); Wu et al. 2020, arXiv:2005.13149, Lemma B.1.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> method = annulus.SimCLR.create(network, images=100, dim=16)
    >>> step = method.loss([torch.rand(8, 3, 8, 8), torch.rand(8, 3, 8, 8)])  # nothing is stored: no index
    >>> step.estimate.loss.backward()
    """

    queries_per_image = 2

    def __init__(self, encoder: AnyEncoder, params: SimCLRSettings, setting: Setting) -> None:
        super().__init__(encoder, params, setting)
        self.to(setting.device)

    @classmethod
    def create(
        cls,
        encoder: nn.Module | str,
        *,
        images: int,
        dim: int | None = None,
        contrast: ContrastConfig | None = None,
        temperature: float = 0.5,
        pool: Pool | None = None,
        seed: int = 0,
    ) -> Self:
        """SimCLR for your own loop, with the default of Chen et al. 2020, arXiv:2002.05709, Appendix B.9.

        `encoder`: an encoder of annulus, or any module that embeds a batch as (batch, dim), or a name. A name such as
        "timm/resnet18" gives a network with fresh weights and a linear head, and needs `dim`. `pool` turns a module's
        map, tokens or output object into vectors, as in `ModuleEncoder`.
        Training images are numbered from 0 to `images` - 1. `contrast`: negatives and bound. By default InfoNCE with
        all views of the batch's other images. For ImageNet the paper takes temperature 0.1.

        Raises:
            InputError: if a setting is outside its limits, or the encoder does not return embeddings of `dim` numbers.
        """
        return cls._by_hand(
            encoder, SimCLRSettings, images, dim, contrast or ContrastConfig(), seed, temperature=temperature, pool=pool
        )

    def loss(
        self,
        views: Sequence[Float[Tensor, "b 3 h w"]],
        index: Int[Tensor, "all"] | None = None,
        progress: Progress = END,
    ) -> Step:
        """Contrasts each view with the views of other images; the loss is the mean over both directions.

        `index` is needed only if clusters of the training images choose negatives or neighbours.
        """
        index = self.check(views, index)
        embeddings, pooled = self.embed(torch.cat([*views[:2]]))  # one pass, one batch-norm over both views
        memories = [torch.cat([all_gather_with_grad(half) for half in both.chunk(2)]) for both in embeddings]
        images, batch, count = index.repeat(2), len(index), len(memories[0])
        # Columns are counted from the query itself: offset 0 is the query, offset `batch` the other view of its image.
        rows = torch.cat([local(half) for half in torch.arange(count, device=index.device).chunk(2)])[:, None]
        others = torch.arange(1, count - 1, device=index.device)
        others += others >= batch
        columns = (rows + others) % count
        estimates = []
        for contrast, queries, keys in zip(self.contrasts, embeddings, reversed(memories), strict=True):
            with without_autocast(keys.device):
                similarity = scaled(queries, self.params.temperature) @ keys.T
            positive = similarity.gather(1, (rows + batch) % count).squeeze(1)
            scores = similarity.gather(1, columns)
            own, columns_of = images[rows[:, 0]], images[columns]
            estimates.append(contrast(scores, own, progress, positive=positive, column_images=columns_of))
        return Step(reduce(add, estimates), embeddings[0], pooled=pooled)
