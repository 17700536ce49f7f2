"""The settings of one pretraining."""

from dataclasses import dataclass

from annulus.bounds.bound import Bound
from annulus.encoders.config import Backbone
from annulus.methods.contrast_config import ContrastConfig
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
class TrainingRun:
    """The chosen settings and a seed: with the images, everything that the numbers of a pretraining depend on."""

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

    @property
    def contrast(self) -> ContrastConfig:
        """Negatives, further positives and bound.

        Raises:
            InputError: if the three do not fit together.
        """
        return ContrastConfig(
            self.sampler,
            None if isinstance(self.neighbours, NoNeighbours) else self.neighbours,
            self.bound,
            self.budget.negatives if self.method.negatives == "sampled" else "all",
        )

    @property
    def queries(self) -> int:
        """Queries of a batch."""
        return self.budget.batch_size * self.method.method.queries_per_image

    def columns(self, images: int) -> int:
        """Columns of the memory that may be negatives of a query, for this number of training images."""
        return self.method.negative_columns(images, self.budget.batch_size, self.budget.queue)

    def batches(self, images: int) -> int:
        """Batches of an epoch of this number of training images; a last, smaller batch is left out."""
        return images // self.budget.batch_size
