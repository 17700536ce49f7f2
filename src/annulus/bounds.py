"""Scores to nats. Pure functions: no device, no random numbers, no memory."""

import torch
from jaxtyping import Float
from torch import Tensor


def infonce(positive: Float[Tensor, "b"], negatives: Float[Tensor, "b k"]) -> Float[Tensor, ""]:
    """Mean cross-entropy, in nats, of finding the positive among 1 + k candidates.

    Scores are similarities already divided by the temperature; a negative of -inf is absent. At chance
    the loss is log(1 + k); log(1 + k) minus the loss bounds mutual information from below, and never
    exceeds log(1 + k).

    Source: van den Oord et al. 2018, eq. 4; mutualinfo section 2 (IR-nce), where K counts the positive too.
    """
    candidates = torch.cat([positive[:, None], negatives], dim=1)
    return (candidates.logsumexp(dim=1) - positive).mean()
