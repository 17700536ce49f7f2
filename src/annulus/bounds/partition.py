"""Partition function of the original, normalised objective: the sum of the exponentiated scores."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.distributed import all_gather, all_reduce_

Normaliser = Literal["constant", "first-batch", "first-batch-candidates", "moving-average", "exact"]


class PartitionFunction(nn.Module):
    """log Z by one of five policies; the estimate is a persistent buffer, NaN before the first batch.

    constant: `constant` times the memory's columns; first-batch: from the mean of the first batch's negatives, for the
    whole training; first-batch-candidates: the same with its positives; moving-average: from every batch, where the old
    estimate has the weight `rate`; exact: the sum over the memory, per query. The gradient treats all as constants.

    Source: Wu et al. 2018, arXiv:1805.01978, Section 3.2 (first-batch is from their code); Wu et al. 2020,
    arXiv:2005.13149, Section 3.2 (the constant); Tian et al. 2020, arXiv:1910.10699, Section 3.1
    (first-batch-candidates is from their code).
    """

    log_z: Float[Tensor, ""]

    def __init__(
        self,
        normaliser: Normaliser,
        constant: float,
        rate: float,
    ) -> None:
        super().__init__()
        self.normaliser, self.constant, self.rate = normaliser, constant, rate
        self.register_buffer("log_z", torch.tensor(math.nan))

    @property
    def reads_positives(self) -> bool:
        """True if the estimate of log Z counts the batch's positives beside its negatives."""
        return self.normaliser == "first-batch-candidates"

    @torch.no_grad()
    def forward(
        self, scores: Float[Tensor, "b n"], drawn: Float[Tensor, "b k"]
    ) -> Float[Tensor, ""] | Float[Tensor, "b"]:
        """Returns log Z over all columns, updated by the batch's drawn scores; one per query if it is exact."""
        columns = scores.shape[1]
        match self.normaliser:
            case "exact":
                return scores.logsumexp(dim=1)
            case "constant":
                self.log_z.fill_(math.log(self.constant * columns))
            case "first-batch" | "first-batch-candidates" | "moving-average":
                count = all_reduce_((drawn > -torch.inf).sum()).to(drawn.dtype)
                every = all_gather(drawn.flatten().logsumexp(0)[None]).logsumexp(0)  # of all processes' queries
                batch_log_z = every - count.log() + math.log(columns)
                moved = batch_log_z
                if self.normaliser != "moving-average":
                    moved = self.log_z
                elif self.rate > 0:
                    moved = torch.logaddexp(self.log_z + math.log(self.rate), batch_log_z + math.log1p(-self.rate))
                self.log_z.copy_(torch.where(self.log_z.isnan(), batch_log_z, moved))
        return self.log_z.clone()
