"""Keys without gradient from a momentum encoder, with shuffled or synchronised batch-norm."""

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.device.compiling import compiled, replayed
from annulus.device.copies import to_device
from annulus.device.device import autocast
from annulus.device.distributed import all_gather, local, world_size
from annulus.device.rng import Drawing, generator
from annulus.encoders.batchnorm import synchronised
from annulus.encoders.module_encoder import AnyEncoder
from annulus.encoders.momentum import Following, momentum_copy
from annulus.encoders.shuffled_batchnorm import convert, grouped, learning, shuffled
from annulus.errors import InputError
from annulus.views.batch_share import BatchShare, share


class KeyEncoder(Drawing):
    """Momentum copy of an encoder, with shuffled or synchronised batch-norm.

    `groups`: number of groups of the shuffled batch, each normalised by its own statistics. So a query and its key
    share no statistics, which would reveal the pair: MoCo's shuffled batch-norm, in one process as in many. None: the
    statistics of the whole batch.

    With `own_views`, each process has the views of its own images, and the shuffling exchanges them.
    """

    def __init__(
        self, encoder: AnyEncoder, momentum: float, groups: int | None, seed: int, own_views: bool = False
    ) -> None:
        super().__init__()
        self.momentum, self.groups, self.own_views = momentum, groups, own_views
        self.encoder = momentum_copy(encoder)
        if groups is not None:
            if groups % world_size():
                raise InputError(
                    f"shuffle_groups: {groups} cannot be shared evenly by {world_size()} processes; "
                    f"take a multiple of {world_size()}"
                )
            self.encoder = convert(self.encoder, groups)
        elif world_size() > 1:
            self.encoder = synchronised(self.encoder)
        self.layers = grouped(self.encoder)
        self.compiled = compiled(self.encoder.embeddings)
        self.embed = replayed(self._embeddings, self.encoder)
        self.following: Following | None = None
        self.generator = generator(seed, "shuffle")

    def batch_shares(self, batch: int, steps: int) -> list[list[BatchShare]]:
        """Shares of the next `steps` batches: the images of this process's queries, and the images of its keys."""
        own = share(batch)
        if self.groups is None or self.own_views:
            return [[own, own]] * steps
        state = self.generator.get_state()
        orders = [shuffled(batch, self.generator)[0] for _ in range(steps)]
        self.generator.set_state(state)  # each step draws its own order again
        return [[own, BatchShare(local(order).sort().values, batch)] for order in orders]

    @torch.no_grad()
    def forward(self, views: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "all d"], ...]:
        """Computes each network's keys of the whole batch, in its order; `views` show the images of `batch_shares`."""
        if self.groups is None:
            with autocast(views.device):
                return tuple(all_gather(keys) for keys in self.embed(views))
        order, back = shuffled(len(views) * world_size(), self.generator)
        mine = local(order) if self.own_views else local(order).argsort().argsort()
        mine, back = to_device([mine, back], views.device)
        candidates = all_gather(views) if self.own_views else views
        with autocast(views.device):
            embeddings = self.embed(candidates[mine])
        return tuple(all_gather(keys)[back] for keys in embeddings)

    def _embeddings(self, views: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b d"], ...]:
        with learning(self.layers):
            return self.compiled(views)

    def follow(self, encoder: AnyEncoder) -> None:
        """Moves the weights one step towards the encoder's."""
        if self.following is None or self.following.encoder is not encoder:
            self.following = Following(self.encoder, encoder)
        self.following.step(self.momentum)
