"""How to train, apart from the method."""

from dataclasses import dataclass

from annulus.config.images import ViewSetParams
from annulus.config.training import OptimizerParams, PretrainScale, ScheduleParams
from annulus.negatives.annealing import Annealing
from annulus.negatives.samplers import Sampler


@dataclass(frozen=True)
class Recipe:
    """How to train, apart from the method: views, length, learning rate."""

    scale: PretrainScale
    learning_rate: float  # of this batch size
    optimizer: OptimizerParams
    schedule: ScheduleParams
    annealing: Annealing
    views: ViewSetParams
    sampler: Sampler  # the method's, to record which shares of the memory annealing has reached
    seed: int
