"""Read-outs of a frame's factors: a linear head for each factor on frozen features, fitted to convergence.

The heads are tested on unseen images. Features are shifted by their mean and divided by one number. So a factor that
the encoder nearly dropped stays small, and the decay of the head's weights keeps it out.

Source: Tian et al. 2020, arXiv:2005.10243, Section 4.2, without a description of the heads.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from annulus.device.rng import generator
from annulus.optim.torch_optimizers import LBFGS
from annulus_lab.studies.moving_digits.digit_scenes import Scenes
from annulus_lab.studies.moving_digits.digit_tasks import FactorTask, factor_tasks
from annulus_lab.studies.moving_digits.digits_params import DigitsTrainingParams
from annulus_lab.studies.moving_digits.moving_digits import World

STEPS = 100  # of L-BFGS, which converges in fewer
ROWS_AT_ONCE = 512


class Frames(NamedTuple):
    """Frames of a world, with independent factors."""

    world: World
    scenes: Scenes

    @classmethod
    def drawn(cls, world: World, count: int, seed: int, name: str) -> "Frames":
        return cls(world, world.scenes(count, generator(seed, name)))

    @torch.no_grad()
    def through(self, network: nn.Module) -> Float[Tensor, "n o"]:
        """Outputs of a trained network for each frame, on the CPU."""
        network.eval()
        device = next(network.parameters()).device
        parts = zip(*(field.split(ROWS_AT_ONCE) for field in self.scenes), strict=True)
        return torch.cat([network(self.world.pixels(Scenes(*part)).to(device)).cpu() for part in parts])


def read_out(
    backbone: nn.Module, train: Frames, test: Frames, params: DigitsTrainingParams
) -> dict[str, Float[Tensor, "n"]]:
    """Errors of each task on each test frame."""
    features, unseen = train.through(backbone), test.through(backbone)
    mean = features.mean(dim=0)
    scale = (features - mean).square().mean().sqrt().clamp(min=1e-12)
    features, unseen = (features - mean) / scale, (unseen - mean) / scale
    errors = {}
    for task in factor_tasks(train.world):
        head = fit_head(features, task.truth(*train), task, params.read_out_decay)
        errors[task.name] = task.errors(head(unseen), task.truth(*test))
    return errors


def fit_head(
    features: Float[Tensor, "n d"], truth: Shaped[Tensor, "n ..."], task: FactorTask, decay: float
) -> nn.Linear:
    """Fits the linear head with the least loss plus half of `decay` times its squared weights."""
    head = nn.utils.skip_init(nn.Linear, features.shape[1], task.outputs)
    nn.init.zeros_(head.weight)
    with torch.no_grad():
        head.bias.copy_(truth.mean(dim=0) if task.name == "position" else torch.zeros(task.outputs))
    optimizer = LBFGS(head.parameters(), max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = task.loss(head(features), truth) + decay / 2 * head.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return head.requires_grad_(False)
