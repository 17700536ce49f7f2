"""What params.yaml may hold, as strict, frozen models; params_file reads it, before any stage works.

Values live in params.yaml alone; no model carries a default. A stage names what it reads by the same
strings as dvc.yaml (`samplers.${sampler}`), so a test can compare the two.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from annulus.errors import InputError

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[\w-]+$")]  # a dot would look like a deeper key


class Params(BaseModel):
    """A section of params.yaml: unknown keys refused, types not coerced, never edited."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


# --- images -------------------------------------------------------------------------------------------


class DatasetParams(Params):
    """What every image set has: stored and seen size in pixels a side, and the validation part."""

    image_size: int = Field(ge=8, le=1024)
    view_size: int = Field(ge=8, le=1024)
    validation_fraction: float = Field(ge=0, le=0.5)

    @model_validator(mode="after")
    def _view_fits(self) -> Self:
        if self.view_size > self.image_size:
            raise ValueError(
                f"view_size {self.view_size} is larger than image_size {self.image_size}; "
                "store larger images or take smaller views"
            )
        return self


class ShapesParams(DatasetParams):
    """Generated images: nothing to download."""


class DownloadParams(DatasetParams):
    """A torchvision set, downloaded into `root` on first use."""

    root: str


class FolderParams(DownloadParams):
    """Images under root/train/CLASS/* and root/test/CLASS/*."""

    max_bad_files: int = Field(ge=0)


class Datasets(Params):
    shapes: ShapesParams
    folder: FolderParams
    cifar10: DownloadParams
    cifar100: DownloadParams
    stl10: DownloadParams


# --- views --------------------------------------------------------------------------------------------


class CropParams(Params):
    """Random resized crop: share of the area, and width over height."""

    scale_min: float = Field(gt=0, le=1)
    scale_max: float = Field(gt=0, le=1)
    ratio_min: Positive
    ratio_max: Positive

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for low, high in (("scale_min", "scale_max"), ("ratio_min", "ratio_max")):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"needs {low} <= {high}, got {getattr(self, low)} and {getattr(self, high)}")
        return self


class JitterParams(Params):
    """Colour jitter with torchvision's meaning: factors in [1 - x, 1 + x], hue in [-x, x] turns."""

    probability: Fraction
    brightness: float = Field(ge=0)
    contrast: float = Field(ge=0)
    saturation: float = Field(ge=0)
    hue: float = Field(ge=0, le=0.5)


class BlurParams(Params):
    """Gaussian blur; sigma in pixels, uniform between the two."""

    probability: Fraction
    sigma_min: Positive
    sigma_max: Positive

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.sigma_min > self.sigma_max:
            raise ValueError(f"needs sigma_min <= sigma_max, got {self.sigma_min} and {self.sigma_max}")
        return self


class ViewSetParams(Params):
    """Which augmentations make a view; null or probability 0 leaves one out."""

    crop: CropParams | None
    flip: Fraction
    jitter: JitterParams | None
    grayscale: Fraction
    blur: BlurParams | None


# --- encoder ------------------------------------------------------------------------------------------


class BackboneParams(Params):
    architecture: Literal["resnet18", "resnet34", "resnet50", "alexnet"]
    stem: Literal["imagenet", "cifar"]


# --- negatives, bound, method -------------------------------------------------------------------------


class UniformParams(Params):
    """Negatives from the whole memory."""


class BallParams(Params):
    """Negatives from the closest share of the memory: ranks [0, outer)."""

    outer: float = Field(gt=0, le=1)


class RingParams(BallParams):
    """Negatives from ranks [inner, outer), as fractions of the memory, closest first."""

    inner: float = Field(ge=0, lt=1)  # closer rows may share the query's class

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.inner >= self.outer:
            raise ValueError(f"ring needs inner < outer, got inner={self.inner}, outer={self.outer}")
        return self


class CaveParams(BallParams):
    """The ball without the query's k-means cluster (keep: outside), or with nothing but it (inside)."""

    clusters: int = Field(ge=2)
    runs: Count  # independent clusterings; their own clusters are united
    iterations: Count
    keep: Literal["outside", "inside"]


SamplerParams = UniformParams | BallParams | RingParams | CaveParams


class Samplers(Params):
    uniform: UniformParams
    ball: BallParams
    ring: RingParams
    cave: CaveParams


class ConstantAnneal(Params):
    """The sampler's own set from the start."""


class LinearAnneal(Params):
    """From the whole memory to the sampler's set, in a straight line over this share of training."""

    until: float = Field(gt=0, le=1)


class StepAnneal(LinearAnneal):
    """The same in equal steps."""

    steps: int = Field(ge=1)


class AdaptiveEpochAnneal(Params):
    """One `delta` of the way further each epoch whose validation accuracy beats the window's mean."""

    delta: float = Field(gt=0, le=1)
    window: Count


class AdaptiveStepAnneal(AdaptiveEpochAnneal):
    """One `delta` of the way further each step whose training loss is below the window's mean."""


AnnealParams = ConstantAnneal | LinearAnneal | StepAnneal | AdaptiveEpochAnneal | AdaptiveStepAnneal


class Anneals(Params):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    none: ConstantAnneal
    linear: LinearAnneal
    step: StepAnneal
    adaptive_epoch: AdaptiveEpochAnneal
    adaptive_step: AdaptiveStepAnneal


class InfoNCEParams(Params):
    """Denominator of the positive and K negatives."""


class Bounds(Params):
    infonce: InfoNCEParams


class IRParams(Params):
    """Instance discrimination: one encoder and a memory bank."""

    temperature: Positive
    bank_rate: float = Field(ge=0, lt=1)  # share of the old row that an update keeps
    bank_start: Literal["encoder", "random"]  # rows before the first step: untrained embeddings, or random
    embedding_dim: Count
    head: Literal["linear", "mlp"]


class Methods(Params):
    ir: IRParams


# --- training and probes ------------------------------------------------------------------------------


class OptimizerParams(Params):
    """SGD. warmup: share of training over which the rate rises in a line from zero."""

    momentum: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    warmup: float = Field(ge=0, lt=1)


class ConstantSchedule(Params):
    """The rate stays."""


class CosineSchedule(Params):
    """The rate falls to zero along half a cosine."""


class MilestoneSchedule(Params):
    """The rate is multiplied by `factor` at each share of training."""

    at: list[Annotated[float, Field(gt=0, lt=1)]]
    factor: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.at != sorted(set(self.at)):
            raise ValueError(f"milestones must rise, got {self.at}")
        return self


class PlateauSchedule(Params):
    """The rate is multiplied by `factor` when validation has not risen for `patience` epochs."""

    patience: Count
    factor: float = Field(gt=0, lt=1)
    drops: Count


ScheduleParams = ConstantSchedule | CosineSchedule | MilestoneSchedule | PlateauSchedule


class Schedules(Params):
    constant: ConstantSchedule
    cosine: CosineSchedule
    milestones: MilestoneSchedule
    plateau: PlateauSchedule


class KnnParams(Params):
    k: Count
    temperature: Positive
    layer: Literal["pooled", "embedding"]


class LinearParams(Params):
    """Logistic regression on frozen features. patience, drops: the rate falls tenfold on a plateau."""

    inputs: Literal["features", "views"]
    layer: Literal["pooled", "map"]
    momentum: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    patience: Count | None
    drops: int = Field(ge=0)

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.patience is None) != (self.drops == 0):
            raise ValueError(
                f"patience {self.patience} and drops {self.drops} go together; "
                "give both, or patience: null and drops: 0"
            )
        return self


class PrepareScale(Params):
    """How many images a split may hold; null: all. A smaller part is drawn evenly over the classes."""

    train_images: Count | None
    test_images: Count | None


class PretrainScale(Params):
    epochs: Count
    batch_size: int = Field(ge=2)
    negatives: Count | Literal["all"]  # K; all: the sampler's whole set
    learning_rate: Positive


class LinearScale(Params):
    epochs: Count
    batch_size: Count
    learning_rate: Positive


class Scale(Params):
    prepare: PrepareScale
    pretrain: PretrainScale
    linear: LinearScale


class Scales(Params):
    tiny: Scale
    demo: Scale
    paper: Scale


# --- the whole file -----------------------------------------------------------------------------------

SECTION_OF = {
    "scale": "scales",
    "dataset": "datasets",
    "method": "methods",
    "bound": "bounds",
    "sampler": "samplers",
    "anneal": "anneals",
    "views": "view_sets",
    "backbone": "backbones",
    "schedule": "schedules",
}


class AllParams(Params):
    """params.yaml: selectors, and the sections that they choose from."""

    seed: int = Field(ge=0)
    scale: str
    dataset: str
    method: str
    bound: str
    sampler: str
    anneal: str
    views: str
    backbone: str
    schedule: str

    datasets: Datasets
    methods: Methods
    bounds: Bounds
    samplers: Samplers
    anneals: Anneals
    view_sets: dict[Name, ViewSetParams]
    backbones: dict[Name, BackboneParams]
    optimizer: OptimizerParams
    schedules: Schedules
    knn: KnnParams
    linear: LinearParams
    scales: Scales

    def choices(self, selector: str) -> list[str]:
        """The keys that a selector may name."""
        return keys_of(getattr(self, SECTION_OF[selector]))

    def get(self, path: str) -> Any:
        """The value at a key such as `scales.${scale}.pretrain`, selectors filled in."""
        value: Any = self
        for part in re.sub(r"\$\{(\w+)\}", lambda match: getattr(self, match[1]), path).split("."):
            value = value[part] if isinstance(value, Mapping) else getattr(value, part.replace("-", "_"))
        return value

    @model_validator(mode="after")
    def _choices(self) -> Self:
        for selector in SECTION_OF:
            choice, known = getattr(self, selector), self.choices(selector)
            if choice not in known:
                raise ValueError(f"{selector}: {choice!r} is none of {', '.join(known)}{nearest(choice, known)}")
        return self

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        """Combinations that cannot work, as far as the file alone can tell."""
        if self.get("datasets.${dataset}").validation_fraction == 0:
            for selector, choice in (("schedule", "plateau"), ("anneal", "adaptive-epoch")):
                if getattr(self, selector) == choice:
                    raise ValueError(
                        f"{selector}: {choice} decides by validation accuracy, but "
                        f"datasets.{self.dataset}.validation_fraction is 0; give it 0.1, say"
                    )
            if self.linear.drops:
                raise ValueError(
                    f"linear.drops: {self.linear.drops} decides by validation accuracy, but "
                    f"datasets.{self.dataset}.validation_fraction is 0; give it 0.1, say"
                )
        prepared, pretrain = self.get("scales.${scale}.prepare"), self.get("scales.${scale}.pretrain")
        if prepared.train_images is not None:
            held_out = round(prepared.train_images * self.get("datasets.${dataset}").validation_fraction)
            check_memory(prepared.train_images - held_out, pretrain, self.get("samplers.${sampler}"), self.scale)
        return self


def check_memory(rows: int, pretrain: PretrainScale, sampler: SamplerParams, scale: str = "SCALE") -> None:
    """Refuse a batch, a number of negatives or a sampler that a memory of `rows` images cannot serve.

    Raises:
        InputError: with the numbers and the key to change.
    """
    if pretrain.batch_size > rows:
        raise InputError(
            f"scales.{scale}.pretrain.batch_size: {pretrain.batch_size} is more than the {rows} training "
            "images; take a smaller batch or more images"
        )
    if pretrain.negatives != "all" and pretrain.negatives > rows - 1:
        raise InputError(
            f"scales.{scale}.pretrain.negatives: {pretrain.negatives} is more than the memory's {rows - 1} "
            "other rows; take fewer, `all`, or more images"
        )
    if isinstance(sampler, CaveParams) and sampler.clusters > rows:
        raise InputError(
            f"samplers.cave.clusters: {sampler.clusters} is more than the memory's {rows} rows; "
            "take fewer clusters or more images"
        )
    if isinstance(sampler, BallParams):
        inner = sampler.inner if isinstance(sampler, RingParams) else 0.0
        rank_limits(inner, sampler.outer, rows - 1)


def rank_limits(inner: float, outer: float, others: int) -> tuple[int, int]:
    """First rank kept and first rank beyond, of `others` ranked rows.

    Raises:
        InputError: when nothing lies between.
    """
    # Rounding first: 0.29 * 100 is 28.999..., and floor would lose a row to it.
    first, last = (math.floor(round(share * others, 6)) for share in (inner, outer))
    if first == last:
        raise InputError(
            f"negatives of ranks [{inner:.4g}, {outer:.4g}) hold none of the memory's {others} other rows; "
            "widen the sampler or take more images"
        )
    return first, last


def keys_of(section: Params | Mapping[str, Any]) -> list[str]:
    """The keys of a section, as they stand in the file."""
    if isinstance(section, Mapping):
        return list(section)
    return [field.alias or name for name, field in type(section).model_fields.items()]


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'ring'?` for the closest known word, or nothing when none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
