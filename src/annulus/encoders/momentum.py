"""The slow copy of an encoder that gives MoCo and SiMo their keys."""

from copy import deepcopy
from typing import TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def momentum_copy(encoder: Network) -> Network:
    """A copy with the encoder's weights, head included, and its buffers; it shares no memory and takes no gradient."""
    return deepcopy(encoder).requires_grad_(False)


class Following:
    """theta_copy <- momentum * theta_copy + (1 - momentum) * theta_encoder, after the optimiser's step.

    Only parameters move. Buffers stay: the copy's batch normalisation keeps the statistics of its own forward passes,
    since an average of the encoder's would belong to activations that the copy does not have (and an average of
    `num_batches_tracked` would not be a count). MoCo's authors and every library that follows them do the same.

    Source: He et al. 2020, arXiv:1911.05722, Eq. 2; Zhu et al. 2020, arXiv:2010.01929, Appendix B.1.
    """

    def __init__(self, copy: nn.Module, encoder: nn.Module) -> None:
        """Both have their layers by now: to walk through them takes a GPU's host longer than to move the weights."""
        self.encoder = encoder
        slow, fast = dict(copy.named_parameters()), dict(encoder.named_parameters())
        assert fast.keys() == slow.keys(), "the copy has other layers than its encoder"
        paths = [name.rpartition(".") for name in slow]
        # Of each parameter its layers' dictionaries, in which a network that was moved has other tensors.
        self.places = [
            (copy.get_submodule(path)._parameters, encoder.get_submodule(path)._parameters, name)
            for path, _, name in paths
        ]

    @torch.no_grad()
    def step(self, momentum: float) -> None:
        """Move the copy's parameters."""
        slow, fast = zip(*((own[name], other[name]) for own, other, name in self.places), strict=True)
        torch._foreach_lerp_(slow, fast, 1 - momentum)
