"""MoCo: the key of another view, by an encoder that follows slowly, against a queue of earlier keys."""

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor

from annulus.compute.device import autocast
from annulus.compute.distributed import all_gather_with_grad
from annulus.compute.rng import generator
from annulus.config.methods import MoCoParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Progress
from annulus.methods.critics import scaled
from annulus.methods.keys import KeyEncoder
from annulus.methods.memory import KeyQueue, most_keys
from annulus.methods.step import Method, Setting, Step
from annulus.negatives.scores import Products


class MomentumContrast(Method):
    """Query and key are two views of an image; negatives are keys in a queue, pushed there after the step.

    Older keys of the query's own image in the queue are no negatives. v1 has a linear head, v2 an MLP.

    Source: He et al. 2020, arXiv:1911.05722, Algorithm 1; Wu et al. 2020, arXiv:2010.02037, Section 4 (MoCoRing).
    """

    memory = "queue"

    def __init__(self, encoder: Encoder, params: MoCoParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        self.keys = KeyEncoder(encoder, params.momentum, params.shuffle_groups, setting.seed)
        # The queue starts from CPU draws, so that a GPU starts from the same keys.
        start = generator(setting.seed, "queue")
        self.queue = KeyQueue(
            setting.queue, params.embedding_dim, start, most_keys(setting.queue, setting.epoch_images)
        )
        self.contrast = Contrast(setting.contrast, setting.images, setting.seed, setting.device)
        self.to(setting.device)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], progress: Progress) -> Step:
        """Each query against its key and negatives from the queue."""
        with autocast(views[0].device):
            query = self.encoder(views[0])
        query, key = all_gather_with_grad(query), self.keys(views[1])
        of_query = scaled(query, self.params.temperature)
        estimate = self.contrast(
            Products(of_query, self.queue.keys),
            index,
            progress,
            self_index=self.queue.own(index),
            positive=(of_query * key).sum(dim=1),
            column_images=self.queue.images,
        )
        return Step(estimate, query, (key,))

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Let the key encoder follow, and push the keys: only now, so that none is a negative of its own query."""
        self.keys.follow(self.encoder)
        self.queue.push(*step.stored, index)

    def stored_of(self, images: Int[Tensor, "m"]) -> Float[Tensor, "m d"]:
        """Each image's newest key in the queue, zeros where the queue holds none."""
        place = self.queue.own(images)[:, 0]
        return self.queue.keys[place.clamp_min(0)] * (place >= 0)[:, None]
