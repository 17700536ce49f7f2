"""Result of one batch, arguments of a method, and the base of all methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.bounds.bound import Estimate
from annulus.device.checks import require, require_range
from annulus.device.compiling import compiled, replayed
from annulus.device.device import autocast
from annulus.device.distributed import world_size
from annulus.encoders.module_encoder import AnyEncoder, Pool, as_encoder
from annulus.errors import InputError, abridge
from annulus.methods.contrast import Contrast
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.settings import Section, Share, Temperature, Width
from annulus.views.batch_share import BatchShare, share
from annulus.views.settings import ViewSet


@dataclass(frozen=True, kw_only=True)
class MethodSettings(Section):
    """Settings that every method has, and values derived from them."""

    keeps_queue: ClassVar = False
    networks: ClassVar = 1  # 2 with a momentum encoder for the keys
    keeps_bank: ClassVar = False  # a row for each image

    temperature: Temperature
    negatives: Literal["sampled", "all"]  # K of the sampler's set, with replacement, or the whole set
    embedding_dim: Width
    warmup: Share  # share of training, over which the learning rate rises linearly from zero

    @property
    def norm_groups(self) -> int:
        """Parts of a batch with separate batch-norm statistics."""
        return 1

    @property
    def method(self) -> "type[Method]":
        """The class of the method."""
        raise NotImplementedError

    def negative_columns(self, images: int, batch: int, queue: int) -> int:
        """Number of the memory's columns that may be a query's negatives, given the number of training images."""
        raise NotImplementedError


class Setting(NamedTuple):
    """Arguments of a method beside its encoder and its own settings.

    >>> settings = annulus.methods.SimCLRSettings(
    ...     temperature=0.5, negatives="all", embedding_dim=16, warmup=0.0, head="linear"
    ... )
    >>> setting = annulus.methods.Setting(
    ...     annulus.ContrastConfig(), images=100, epoch_images=96, queue=0, seed=0, device=torch.device("cpu")
    ... )
    >>> encoder = annulus.ModuleEncoder(nn.Sequential(nn.Flatten(), nn.Linear(192, 16)), dim=16)
    >>> method = annulus.SimCLR(encoder, settings, setting)
    """

    contrast: ContrastConfig
    images: int  # of the training set
    epoch_images: int  # images of an epoch: whole batches
    queue: int  # its length, for methods with a queue
    seed: int
    device: torch.device
    own_views: bool = False  # each process has the views of its own images, even with shuffling
    keys_per_image: int | None = None  # largest number of keys of one image; None: `most_keys`


@dataclass(frozen=True)
class Step:
    """Result of one batch: the estimate, its queries, the embeddings that `after_step` stores, and pooled features.

    Each of several processes has the estimate of its own queries, and the embeddings of the whole batch.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> method = annulus.SimCLR.create(network, images=100, dim=16)
    >>> step = method.loss([torch.rand(8, 3, 8, 8), torch.rand(8, 3, 8, 8)], torch.arange(8))
    >>> step.estimate.ceiling_nats  # log 15: the other view and the 14 views of other images
    tensor(2.7081)
    """

    estimate: Estimate
    queries: Float[Tensor, "b d"]  # part of the graph: `retain_grad` keeps their gradient
    stored: tuple[Float[Tensor, "all d"], ...] = ()
    pooled: tuple[Float[Tensor, "b _"], ...] = ()  # features of the queries' images by each network, for probes


class Method(nn.Module):
    """Base class of methods, with the defaults of a method without a memory of images."""

    views: ClassVar[int] = 2  # of each image, in a step
    queries_per_image: ClassVar[int] = 1
    memory: ClassVar[Literal["bank", "queue", "batch"]] = "batch"

    def __init__(self, encoder: AnyEncoder, params: MethodSettings, setting: Setting) -> None:
        """Builds a contrast for each network; with a split, its queries meet the memory of the other network's keys."""
        super().__init__()
        self.encoder, self.params, self.images = encoder, params, setting.images
        # For steps alone: other embeddings have other batch sizes.
        self._seen = replayed(compiled(encoder.embeddings_and_pooled), encoder)
        common = setting.contrast, setting.images, setting.seed, setting.device
        self.contrasts = nn.ModuleList(
            Contrast(*common, name, self.queries_per_image, params.temperature) for name in encoder.names
        )

    @classmethod
    def _by_hand(
        cls,
        network: nn.Module | str,
        kind: type[MethodSettings],
        images: int,
        dim: int | None,
        contrast: ContrastConfig,
        seed: int,
        queue: int = 0,
        keys_per_image: int | None = None,
        pool: Pool | None = None,
        **settings: Any,
    ) -> Self:
        """Builds the method for the caller's own loop, on the network's device.

        Raises:
            InputError: if a setting is outside its limits, or the network does not return embeddings of `dim` numbers;
                under torch.inference_mode, or for a network that was created there.
        """
        for name, number, least in (("images", images, 1), ("seed", seed, 0), ("queue", queue, 0)):
            if not isinstance(number, Integral) or number < least:
                given = (
                    abridge(number) if isinstance(number, int | float | str | None) else f"a {type(number).__name__}"
                )
                many = "how many, such as len(images)" if name == "images" else "a whole number"
                raise InputError(f"{name} {given}: give {many}, {least} or more")
        if not isinstance(contrast, ContrastConfig):
            raise InputError(f"contrast is a {type(contrast).__name__}; give annulus.ContrastConfig(SAMPLER, ...)")
        encoder, width = as_encoder(network, dim, seed, pool)
        if torch.is_inference_mode_enabled() or any(weight.is_inference() for weight in encoder.parameters()):
            raise InputError(
                f"{cls.__name__} or its network is created under torch.inference_mode, whose tensors never learn; "
                "create both outside of it"
            )
        drawn: Literal["sampled", "all"] = "all" if contrast.negatives == "all" else "sampled"
        # The training loop reads `warmup`, and the builder of the encoder reads `head`; a method reads neither.
        made = kind(negatives=drawn, embedding_dim=width, warmup=0.0, head="linear", **settings)
        device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
        # An epoch without its last, smaller batch shows more than half of the images, for any batch size.
        least = images // 2 + 1
        return cls(encoder, made, Setting(contrast, images, least, queue, seed, device, True, keys_per_image))

    def check(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"] | None) -> Int[Tensor, "all"]:
        """Checks a batch and returns its `index`; if an index is not needed and missing, the places in the batch.

        Raises:
            InputError: unless `views` holds a float tensor for each view of the method, and `index` the number of each
                image of the batch; if an image repeats while the batch holds the negatives; if `index` is None and
                `needs_index` is True.
        """
        if not isinstance(views, Tensor | Sequence):
            raise InputError(f"views are a {type(views).__name__}; {type(self).__name__} takes a list of {self.views}")
        kinds = {type(view).__name__ for view in views if not isinstance(view, Tensor)}
        if isinstance(views, Tensor) or len(views) < self.views or kinds:
            given = (
                "a tensor" if isinstance(views, Tensor) else f"{len(views)} {' and '.join(sorted(kinds)) or 'tensors'}"
            )
            raise InputError(
                f"views are {given}; {type(self).__name__} takes a list of {self.views}, each a view of the same "
                "images, a tensor"
            )
        types = [str(view.dtype).removeprefix("torch.") for view in views[: self.views] if not view.is_floating_point()]
        if types:
            raise InputError(f"views are {' and '.join(types)}; give floats in [0, 1], such as images.float() / 255")
        anonymous = index is None and not self.needs_index
        if anonymous:
            index = torch.arange(len(views[0]) * world_size(), device=views[0].device)
        elif not isinstance(index, Tensor) or index.dtype not in (torch.int32, torch.int64) or index.ndim != 1:
            kind = f"{index.dtype} of {index.ndim} axes" if isinstance(index, Tensor) else f"a {type(index).__name__}"
            raise InputError(f"index is {kind}; give the images' numbers among the training images, a tensor (batch,)")
        batches, least = [len(view) * world_size() for view in views[: self.views]], 2 if self.memory == "batch" else 1
        if {*batches} != {len(index)} or len(index) < least:
            ranks = f" of all {world_size()} processes" if world_size() > 1 else ""
            raise InputError(
                f"views of {' and '.join(map(str, batches))} images{ranks}, index of {len(index)}: give each image of "
                f"the batch its views and its number, {least} or more images"
                + ("; index is of the whole batch, in rank order, by torch.distributed.all_gather" if ranks else "")
            )
        if anonymous:
            return index
        expected = f"number the training images from 0 to {self.images - 1}"
        require_range("index", index, 0, self.images, expected)
        if self.memory == "batch":
            require(
                lambda: (index.sort().values.diff() > 0).all(),
                index.device,
                lambda: f"index holds image {index.mode().values} {(index == index.mode().values).sum()} times",
                f"negatives of {type(self).__name__} are the batch's other images: draw a batch without replacement",
            )
        return index

    @property
    def needs_index(self) -> bool:
        """True if the method stores embeddings, or clusters of the training images choose negatives or neighbours."""
        return self.memory != "batch" or any(contrast.reads_images for contrast in self.contrasts)

    @property
    def stored_parts(self) -> Sequence[Float[Tensor, "n d"]] | None:
        """The stored embeddings of all training images, by network; None if the method does not store them."""
        return None

    @property
    def stored(self) -> Float[Tensor, "n d"] | None:
        """`stored_parts` as one tensor; two networks' are side by side, as in the encoder's own embeddings."""
        return None if self.stored_parts is None else side_by_side(self.stored_parts)

    def embed(
        self, views: Float[Tensor, "b 3 h w"]
    ) -> tuple[tuple[Float[Tensor, "b d"], ...], tuple[Float[Tensor, "b _"], ...]]:
        """Computes embeddings of views by each network, and the pooled features before the head, without gradient.

        Raises:
            InputError: if all embeddings are 0: they have no direction and would never get a gradient.
        """
        with autocast(views.device):
            outputs = self._seen(views)
        embeddings = outputs[: len(self.contrasts)]
        require(
            lambda: torch.stack([embedding.detach().any() for embedding in embeddings]).all(),
            views.device,
            lambda: f"the encoder gives 0 for all {len(views)} views, which no step would change",
            "give its last layer other weights (torchvision's VisionTransformer starts its heads with zeros)",
        )
        return embeddings, outputs[len(self.contrasts) :]

    def batch_shares(self, batch: int, steps: int) -> list[list[BatchShare]]:
        """Shares of the batches of the next `steps` steps: for each view, the images that this process computes."""
        return [[share(batch)] * self.views] * steps

    def view_sets(self, views: ViewSet) -> list[ViewSet]:
        """Returns the set of each view of a step; `views` is the set of the training."""
        return [views] * self.views

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Prepares the first step; `embed` returns the current embeddings of all training images."""

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Clusters the training images anew, if clusters are needed.

        `embed()` returns the current embeddings (images, d) of all training images, of two networks side by side.

        Raises:
            InputError: if `embed` cannot be called, or returns something else.
        """
        if not callable(embed):
            raise InputError(f"embed is a {type(embed).__name__}; give a function of the embeddings of all images")
        if self.contrasts[0].needs_clusters:
            parts = self.stored_parts or self._parts(embed())
            for contrast, part in zip(self.contrasts, reversed(parts), strict=True):
                contrast.cluster(part, epoch)

    def set_classes(self, labels: Int[Tensor, "images"]) -> None:
        """Sets the class of each training image, for samplers and neighbours of classes: an oracle, or SupCon.

        Raises:
            InputError: unless there is a whole number, 0 or more, for each training image.
        """
        for contrast in self.contrasts:
            contrast.set_classes(labels)

    def _parts(self, embeddings: Float[Tensor, "images d"]) -> Sequence[Float[Tensor, "images e"]]:
        if not isinstance(embeddings, Tensor) or embeddings.ndim != 2:
            kind = tuple(embeddings.shape) if isinstance(embeddings, Tensor) else type(embeddings).__name__
            raise InputError(f"embed() gives {kind}; give the embeddings ({self.images}, d) of all training images")
        return embeddings.chunk(len(self.contrasts), dim=1)

    def forward(
        self,
        views: Sequence[Float[Tensor, "b 3 h w"]],
        index: Int[Tensor, "all"] | None = None,
        progress: Progress = END,
    ) -> Step:
        """Returns `loss(views, index, progress)`.

        DistributedDataParallel, accelerate, torch.compile and forward hooks act on the calls of a module alone.
        """
        return self.loss(views, index, progress)

    def loss(
        self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"] | None, progress: Progress = END
    ) -> Step:
        """Computes the step of views of the images `index`; `views` show this process's `batch_shares`.

        `index` may be None unless `needs_index`: for SimCLR and SiMo without clusters.
        """
        raise NotImplementedError

    def after_step(self, index: Int[Tensor, "all"] | None, step: Step, *, follow: bool = True) -> None:
        """Updates the memory after the optimiser's step: backward still reads the old memory.

        If several batches share an optimiser's step, call this for each of them, with `follow=False` except for the
        last: a key encoder moves once a step.
        """

    def stored_embeddings(self, images: Int[Tensor, "m"]) -> Float[Tensor, "m d"] | None:
        """Returns the stored embeddings of these images, zeros for one without; None if the method stores none."""
        return None if self.stored is None else self.stored[images]


def side_by_side(parts: Sequence[Float[Tensor, "n d"]]) -> Float[Tensor, "n d2"]:
    """Joins several networks' unit embeddings to one unit vector; zeros stay zeros."""
    return parts[0] if len(parts) == 1 else F.normalize(torch.cat([*parts], dim=1), dim=1)
