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


def begin_head_(head: nn.Linear, name: str) -> None:
    """The linear layer's first weights: small for VGG and MobileNet, without bias for WRN, torch's own for the others.

    Source: Tian et al. 2020, arXiv:1910.10699, Section 4 (their code says what the paper leaves out).
    """
    if name.startswith(("vgg", "mobilenet")):
        nn.init.normal_(head.weight, std=0.01)
    if name.startswith(("vgg", "mobilenet", "wrn")):
        nn.init.zeros_(head.bias)
