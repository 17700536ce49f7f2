"""Torch's optimisers. This file does the imports of their first step once, before workers are forked."""

import torch._dynamo  # noqa: F401  (it takes three seconds)
from torch.optim import LBFGS, Adam

__all__ = ["LBFGS", "Adam"]
