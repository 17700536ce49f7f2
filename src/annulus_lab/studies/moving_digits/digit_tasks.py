"""Tasks of the moving digits: the digit's class, the background's class, and the digit's position."""

from typing import Literal, NamedTuple

import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from annulus_lab.studies.moving_digits.digit_scenes import Scenes
from annulus_lab.studies.moving_digits.moving_digits import World


class FactorTask(NamedTuple):
    """Factor to predict from a frame, by a head with `outputs` outputs."""

    name: Literal["digit", "background", "position"]
    outputs: int

    def truth(self, world: World, scenes: Scenes) -> Shaped[Tensor, "n ..."]:
        """Classes; for the position, the digit's corner in pixels."""
        match self.name:
            case "digit":
                return world.images.digit_labels[scenes.digit]
            case "background":
                return world.images.ground_labels[scenes.ground]
            case "position":
                return scenes.place.float()
            case _:
                raise AssertionError(self.name)

    def loss(self, outputs: Float[Tensor, "n o"], truth: Shaped[Tensor, "n ..."]) -> Float[Tensor, ""]:
        """Cross-entropy in nats; for the position, the mean squared error of a coordinate, in pixels squared."""
        return F.mse_loss(outputs, truth) if self.name == "position" else F.cross_entropy(outputs, truth)

    def errors(self, outputs: Float[Tensor, "n o"], truth: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n"]:
        """1 for a wrong class, else 0; for the position, the distance in pixels."""
        if self.name == "position":
            return (outputs - truth).norm(dim=1)
        return (outputs.argmax(dim=1) != truth).float()


def factor_tasks(world: World) -> list[FactorTask]:
    """Tasks of a world, each with one output for each of the world's classes; two outputs for the position."""
    classes = [int(labels.max()) + 1 for labels in (world.images.digit_labels, world.images.ground_labels)]
    return [FactorTask("digit", classes[0]), FactorTask("background", classes[1]), FactorTask("position", 2)]
