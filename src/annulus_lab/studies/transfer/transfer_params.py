"""Settings of the study of transfer: images, probe, episodes, encoders."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from annulus.errors import nearest
from annulus.evals.linear_settings import LinearBudget, LinearSettings
from annulus.settings import Decay, Rate, Rows, Section, Share, Steps
from annulus_lab.config.params import Names, RowName, kinds
from annulus_lab.studies.shared.study import OwnParams, Settings

EMBEDDED = ("digits", "textures", "outlines", "hues")  # without files


@dataclass(frozen=True, kw_only=True)
class TargetImagesParams(Section):
    """Numbers of a target's images (null: all), and the store of their pixels, with the words of `datasets.folder`."""

    train_images: Steps | None
    test_images: Steps | None
    max_bad_files: Annotated[int, Ge(0), Le(10**9)]
    store: Literal["memory", "raw", "jpeg"]


@dataclass(frozen=True, kw_only=True)
class Roots(Section):
    """Folder of each target's files."""

    aircraft: str
    cub: str
    dtd: str
    fungi: str
    mnist: str
    fashionmnist: str
    trafficsign: str
    vggflower: str
    mscoco: str
    omniglot: str
    quickdraw: str


@dataclass(frozen=True, kw_only=True)
class ProbeParams(Section):
    """Logistic regression on cached features."""

    layer: Literal["pooled", "map"]
    momentum: Share
    weight_decay: Decay
    epochs: Steps
    batch_size: Rows
    learning_rate: Rate

    @property
    def linear(self) -> tuple[LinearSettings, LinearBudget]:
        """Settings in the form of the main line's probe."""
        own = {"layer": self.layer, "momentum": self.momentum, "weight_decay": self.weight_decay}
        params = LinearSettings(inputs="features", patience=None, drops=0, **own)
        scale = LinearBudget(epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate)
        return params, scale


@dataclass(frozen=True, kw_only=True)
class FewShotParams(Section):
    """Episodes of `ways` classes, with `shots` support and `queries` query images of each.

    class_splits: null, or a folder with files of the form of meta_dataset/dataset_conversion/splits. Then the classes
    are the `test` classes of the target's file.
    """

    ways: Annotated[int, Ge(2), Le(1000)]
    shots: Annotated[int, Ge(1), Le(1000)]
    queries: Annotated[int, Ge(1), Le(1000)]
    episodes: Annotated[int, Ge(2), Le(10**6)]
    classifier: Literal["prototype", "neighbour"]
    class_splits: str | None


@dataclass(frozen=True, kw_only=True)
class VariantParams(Section):
    """Encoders of one variant: changes of the root's params.yaml, and `trained`, false for initial weights."""

    trained: bool
    changes: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Variants(Section):
    """Variants of encoders; the gains are gains of `main` over the others."""

    main: VariantParams
    uniform: VariantParams
    untrained: VariantParams


@dataclass(frozen=True, kw_only=True)
class FurtherParams(VariantParams):
    """Further encoders; the gains are gains over `base`, a variant or an earlier entry."""

    name: RowName
    base: str


@dataclass(frozen=True, kw_only=True)
class TransferParams(OwnParams):
    """The study's params.yaml."""

    targets: Names
    defaults: Settings  # changes of the root's params.yaml for all variants
    variants: Variants
    encoders: list[FurtherParams]  # beside the variants
    images: TargetImagesParams
    roots: Roots
    probe: ProbeParams
    few_shot: FewShotParams

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.targets:
            if fault := unknown(name):
                raise ValueError(fault)
        known = list(kinds(Variants))
        for place, one in enumerate(self.encoders):
            if one.name in known:
                raise ValueError(f"encoders.{place}.name: {one.name!r} names other encoders too; take another")
            if one.base not in known:
                raise ValueError(f"encoders.{place}.base: {one.base!r} is none of {', '.join(known)} before it")
            known.append(one.name)


def unknown(name: str) -> str | None:
    """Error sentence for an unknown target, with the nearest known one; None for a target."""
    known = [*EMBEDDED, *kinds(Roots)]
    if name in known:
        return None
    return f"targets: {name!r} is none of {', '.join(known)}{nearest(name, known)}"
