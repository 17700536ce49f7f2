"""Methods: encoder + memory + negatives + bound. The loop knows no method by name; it calls

before_epoch(epoch)           what is done once per epoch, such as clustering the memory
loss(views, index, progress)  -> Step, to be differentiated
after_step(index, step)       writes the memory, once backward has read it
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.bounds import infonce
from annulus.clusters import kmeans
from annulus.config import CaveParams, IRParams, SamplerParams
from annulus.device import autocast
from annulus.encoders import Encoder
from annulus.memory import MemoryBank
from annulus.negatives import draw
from annulus.rng import derive, generator


@dataclass(frozen=True)
class Step:
    """What one batch gave: the loss and its ceiling in nats, and the embeddings to store."""

    loss: Float[Tensor, ""]
    ceiling: Float[Tensor, ""]  # ceiling - loss is the bound on mutual information
    embedding: Float[Tensor, "b d"]


class InstanceDiscrimination(nn.Module):
    """IR: each image is its own class, told from other images' rows in a memory bank.

    Source: mutualinfo section 2 (IR-nce), ring section 2 eq. 3; BALL, RING, CAVE and IRing by the sampler.
    """

    def __init__(
        self,
        encoder: Encoder,
        images: int,
        params: IRParams,
        sampler: SamplerParams,
        negatives: int | Literal["all"],
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.params = params
        self.sampler = sampler
        self.negatives = negatives
        self.seed = seed
        # The bank starts from CPU draws, so that a GPU starts from the same rows.
        self.bank = MemoryBank(images, params.embedding_dim, params.bank_rate, generator(seed, "bank"))
        self.generator = generator(seed, "negatives", device=device)
        cave = isinstance(sampler, CaveParams)
        clusters = torch.zeros(sampler.runs, images, dtype=torch.int32) if cave else None
        self.register_buffer("clusters", clusters)
        self.to(device)

    def before_epoch(self, epoch: int) -> None:
        """Cluster the bank anew, for cave."""
        if isinstance(self.sampler, CaveParams):
            self.clusters = kmeans(
                self.bank.rows,
                self.sampler.clusters,
                self.sampler.iterations,
                self.sampler.runs,
                derive(self.seed, "clusters", epoch),
            )

    def loss(self, views: Float[Tensor, "b 3 h w"], index: Int[Tensor, "b"], progress: float) -> Step:
        """InfoNCE of each view against its own row and negatives from the bank.

        `progress` in [0, 1] is how far the negatives are annealed.
        """
        with autocast(views.device):
            anchor = self.encoder(views)  # (b, d)
        # Dividing the queries rather than the scores spares a pass over the largest tensor.
        scores = (anchor / self.params.temperature) @ self.bank.rows.T  # (b, n)
        negatives = draw(scores.detach(), index, self.negatives, self.sampler, progress, self.generator, self.clusters)
        # One gather, so that backward fills one tensor of the scores' size.
        candidates = scores.gather(1, torch.cat([index[:, None], negatives.rows], dim=1))
        loss = infonce(candidates[:, 0], negatives.mask(candidates[:, 1:]))
        return Step(loss, negatives.ceiling(), anchor.detach())

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Store the embeddings. Backward reads the bank, so this must follow it."""
        self.bank.update(index, step.embedding)

    def get_extra_state(self) -> dict[str, Any]:
        """The negatives' random state; checkpoints hold it beside the buffers."""
        return {"generator": self.generator.get_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())
