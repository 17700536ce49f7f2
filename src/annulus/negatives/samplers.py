"""Samplers: settings of a set of negatives. They draw from the set, and anneal to it from all other columns."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt, Le
from jaxtyping import Float
from torch import Tensor

from annulus.errors import InputError
from annulus.negatives.by_cluster import cave
from annulus.negatives.by_rank import Count, ring, uniform
from annulus.negatives.clusters import Clustering, Clusters
from annulus.negatives.own import SelfIndex
from annulus.negatives.random_numbers import Random
from annulus.negatives.ranks import kept_shares
from annulus.negatives.scores import Scores
from annulus.negatives.selection import Selection
from annulus.settings import ClusterCount, Repeats, Section, Share, Steps


class Sampler(Section):
    """Base class of samplers: a frozen dataclass of settings. By default it draws from the ranks `shares`.

    Your own `draw` composes `ring`, `cave`, `draw_weighted` and `fractions` of annulus.negatives, and passes
    `generator` to them. For k "all" it returns its set if all columns of the set are equally likely, else it raises
    InputError. `self_index` holds the query's own columns.

    A sampler that needs the image of each column has the class attribute `clustering = "images"`: each image is then a
    cluster. So `clusters.columns[0]` holds the number of each column's image (-1 for an empty place of a queue), and
    `clusters.queries[0]` the number of each query's image. With `clustering = "classes"`, they hold the classes, for
    which a loop of your own calls `METHOD.set_classes(labels)`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class OtherVideo(annulus.negatives.Sampler):  # the closest share, but of another video: images 0 to 9, 10 to 19
    ...     outer: float
    ...     clustering = "images"
    ...
    ...     @property
    ...     def shares(self):
    ...         return 0.0, self.outer
    ...
    ...     def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
    ...         videos = annulus.negatives.Clusters(clusters.columns // 10, clusters.queries // 10)  # -1 stays -1
    ...         return annulus.negatives.cave(scores, self_index, self.outer, videos, k, generator)
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> contrast = annulus.ContrastConfig(OtherVideo(outer=0.5), negatives=64)
    >>> method = annulus.IR.create(network, images=100, dim=16, contrast=contrast)
    >>> method.loss([torch.rand(8, 3, 8, 8)], torch.arange(8)).estimate.ceiling_nats  # log 65
    tensor(4.1744)
    """

    @property
    def shares(self) -> tuple[float, float]:
        """(inner, outer) border of the set, as shares of the memory, closest first; by default the whole memory."""
        return 0.0, 1.0

    @property
    def clustering(self) -> Clustering | Literal["images", "classes"] | None:
        """Settings of the clustering; "images", "classes": each of these is a cluster; None: no clusters are needed."""
        return None

    def uses_all_columns(self, progress: float) -> bool:
        """Returns True if the set is all other columns, so that `draw` reads only the shape of the scores."""
        return type(self).draw is Sampler.draw and kept_shares(self.shares, progress) == (0.0, 1.0)

    def draw(
        self,
        scores: Float[Tensor, "b n"],
        self_index: SelfIndex,
        k: Count,
        generator: Random,
        progress: float = 1.0,
        clusters: Clusters | None = None,
    ) -> Selection:
        """Draws negatives; `progress` in [0, 1] anneals from all other columns to the sampler's set.

        Raises:
            InputError: if a set is empty.
        """
        return ring(scores, self_index, *kept_shares(self.shares, progress), k, generator)

    def synthetic(
        self, scores: Scores, self_index: SelfIndex, generator: Random, progress: float
    ) -> Float[Tensor, "b s"] | None:
        """Scores of further negatives beside the columns, with gradient; None without such."""
        return None


@dataclass(frozen=True)
class Uniform(Sampler):
    """`uniform`: negatives from the whole memory.

    >>> annulus.negatives.Uniform().shares
    (0.0, 1.0)
    """

    shares = 0.0, 1.0


@dataclass(frozen=True)
class Ball(Sampler):
    """`ball`: negatives from the closest share of the memory, of ranks [0, outer).

    >>> annulus.negatives.Ball(outer=0.1).shares
    (0.0, 0.1)
    """

    outer: Annotated[float, Gt(0), Le(1)]

    @property
    def shares(self) -> tuple[float, float]:
        return 0.0, self.outer


@dataclass(frozen=True, kw_only=True)
class Ring(Sampler):
    """`ring`: negatives of ranks [inner, outer), as shares of the memory, closest first.

    Raises:
        InputError: if no rank lies between the borders.

    >>> ring, random = annulus.negatives.Ring(inner=0.1, outer=0.3), torch.Generator().manual_seed(0)
    >>> scores = torch.arange(100.0).flip(0)[None]  # column i has rank i
    >>> drawn = ring.draw(scores, None, k=1000, generator=random)
    >>> drawn.index.aminmax()
    torch.return_types.aminmax(
    min=tensor(10),
    max=tensor(29))
    """

    outer: Annotated[float, Gt(0), Le(1)]
    inner: Share  # closer rows may share the query's class

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner >= self.outer:
            raise InputError(f"ring needs inner < outer, got inner={self.inner}, outer={self.outer}")

    @property
    def shares(self) -> tuple[float, float]:
        return self.inner, self.outer


@dataclass(frozen=True, kw_only=True)
class Cave(Sampler):
    """`cave`: the ball without the query's k-means cluster (keep: outside), or only its part in that cluster (inside).

    Annealing moves the ball; the clusters apply in full from its first step on. `runs`: number of independent
    clusterings; the query's clusters are united.

    >>> cave = annulus.negatives.Cave(outer=0.5, clusters=10, runs=1, iterations=10, keep="outside")
    >>> config = annulus.ContrastConfig(cave, negatives=64)

    In your own loop, known groups can replace the clusters, also with a queue. In this example negatives come from
    other videos than the query's. The groups stay until the loop calls `before_epoch`.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> method = annulus.MoCo.create(network, images=100, dim=16, queue=64, contrast=config)
    >>> _ = method.contrasts[0].clusters.copy_(torch.arange(100) // 10)  # the video of each image
    >>> method.loss([torch.rand(8, 3, 8, 8), torch.rand(8, 3, 8, 8)], torch.arange(8)).estimate.ceiling_nats  # log 65
    tensor(4.1744)
    """

    outer: Annotated[float, Gt(0), Le(1)]
    clusters: ClusterCount
    runs: Repeats
    iterations: Steps
    keep: Literal["outside", "inside"]

    @property
    def shares(self) -> tuple[float, float]:
        return 0.0, self.outer

    @property
    def clustering(self) -> Clustering:
        return Clustering(self.clusters, self.iterations, self.runs)

    def draw(
        self,
        scores: Float[Tensor, "b n"],
        self_index: SelfIndex,
        k: Count,
        generator: Random,
        progress: float = 1.0,
        clusters: Clusters | None = None,
    ) -> Selection:
        """Draws negatives by the clusters of the columns and the queries; `progress` anneals the ball."""
        if progress == 0:
            return uniform(scores, self_index, k, generator)
        _, outer = kept_shares(self.shares, progress)
        return cave(scores, self_index, outer, clusters, k, generator, self.keep)
