"""The slow copy of an encoder that gives MoCo and SiMo their keys."""

from copy import deepcopy
from typing import TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def momentum_copy(encoder: Network) -> Network:
    """A copy with the encoder's weights, head included, and its buffers; it shares no memory and takes no gradient."""
    return deepcopy(encoder).requires_grad_(False)


@torch.no_grad()
def update_momentum_(copy: nn.Module, encoder: nn.Module, momentum: float) -> None:
    """theta_copy <- momentum * theta_copy + (1 - momentum) * theta_encoder, after the optimiser's step.

    Only parameters move. Buffers stay: the copy's batch normalisation keeps the statistics of its own forward passes,
    since an average of the encoder's would belong to activations that the copy does not have (and an average of
    `num_batches_tracked` would not be a count). MoCo's authors and every library that follows them do the same.

    Source: He et al. 2020, arXiv:1911.05722, Eq. 2; Zhu et al. 2020, arXiv:2010.01929, Appendix B.1.
    """
    fast, slow = dict(encoder.named_parameters()), dict(copy.named_parameters())
    assert fast.keys() == slow.keys(), "the copy has other layers than its encoder"
    torch._foreach_lerp_(list(slow.values()), [fast[name] for name in slow], 1 - momentum)
