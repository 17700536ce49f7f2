"""What one batch gives, and what every method is told about its surroundings."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.methods.contrast import Estimate, Objective


class Setting(NamedTuple):
    """What a method is built from, beside its encoder and its own parameters."""

    objective: Objective
    images: int  # of the training set
    queue: int  # keys, where a method keeps a queue
    seed: int
    device: torch.device


@dataclass(frozen=True)
class Step:
    """The estimate to be differentiated, the queries it is about, and the embeddings that `after_step` stores."""

    estimate: Estimate
    queries: Float[Tensor, "b d"]  # with gradient, once backward has run
    stored: tuple[Float[Tensor, "b d"], ...] = ()
