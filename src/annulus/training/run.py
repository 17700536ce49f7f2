"""The settings of one pretraining."""

from dataclasses import dataclass

from annulus.bounds.bound import Bound
from annulus.encoders.config import Backbone
from annulus.methods.step import MethodSettings
from annulus.negatives.annealing import Annealing
from annulus.negatives.neighbours import Neighbours, NoNeighbours
from annulus.negatives.samplers import Sampler
from annulus.optim.schedules import Policy
from annulus.optim.sgd import SGDSettings
from annulus.training.budget import Budget
from annulus.views.settings import ViewSet
from annulus.views.splits import Split


@dataclass(frozen=True, kw_only=True)
class Run:
    """All that a pretraining's numbers depend on, beside its images: the chosen settings and a seed."""

    seed: int
    view_size: int  # pixels a side that the encoder sees
    method: MethodSettings
    split: Split | None  # None: one network sees RGB
    bound: Bound
    sampler: Sampler
    annealing: Annealing
    neighbours: Neighbours | NoNeighbours
    views: ViewSet
    backbone: Backbone
    optimizer: SGDSettings
    schedule: Policy
    budget: Budget

    @property
    def learning_rate(self) -> float:
        """The linear rule: the rate is proportional to the number of queries in a batch.

        Source: Zhu et al. 2020, arXiv:2010.01929, Eq. 8.
        """
        return self.budget.learning_rate * self.budget.batch_size / 256
