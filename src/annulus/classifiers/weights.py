"""First weights of networks."""

from torch import nn


def he_normal_(network: nn.Module) -> nn.Module:
    """The network with convolutions drawn from a normal distribution of variance 2 over their outputs' taps.

    Biases are zero; batch-norms begin as they are built, with weight one and bias zero.

    Source: He et al. 2015, arXiv:1502.01852, Section 2.2 (the backward case).
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network
