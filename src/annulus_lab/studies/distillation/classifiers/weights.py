"""First weights of networks."""

from torch import nn


def he_normal_(network: nn.Module) -> nn.Module:
    """Draws the convolutions from a normal distribution of variance 2 over their outputs' taps; returns the network.

    Biases become zero. Batch-norms keep weight one and bias zero.

    Source: He et al. 2015, arXiv:1502.01852, Section 2.2 (the backward case).
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network


def begin_head_(head: nn.Linear, name: str) -> None:
    """Sets the first weights of a linear layer: small for VGG and MobileNet, zero bias for these and WRN.

    The other networks keep torch's own.

    Source: Tian et al. 2020, arXiv:1910.10699, Section 4 (their code says what the paper leaves out).
    """
    if name.startswith(("vgg", "mobilenet")):
        nn.init.normal_(head.weight, std=0.01)
    if name.startswith(("vgg", "mobilenet", "wrn")):
        nn.init.zeros_(head.bias)
