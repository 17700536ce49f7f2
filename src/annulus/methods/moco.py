"""MoCo: the key of another view, by an encoder that follows slowly, against a queue of earlier keys."""

from collections.abc import Callable, Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.compute.device import autocast
from annulus.compute.distributed import gather
from annulus.compute.rng import generator
from annulus.config.methods import MoCoParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Moment
from annulus.methods.keys import KeyEncoder
from annulus.methods.memory import KeyQueue
from annulus.methods.step import Setting, Step


class MomentumContrast(nn.Module):
    """Query and key are two views of an image; negatives are keys in a queue, pushed there after the step.

    A key in the queue that is an older one of the query's own image is no negative. v1 has a linear head, v2 an MLP.
    Source: ring section 2 eq. 4 (MoCo, MoCoRing by the sampler); He et al. 2020, arXiv:1911.05722, Algorithm 1.
    """

    views = 2
    stored = None  # no embedding of every image is kept

    def __init__(self, encoder: Encoder, params: MoCoParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        self.keys = KeyEncoder(encoder, params.momentum, params.shuffle_groups, setting.seed)
        # The queue starts from CPU draws, so that a GPU starts from the same keys.
        start = generator(setting.seed, "queue")
        self.queue = KeyQueue(setting.queue, params.embedding_dim, start)
        self.contrast = Contrast(setting.objective, setting.images, setting.seed, setting.device)
        self.to(setting.device)

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Nothing: the queue starts from random keys, and is full of real ones after the first few batches."""

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Cluster the training images anew, where clusters are needed."""
        if self.contrast.needs_clusters:
            self.contrast.cluster(embed(), epoch)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], moment: Moment) -> Step:
        """The objective of each query against its key and negatives from the queue."""
        with autocast(views[0].device):
            query = self.encoder(views[0])
        query, key = gather(query), self.keys(views[1])
        scaled = query / self.params.temperature
        estimate = self.contrast(
            scaled @ self.queue.keys.T,
            index,
            moment,
            own=self.queue.own(index),
            positive=(scaled * key).sum(dim=1),
            columns=self.queue.images,
        )
        return Step(estimate, query, (key,))

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Let the key encoder follow, and push the keys: only now, so that none is a negative of its own query."""
        self.keys.follow(self.encoder)
        self.queue.push(*step.stored, index)
