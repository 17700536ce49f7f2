"""MoCo: the positive is the key of another view, from a momentum encoder; the negatives are a queue of earlier keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar, Literal, Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.bounds.bound import Estimate
from annulus.device.distributed import local
from annulus.device.rng import generator
from annulus.encoders.module_encoder import AnyEncoder, Pool
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.methods.critics import scaled
from annulus.methods.keys import KeyEncoder
from annulus.methods.memory import KeyQueue, most_keys
from annulus.methods.step import Method, MethodSettings, Setting, Step, side_by_side
from annulus.negatives.scores import Products
from annulus.settings import Rows, Share
from annulus.views.batch_share import BatchShare


@dataclass(frozen=True, kw_only=True)
class MoCoSettings(MethodSettings):
    """Settings of MoCo: a momentum encoder and a queue of its keys. shuffle_groups: parts of the shuffled batch-norm.

    >>> settings = annulus.methods.MoCoSettings(
    ...     temperature=0.07, negatives="all", embedding_dim=128, warmup=0.0, head="linear",
    ...     momentum=0.999, shuffle_groups=8,
    ... )
    >>> settings.negative_columns(images=50_000, batch=256, queue=65_536)
    65536
    """

    keeps_queue: ClassVar = True
    networks: ClassVar = 2
    momentum: Share
    shuffle_groups: Rows
    head: Literal["linear", "mlp"]

    @property
    def norm_groups(self) -> int:
        """Parts of the shuffled keys."""
        return self.shuffle_groups

    @property
    def method(self) -> "type[MoCo]":
        return MoCo

    def negative_columns(self, images: int, batch: int, queue: int) -> int:
        """The length of the queue, which may hold older keys of the query's own image."""
        return queue


class MoCo(Method):
    """Momentum contrast: query and key are two views of an image, negatives are the keys in a queue.

    Keys are pushed after the step. Older keys of the query's own image are never its negatives. v1 has a linear head,
    v2 an MLP. With a split, each network has a queue, and its queries meet the other network's keys.

    Source: He et al. 2020, arXiv:1911.05722, Algorithm 1; Wu et al. 2020, arXiv:2010.02037, Section 4 (MoCoRing).

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> ring = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.01, outer=0.1), negatives=64)  # MoCoRing
    >>> method = annulus.MoCo.create(network, images=100, dim=16, queue=512, contrast=ring)
    >>> index = torch.arange(8)  # rows of the batch's images among the 100
    >>> step = method.loss([torch.rand(8, 3, 8, 8), torch.rand(8, 3, 8, 8)], index)
    >>> step.estimate.loss.backward()
    >>> method.after_step(index, step)  # after the optimiser's step: moves the key encoder, pushes the keys
    """

    memory = "queue"

    def __init__(self, encoder: AnyEncoder, params: MoCoSettings, setting: Setting) -> None:
        super().__init__(encoder, params, setting)
        self.keys = KeyEncoder(encoder, params.momentum, params.shuffle_groups, setting.seed, setting.own_views)
        # A queue starts from CPU draws, so that a GPU starts from the same keys.
        starts = [generator(setting.seed, "queue", name) for name in encoder.names]
        keys_per_image = setting.keys_per_image
        most = most_keys(setting.queue, setting.epoch_images) if keys_per_image is None else keys_per_image
        self.queues = nn.ModuleList(KeyQueue(setting.queue, params.embedding_dim, start, most) for start in starts)
        self.to(setting.device)

    @classmethod
    def create(
        cls,
        encoder: nn.Module | str,
        *,
        images: int,
        dim: int | None = None,
        contrast: ContrastConfig | None = None,
        temperature: float = 0.07,
        momentum: float = 0.999,
        queue: int = 65536,
        shuffle_groups: int = 8,
        keys_per_image: int | None = None,
        pool: Pool | None = None,
        seed: int = 0,
    ) -> Self:
        """MoCo for your own loop, with the defaults of He et al. 2020, arXiv:1911.05722, Section 3.3 and Algorithm 1.

        `encoder`: an encoder of annulus, or any module that embeds a batch as (batch, dim), or a name. A name such as
        "timm/resnet18" gives a network with fresh weights and a linear head, and needs `dim`. `pool` turns a module's
        map, tokens or output object into vectors, as in `ModuleEncoder`.
        Training images are numbered from 0 to `images` - 1. `contrast`: negatives and bound. By default InfoNCE with
        the whole queue. `queue`: number of its keys, at least a batch. `shuffle_groups`: parts of a shuffled batch with
        separate batch-norm statistics, 8 as on the paper's 8 GPUs. The batch is a multiple of it; 1 leaves batch-norm
        as it is. `keys_per_image`: largest number of keys of one image in the queue. The default suits epochs that
        show each image at most once; images drawn with replacement have more.

        Raises:
            InputError: if a setting is outside its limits, or the encoder does not return embeddings of `dim` numbers.
        """
        return cls._by_hand(
            encoder,
            MoCoSettings,
            images,
            dim,
            contrast or ContrastConfig(),
            seed,
            queue,
            keys_per_image,
            temperature=temperature,
            momentum=momentum,
            shuffle_groups=shuffle_groups,
            pool=pool,
        )

    def batch_shares(self, batch: int, steps: int) -> list[list[BatchShare]]:
        """Shares of the next batches: this process's own images for queries, its part of the shuffled ones for keys."""
        return self.keys.batch_shares(batch, steps)

    def loss(
        self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"], progress: Progress = END
    ) -> Step:
        """Contrasts each query with its key and negatives from the queue."""
        self.check(views, index)
        queries, pooled = self.embed(views[0])
        keys = self.keys(views[1])
        return Step(self.among_keys(queries, keys, local(index), progress), queries[0], keys, pooled)

    def among_keys(
        self,
        queries: Sequence[Float[Tensor, "b d"]],
        keys: Sequence[Float[Tensor, "all d"]],
        own: Int[Tensor, "b"],
        progress: Progress,
    ) -> Estimate:
        """Estimate of each network's queries of the images `own`, against the other network's keys and queue."""
        estimates = []
        for contrast, query, key, queue in zip(
            self.contrasts, queries, reversed(keys), reversed(self.queues), strict=True
        ):
            scaled_query = scaled(query, self.params.temperature)
            estimates.append(
                contrast(
                    Products(scaled_query, queue.keys),
                    own,
                    progress,
                    self_index=queue.own(own),
                    positive=(scaled_query * local(key)).sum(dim=1),
                    column_images=queue.images,
                )
            )
        return reduce(add, estimates)

    def after_step(self, index: Int[Tensor, "all"], step: Step, *, follow: bool = True) -> None:
        """Moves the key encoder and pushes the keys; backward has read the old queue before."""
        if follow:
            self.keys.follow(self.encoder)
        for queue, keys in zip(self.queues, step.stored, strict=True):
            queue.push(keys, index)

    def stored_embeddings(self, images: Int[Tensor, "m"]) -> Float[Tensor, "m d"]:
        """Returns each image's newest key, zeros without one; keys of two networks are side by side."""
        newest = []
        for queue in self.queues:
            place = queue.own(images)[:, 0]
            newest.append(queue.keys[place.clamp_min(0)] * (place >= 0)[:, None])
        return side_by_side(newest)
