"""Queries against one memory: their negatives, their further positives, and the bound of their scores.

All inputs are scores (b, n) of queries against the columns of a memory: a bank, a queue, or the batch.
"""

import logging
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.bounds.bound import Estimate
from annulus.device.checks import check, require_range
from annulus.device.rng import DrawingOnDevice, derive
from annulus.errors import InputError
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.negatives.by_rank import check_numbers
from annulus.negatives.clusters import Clustering, Clusters, kmeans
from annulus.negatives.neighbours import NearestRow
from annulus.negatives.own import SelfIndex
from annulus.negatives.random_numbers import Shared
from annulus.negatives.scores import Scores, StoredScores
from annulus.negatives.selection import Selection, gather
from annulus.settings import Done, check_value

log = logging.getLogger("annulus")

ColumnImages = Int[Tensor, "n"] | Int[Tensor, "b n"] | None
# Limit of the share of columns that are closer than a query's positive. In the linear probe, runs with 2 % (CIFAR-10)
# lost nothing by neighbours, runs with 4 to 9 % (shapes) lost a fifth, and runs with 33 % lost nearly all.
CLOSE = 0.03


class Contrast(DrawingOnDevice):
    """Queries against one memory: draws negatives, finds further positives, evaluates the bound.

    A module: it holds the random state of the draws, the clusters, and the bound's own state.

    Each of several processes computes the estimate of its own queries against the whole memory. The objective is the
    mean over the processes.

    >>> config = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.01, outer=0.5), negatives=15)
    >>> contrast = annulus.Contrast(config, images=100, seed=0, device=torch.device("cpu"))
    >>> index, scores = torch.arange(8), torch.zeros(8, 100)
    >>> contrast(scores, index, self_index=index).loss  # log 16
    tensor(2.7726)
    """

    def __init__(
        self,
        config: ContrastConfig,
        images: int,
        seed: int,
        device: torch.device,
        name: str = "",
        views: int = 1,
        temperature: float | None = None,
    ) -> None:
        """`images`: size of the training set. `name` distinguishes two memories of one method.

        `views`: queries of each image in a batch; a batch holds the first view of all images, then the next view.
        `temperature`: divisor of the similarities, for the losses that need it (DCL with a sigma, HCL).
        """
        if not isinstance(config, ContrastConfig):
            raise InputError(f"config is a {type(config).__name__}; give annulus.ContrastConfig(SAMPLER, ...)")
        super().__init__(seed, "negatives", name, device=device)
        self.config, self.seed, self.name, self.views = config, seed, name, views
        bound = config.bound if temperature is None else config.bound.at(temperature)
        self.bound = bound.begin()  # a bound may keep an estimate of its own for each memory
        self._had_neighbours = False  # limits the check to their first step, also in a resumed run
        self._clustered = False  # True after `_check_clusters` has passed
        self.images = images
        for buffer, clustering in self._clusterings():
            runs = clustering.runs if isinstance(clustering, Clustering) else int(clustering == "classes")
            first = torch.full((runs, images), -1, dtype=torch.int32)  # -1: not in a cluster yet
            self.register_buffer(buffer, torch.arange(images)[None] if clustering == "images" else first)

    def get_extra_state(self) -> dict[str, Any]:
        return super().get_extra_state() | {"had_neighbours": self._had_neighbours}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self._had_neighbours = state.get("had_neighbours", False)  # older states lack it

    @property
    def needs_clusters(self) -> bool:
        """True if `cluster` must be called before each epoch."""
        return any(isinstance(clustering, Clustering) for _, clustering in self._clusterings())

    @property
    def reads_images(self) -> bool:
        """True if the numbers of the training images choose negatives or neighbours, by clusters."""
        return any(clustering is not None for _, clustering in self._clusterings())

    def set_classes(self, labels: Int[Tensor, "images"]) -> None:
        """Sets the class of each training image, for samplers and neighbours of classes.

        Raises:
            InputError: unless there is a whole number, 0 or more, for each training image.
        """
        whole = isinstance(labels, Tensor) and labels.dtype in (torch.int32, torch.int64)
        if not whole or labels.shape != (self.images,) or (labels < 0).any():
            kind = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
            raise InputError(f"labels are {kind}, or below 0; give a class ({self.images},) for each training image")
        for buffer, clustering in self._clusterings():
            if clustering == "classes":
                getattr(self, buffer).copy_(labels)

    def cluster(self, embeddings: Float[Tensor, "images d"], epoch: int) -> None:
        """Clusters the training images anew, by the settings of the sampler and of the neighbours.

        Raises:
            InputError: unless there is a vector of finite numbers for each training image.
        """
        floats = isinstance(embeddings, Tensor) and embeddings.is_floating_point() and embeddings.ndim == 2
        if not floats or len(embeddings) != self.images or not embeddings.isfinite().all():
            kind = tuple(embeddings.shape) if isinstance(embeddings, Tensor) else type(embeddings).__name__
            raise InputError(
                f"embeddings to cluster are {kind}, or not finite; give finite floats ({self.images}, d): of "
                "all training images, in the order of their numbers"
            )
        for buffer, clustering in self._clusterings():
            if isinstance(clustering, Clustering):
                seed = derive(self.seed, "clusters", self.name, epoch)
                setattr(self, buffer, kmeans(embeddings, *clustering, seed))

    def forward(
        self,
        scores: Float[Tensor, "b n"] | Scores,
        index: Int[Tensor, "b"],
        progress: Progress = END,
        self_index: SelfIndex = None,
        positive: Float[Tensor, "b"] | None = None,
        column_images: ColumnImages = None,
    ) -> Estimate:
        """Computes the estimate of queries `index` (their rows among the training images) from their scores.

        Scores are similarities divided by the temperature. `self_index`: the columns of a query's own image
        (`annulus.negatives.own`), which are never negatives. `positive`: the score of the positive; by default the
        score of column `self_index`, and each query then has one such column.
        `column_images`: the training image of each column, -1 where there is none yet; by default column i is image i.

        Raises:
            InputError: without a positive; for progress outside [0, 1]; for input that sampler or bound reject.
        """
        _check_inputs(scores, index, progress, self_index, positive)
        self._check_clusters()
        scores = StoredScores(scores) if isinstance(scores, Tensor) else scores
        if progress.temperature != 1:
            scores = scores.divided(progress.temperature)
            positive = None if positive is None else positive / progress.temperature
        sampler, random = self.config.sampler, Shared(self.generator, self.views)
        blind = self.config.neighbours is None and sampler.uses_all_columns(progress.annealing)
        similarity = scores.unread if blind else scores.table
        clusters = self._clusters("clusters", index, column_images, similarity.shape)
        neighbours = self._neighbours(scores, index, self_index, positive, column_images, progress.training)
        replaced = neighbours is not None and self._replaces_positive
        # Neither the query's own row nor the one that replaces it is a negative.
        own = torch.cat([self_index[:, None], neighbours.index], dim=1) if replaced else self_index
        negatives = sampler.draw(similarity, own, self.config.negatives, random, progress.annealing, clusters)
        synthetic = sampler.synthetic(scores, own, random, progress.annealing)

        among = self.bound.neighbours == "among negatives"
        selected = [] if neighbours is None or among else [neighbours]
        if positive is None and not replaced:
            selected.insert(0, Selection(self_index[:, None]))
        *positives, drawn = gather(scores, *selected, negatives)
        if blind:
            check_numbers(drawn)
        if positive is not None:
            positives.insert(0, positive[:, None])
        if among:
            positives.append(drawn.masked_fill(~_shared(negatives, neighbours, similarity), -torch.inf))
        candidates = positives[0] if len(positives) == 1 else torch.cat(positives, dim=1)
        counts = negatives.counts(similarity)
        if synthetic is not None:
            drawn, counts = torch.cat([drawn, synthetic], dim=1), counts + synthetic.shape[1]
        in_denominator = among or self.config.neighbours is None or self.config.neighbours.in_denominator
        return self.bound.estimate(candidates, drawn, progress.training, counts, lambda: scores.table, in_denominator)

    @property
    def _replaces_positive(self) -> bool:
        return isinstance(self.config.neighbours, NearestRow)

    def _neighbours(
        self,
        scores: Scores,
        index: Int[Tensor, "b"],
        self_index: SelfIndex,
        positive: Float[Tensor, "b"] | None,
        column_images: ColumnImages,
        training: float,
    ) -> Selection | None:
        """Further positives, or the row that replaces the positive; None when there are none yet.

        Raises:
            InputError: if the positive is to be replaced, and is not a row of the memory.
        """
        if self.config.neighbours is None:
            return None
        if self._replaces_positive and positive is not None:
            raise InputError("neighbours: nearest replace the row of an image, and here a key is the positive; take IR")
        # A row that replaces the positive is close to the query's own row; other neighbours are close to the query.
        similarity = scores.between(self_index) if self._replaces_positive else scores.table
        clusters = self._clusters("neighbour_clusters", index, column_images, similarity.shape)
        neighbours = self.config.neighbours.find(similarity, self_index, training, clusters)
        if neighbours is not None and not self._replaces_positive and not self._had_neighbours:
            self._had_neighbours = True
            self._check_rank(similarity, similarity.gather(1, self_index[:, None]) if positive is None else positive)
        return neighbours

    def _check_clusters(self) -> None:
        """Checks that the images are in clusters, if clusters are needed.

        Raises:
            InputError: if a clustering has no image in a cluster.
        """
        if self._clustered:  # the check below waits for a GPU, once
            return
        missing = [of for buffer, of in self._clusterings() if of and bool(getattr(self, buffer).amax() < 0)]
        if "classes" in missing:
            raise InputError(
                f"{type(self.config.sampler).__name__} or the neighbours need the class of each training image; call "
                "the method's set_classes(labels) once, or take a sampler and neighbours that need no labels"
            )
        if missing:
            raise InputError(
                f"{type(self.config.sampler).__name__} or the neighbours need clusters of the training images; call "
                "the method's before_epoch(epoch, embed) before each epoch, with embed() the embeddings of all of them "
                "(of a Contrast alone, cluster(embeddings, epoch))"
            )
        self._clustered = True

    def _check_rank(self, scores: Float[Tensor, "b n"], positive: Float[Tensor, "..."]) -> None:
        """Warns if neighbours begin while more than the share CLOSE of the rows is closer than the positive."""
        columns = scores.shape[1]

        def warn(closer: float) -> None:
            if closer > CLOSE * columns:
                log.warning(
                    "neighbours begin now, and %d of %d rows are closer to a query than its own row (median of a "
                    "batch): what counts as a neighbour is closer than the image itself, which the encoder then "
                    "forgets; raise their `start`, so that they begin when fewer than %g %% are closer",
                    *(closer, columns, 100 * CLOSE),
                )

        check((scores > positive.detach().view(-1, 1)).sum(dim=1).median(), warn)

    def _clusters(
        self, buffer: str, index: Int[Tensor, "b"], column_images: ColumnImages, shape: torch.Size
    ) -> Clusters | None:
        """The clusters of columns and queries, by their images.

        Raises:
            InputError: for an image outside the training set, or another number of images than the scores' `shape`.
        """
        image_clusters = getattr(self, buffer)
        if len(image_clusters) == 0:
            return None
        images = self.images if column_images is None else getattr(column_images, "shape", [-1])[-1]
        if shape != (len(index), images):
            raise InputError(
                f"scores of shape {tuple(shape)} for {len(index)} queries and columns of {images} images; give a row "
                "for each query, and with `column_images`, a tensor, the image of each column"
            )
        require_range("index", index, 0, self.images, f"give numbers of the {self.images} training images")
        if column_images is None:
            return Clusters(image_clusters, image_clusters[:, index])
        expected = f"give numbers of the {self.images} training images, or -1"
        require_range("column_images", column_images, -1, self.images, expected)
        column_clusters = image_clusters[:, column_images.clamp_min(0)]
        return Clusters(column_clusters.where(column_images >= 0, -1), image_clusters[:, index])

    def _clusterings(self) -> list[tuple[str, Clustering | Literal["images", "classes"] | None]]:
        """Names of the buffers that hold clusters, and their settings; `cluster` does not change images and classes."""
        sampler, neighbours = self.config.sampler, self.config.neighbours
        return [
            ("clusters", sampler.clustering),
            ("neighbour_clusters", None if neighbours is None else neighbours.clustering),
        ]


def _check_inputs(
    scores: Float[Tensor, "b n"] | Scores,
    index: Int[Tensor, "b"],
    progress: Progress,
    self_index: SelfIndex,
    positive: Float[Tensor, "b"] | None,
) -> None:
    """Checks types and shapes of what a contrast gets.

    Raises:
        InputError: for a wrong type or shape, without a positive, and for progress outside [0, 1].
    """
    for name, given in (("index", index), ("self_index", self_index), ("positive", positive)):
        if not isinstance(given, Tensor) and (given is not None or name == "index"):
            raise InputError(f"{name} is a {type(given).__name__}; give a tensor")
    if index.dtype not in (torch.int32, torch.int64) or index.ndim != 1:
        raise InputError(f"index is {index.dtype} of {index.ndim} axes; give whole numbers, one for each query")
    if not isinstance(scores, Tensor | Scores):
        raise InputError(f"scores are a {type(scores).__name__}; give a tensor, a row per query")
    if not isinstance(progress, Progress):
        raise InputError(f"progress is a {type(progress).__name__}; give annulus.Progress(training, annealing)")
    check_value("training (the share that is done)", progress.training, Done)
    if positive is not None and positive.shape != index.shape:
        raise InputError(f"positive of shape {tuple(positive.shape)}: give a score for each of {len(index)} queries")
    if positive is None and getattr(self_index, "ndim", None) != 1:
        raise InputError("no positive: give `positive`, its score, or `self_index`, the column of the query's row")


def _shared(negatives: Selection, neighbours: Selection | None, scores: Float[Tensor, "b n"]) -> Bool[Tensor, "b k"]:
    """Mask of the negatives that are neighbours too."""
    marked = torch.zeros_like(scores, dtype=torch.bool) if neighbours is None else neighbours.marked(scores)
    return marked if negatives.index is None else marked.gather(1, negatives.index)
