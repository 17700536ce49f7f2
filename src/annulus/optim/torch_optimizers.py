"""Torch's optimisers, with the imports of their first step done once here, before workers are forked."""

import torch._dynamo  # noqa: F401  (it takes three seconds)
from torch.optim import LBFGS, Adam

__all__ = ["LBFGS", "Adam"]
