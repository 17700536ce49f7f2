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
    networks: ClassVar = 1  # 2 with a slow copy that gives the keys
    keeps_bank: ClassVar = False  # a row for each image

    temperature: Temperature
    negatives: Literal["sampled", "all"]  # K of the sampler's set, with replacement, or the whole set
    embedding_dim: Width
    warmup: Share  # of training, over which the learning rate rises in a line from zero

    @property
    def norm_groups(self) -> int:
        """Parts of a batch that are normalised apart."""
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
    epoch_images: int  # that an epoch shows: whole batches
    queue: int  # keys, where a method keeps a queue
    seed: int
    device: torch.device
    own_views: bool = False  # of several processes each brings its own images' views, whatever a shuffling wants
    keys_per_image: int | None = None  # the most keys of one image in a queue; None: what such epochs make


@dataclass(frozen=True)
class Step:
    """The estimate whose loss is minimised, its queries, the embeddings that `after_step` stores, and pooled features.

    Of several processes each has the estimate of its own queries, and all have the embeddings of the whole batch.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> method = annulus.SimCLR.create(network, images=100, dim=16)
    >>> step = method.loss([torch.rand(8, 3, 8, 8), torch.rand(8, 3, 8, 8)], torch.arange(8))
    >>> step.estimate.ceiling_nats  # log 15: the other view among it and the 14 of other images
    tensor(2.7081)
    """

    estimate: Estimate
    queries: Float[Tensor, "b d"]  # with gradient, once backward has run
    stored: tuple[Float[Tensor, "all d"], ...] = ()
    pooled: tuple[Float[Tensor, "b _"], ...] = ()  # features of the queries' images by each network, for probes


class Method(nn.Module):
    """Base of all methods, with the answers of a method that keeps no memory of images."""

    views: ClassVar[int] = 2  # of each image, in a step
    queries_per_image: ClassVar[int] = 1
    memory: ClassVar[Literal["bank", "queue", "batch"]] = "batch"

    def __init__(self, encoder: AnyEncoder, params: MethodSettings, setting: Setting) -> None:
        """Contrasts of a split encoder: queries of each network against the memory of the other network's keys."""
        super().__init__()
        self.encoder, self.params, self.images = encoder, params, setting.images
        # For steps: what is embedded beside them has other sizes.
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
        """The method for a loop of one's own, on the network's device.

        Raises:
            InputError: when a setting is outside its limits, or the network gives no embeddings of `dim` numbers; under
                torch.inference_mode, or for a network that was created there.
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
        # `warmup` and `head` are for who trains and who builds the encoder; a method reads neither.
        made = kind(negatives=drawn, embedding_dim=width, warmup=0.0, head="linear", **settings)
        device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
        # An epoch without its last, smaller batch shows more than half of the images, whatever the batch is.
        least = images // 2 + 1
        return cls(encoder, made, Setting(contrast, images, least, queue, seed, device, True, keys_per_image))

    def check(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"] | None) -> Int[Tensor, "all"]:
        """Checks a batch and returns its `index`; without one, where nothing is stored, the places in the batch.

        Raises:
            InputError: unless `views` are as many tensors of floats as the method sees, and `index` numbers the batch's
                images, each once where the batch holds the negatives; without an index where images are stored, or are
                in clusters.
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
        """True if something is stored of an image, or clusters of the training images choose its negatives."""
        return self.memory != "batch" or any(contrast.reads_images for contrast in self.contrasts)

    @property
    def stored_parts(self) -> Sequence[Float[Tensor, "n d"]] | None:
        """An embedding of every training image by each network, where the method stores them."""
        return None

    @property
    def stored(self) -> Float[Tensor, "n d"] | None:
        """`stored_parts`, of two networks side by side, as the encoder's own embeddings are."""
        return None if self.stored_parts is None else side_by_side(self.stored_parts)

    def embed(
        self, views: Float[Tensor, "b 3 h w"]
    ) -> tuple[tuple[Float[Tensor, "b d"], ...], tuple[Float[Tensor, "b _"], ...]]:
        """Embeddings of views by each network, and the pooled features that they were made of, without gradient.

        Raises:
            InputError: where all embeddings are 0, which have no direction and would never get a gradient.
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
        """Images that each view of this process shows, in the batches of the next `steps` steps."""
        return [[share(batch)] * self.views] * steps

    def view_sets(self, views: ViewSet) -> list[ViewSet]:
        """The set of each view that a step takes, where training has the set `views`."""
        return [views] * self.views

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Prepares the first step; `embed` returns the current embeddings of all training images."""

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Cluster the training images anew, where clusters are needed.

        `embed()` gives the embeddings (images, d) of all training images now, of two networks side by side.

        Raises:
            InputError: when `embed` cannot be called, or gives something else.
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

        A wrapper of a module sees its calls alone: DistributedDataParallel, accelerate, torch.compile, forward hooks.
        """
        return self.loss(views, index, progress)

    def loss(
        self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"] | None, progress: Progress = END
    ) -> Step:
        """The estimate of views of the images `index`; of several processes, `views` are of this one's `batch_shares`.

        `index` may be None where nothing is stored (SimCLR, SiMo) and no images are in clusters.
        """
        raise NotImplementedError

    def after_step(self, index: Int[Tensor, "all"] | None, step: Step, *, follow: bool = True) -> None:
        """Updates the memory after the optimiser's step: backward still reads the old memory.

        Where several batches make one optimiser's step, call this for each, and with `follow=False` for all but the
        last: a key encoder follows once a step.
        """

    def stored_of(self, images: Int[Tensor, "m"]) -> Float[Tensor, "m d"] | None:
        """Embeddings that are stored of these images, zeros for an image without one; None: the method stores none."""
        return None if self.stored is None else self.stored[images]


def side_by_side(parts: Sequence[Float[Tensor, "n d"]]) -> Float[Tensor, "n d2"]:
    """Several networks' unit embeddings as one unit vector; zeros stay zeros."""
    return parts[0] if len(parts) == 1 else F.normalize(torch.cat([*parts], dim=1), dim=1)
