"""Settings of a view generator in a study's params.yaml."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from annulus.encoders.config import Backbone
from annulus.settings import Depth, Positive, Rate, Section, Steps, Temperature, Width
from annulus.views.settings import ViewSet

OPPONENT_KEYS = [
    "datasets.${dataset}.view_size",
    "view_sets.${views}",
    "backbones.${backbone}",
]  # fields of `OpponentSettings`, by dvc.yaml's names


@dataclass(frozen=True)
class OpponentSettings:
    """Views and backbone of a generator's opponents."""

    view_size: int
    views: ViewSet
    backbone: Backbone


@dataclass(frozen=True, kw_only=True)
class GeneratorParams(Section):
    """View generator: its colour space, channels, couplings and training."""

    space: Literal["rgb", "ydbdr"]
    changes: Literal["all", "rest"]  # all channels, or all except the first
    volume_preserving: bool
    couplings: Depth
    hidden: Width
    gain: Positive  # factor of the initial weights; a larger one is further from the identity
    learns: Literal["nothing", "unsupervised", "supervised", "semi-supervised"]
    steps: Steps  # each of the estimators, then of the generator
    batch_size: Annotated[int, Ge(2), Le(2**24)]  # a single image has no negatives
    temperature: Temperature  # of the estimators' scores
    embedding_dim: Width
    generator_rate: Rate
    estimator_rate: Rate  # of the two estimators and the two classifiers
    labelled_share: Annotated[float, Gt(0), Le(1)]  # of the training images with a class; the classifiers use it

    @property
    def reduces_information(self) -> bool:
        return self.learns in ("unsupervised", "semi-supervised")

    @property
    def sees_labels(self) -> bool:
        return self.learns in ("supervised", "semi-supervised")
