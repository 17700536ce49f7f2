"""Torch's optimisers, ready for workers: what their first step would import in each of them is imported here, once."""

import torch._dynamo  # noqa: F401  (it takes three seconds)
from torch.optim import LBFGS, Adam

__all__ = ["LBFGS", "Adam"]
