"""State between steps: one stored embedding per image."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class MemoryBank(nn.Module):
    """One unit embedding per training image, an average over its recent views.

    `rows` is a persistent buffer, so that checkpoints hold it. Read it directly; write it with `update`,
    after the optimiser's step: backward still needs the rows that the scores were made from.

    Source: mutualinfo section 2; whether rows are re-normalised is left open there, here they are.
    """

    rows: Float[Tensor, "n d"]

    def __init__(self, images: int, dim: int, rate: float, generator: torch.Generator) -> None:
        """`rate` in [0, 1) is the share of the old row that an update keeps; 0 keeps the last view alone."""
        super().__init__()
        self.rate = rate
        drawn = torch.randn(images, dim, generator=generator, device=generator.device)
        self.register_buffer("rows", F.normalize(drawn, dim=1))

    @torch.no_grad()
    def fill(self, embeddings: Float[Tensor, "n d"]) -> None:
        """Take these rows, before the first step."""
        self.rows.copy_(F.normalize(embeddings, dim=1))

    @torch.no_grad()
    def update(self, index: Int[Tensor, "b"], embedding: Float[Tensor, "b d"]) -> None:
        """rows[i] <- normalize(rate * rows[i] + (1 - rate) * embedding).

        An image that stands several times in the batch gets the mean of its embeddings, whatever their order.
        """
        same = (index[:, None] == index).to(embedding.dtype)
        mean = same @ embedding / same.sum(dim=1, keepdim=True)
        mixed = self.rate * self.rows[index] + (1 - self.rate) * mean
        # Equal indices write equal values, so the order of writing does not matter.
        self.rows[index] = F.normalize(mixed, dim=1)
