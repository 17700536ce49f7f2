"""The oracle: negatives of other classes than the query's, by the labels."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt, Le
from jaxtyping import Float
from torch import Tensor

from annulus.negatives.by_cluster import cave
from annulus.negatives.by_rank import Count
from annulus.negatives.clusters import Clusters
from annulus.negatives.own import SelfIndex
from annulus.negatives.random_numbers import Random
from annulus.negatives.ranks import kept_shares
from annulus.negatives.samplers import Sampler
from annulus.negatives.selection import Selection


@dataclass(frozen=True)
class OtherClass(Sampler):
    """Negatives of other classes than the query's, from the closest share `outer` of the memory.

    It reads the labels, so training with it is supervised. It is the oracle of samplers: every negative is a true one.
    Annealing moves the ball; the classes apply from the first step on. An empty place of a queue counts as another
    class.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> contrast = annulus.ContrastConfig(annulus.negatives.OtherClass(outer=1.0), negatives=64)
    >>> method = annulus.IR.create(network, images=100, dim=16, contrast=contrast)
    >>> method.set_classes(torch.arange(100) % 10)  # the label of each training image
    >>> method.loss([torch.rand(8, 3, 8, 8)], torch.arange(8)).estimate.ceiling_nats  # log 65
    tensor(4.1744)
    """

    outer: Annotated[float, Gt(0), Le(1)]
    clustering: ClassVar[Literal["classes"]] = "classes"

    @property
    def shares(self) -> tuple[float, float]:
        return 0.0, self.outer

    def draw(
        self,
        scores: Float[Tensor, "b n"],
        self_index: SelfIndex,
        k: Count,
        generator: Random,
        progress: float = 1.0,
        clusters: Clusters | None = None,
    ) -> Selection:
        """Draws negatives by the classes of the columns and the queries; `progress` anneals the ball."""
        _, outer = kept_shares(self.shares, progress)
        return cave(scores, self_index, outer, clusters, k, generator, own="class")
