"""Settings of the study of transfer: which images, which probe, which episodes."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from annulus.config.params import Names, Params
from annulus.errors import nearest
from annulus.evals.linear import LinearBudget, LinearSettings
from annulus.settings import Decay, Rate, Rows, Steps
from annulus.studies.study import OwnParams

EMBEDDED = ("digits", "textures", "outlines", "hues")  # without files


class ImagesParams(Params):
    """Numbers of images of a target (null: all), and the store of their pixels, as in `datasets.folder`."""

    train_images: Steps | None
    test_images: Steps | None
    max_bad_files: int = Field(ge=0, le=10**9)
    store: Literal["memory", "raw", "jpeg"]


class Roots(Params):
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


class ProbeParams(Params):
    """Logistic regression on cached features."""

    layer: Literal["pooled", "map"]
    momentum: float = Field(ge=0, lt=1)
    weight_decay: Decay
    epochs: Steps
    batch_size: Rows
    learning_rate: Rate

    @property
    def linear(self) -> tuple[LinearSettings, LinearBudget]:
        """The settings in the form of the main line's probe."""
        own = {"layer": self.layer, "momentum": self.momentum, "weight_decay": self.weight_decay}
        params = LinearSettings(inputs="features", patience=None, drops=0, **own)
        scale = LinearBudget(epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate)
        return params, scale


class FewShotParams(Params):
    """Episodes of `ways` classes, with `shots` images of each to learn from and `queries` to classify.

    class_splits: null, or a folder with files as meta_dataset/dataset_conversion/splits has them; then the classes are
    those that the target's file names as `test`.
    """

    ways: int = Field(ge=2, le=1000)
    shots: int = Field(ge=1, le=1000)
    queries: int = Field(ge=1, le=1000)
    episodes: int = Field(ge=2, le=10**6)
    classifier: Literal["prototype", "neighbour"]
    class_splits: str | None


class VariantParams(Params):
    """Encoders to compare: changes of the root's params.yaml, and whether they are trained at all."""

    trained: bool
    changes: dict[str, Any]


class Variants(Params):
    """Variants to compare with the main line's encoders."""

    uniform: VariantParams
    untrained: VariantParams


class MetaParams(OwnParams):
    """The study's params.yaml."""

    targets: Names
    variants: Variants
    images: ImagesParams
    roots: Roots
    probe: ProbeParams
    few_shot: FewShotParams

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name in self.targets:
            if fault := unknown(name):
                raise ValueError(fault)
        return self


def unknown(name: str) -> str | None:
    """Error sentence for a name that is not a target, with the nearest that is; None for a target."""
    known = [*EMBEDDED, *Roots.model_fields]
    if name in known:
        return None
    return f"targets: {name!r} is none of {', '.join(known)}{nearest(name, known)}"
