"""The partition function of the original, normalised objectives: what the exponentiated scores sum to."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.config.bounds import PartitionParams


class Partition(nn.Module):
    """log Z by one of four policies; the estimate is a persistent buffer, NaN before the first batch.

    Source: mutualinfo section 2 (kappa, the constant); CMC's code takes the first batch's estimate for ever, which
    its authors later called the cause of its bad numbers; a moving average or the exact sum cure it. All of them are
    constants to the gradient.
    """

    log_z: Float[Tensor, ""]

    def __init__(self, params: PartitionParams) -> None:
        super().__init__()
        self.params = params
        self.register_buffer("log_z", torch.tensor(math.nan))

    @torch.no_grad()
    def forward(
        self, scores: Float[Tensor, "b n"], negatives: Float[Tensor, "b k"]
    ) -> Float[Tensor, ""] | Float[Tensor, "b"]:
        """log Z of this batch, whose estimate it takes in: over the whole memory, or per query where it is exact."""
        rows = scores.shape[1]
        match self.params.partition:
            case "exact":
                return scores.logsumexp(dim=1)
            case "constant":
                self.log_z.fill_(math.log(self.params.constant * rows))
            case _:
                count = (negatives > -torch.inf).sum().to(negatives.dtype)
                seen = negatives.flatten().logsumexp(0) - count.log() + math.log(rows)
                moved = seen
                if self.params.partition == "first-batch":
                    moved = self.log_z
                elif self.params.rate > 0:
                    rate = self.params.rate
                    moved = torch.logaddexp(self.log_z + math.log(rate), seen + math.log1p(-rate))
                self.log_z.copy_(torch.where(self.log_z.isnan(), seen, moved))
        return self.log_z.clone()
