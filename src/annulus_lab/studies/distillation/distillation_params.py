"""Sections of params.yaml of the study of distillation."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from annulus.datasets.settings import DATASETS
from annulus.errors import InputError, nearest
from annulus.negatives import SAMPLERS
from annulus.settings import Positive, Rate, Section, Share, Steps, Temperature, Width
from annulus_lab.config.file import checked
from annulus_lab.config.params import Name, choice_section
from annulus_lab.studies.distillation.classifiers.config import check_name

WITH_ALPHA = ("cpc", "mlcpc")
Weight = Annotated[float, Ge(0), Le(1e6)]
DistillationSamplers = choice_section(
    "Samplers", {name: SAMPLERS[name] for name in ("uniform", "ball", "ring", "cave")}
)


@dataclass(frozen=True, kw_only=True)
class WeightParams(Section):
    """Weights of a student's losses: labels, the teacher's softened answers, contrast with its features."""

    labels: Weight
    answers: Weight
    answers_temperature: Temperature
    contrast: Weight

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels == self.answers == self.contrast == 0:
            raise InputError("labels, answers and contrast all weigh 0, so a student learns nothing; give one a weight")


@dataclass(frozen=True, kw_only=True)
class ContrastParams(Section):
    """Settings of the contrast between a student's and a teacher's embeddings."""

    dim: Width  # of the embeddings
    temperature: Temperature
    negatives: Steps  # K of each query, drawn with replacement
    negatives_from: Literal["other-classes", "all"]  # all: images of the query's own class may be negatives
    bank_rate: Share  # share of a memory's row that an update keeps
    bound: Literal["binary-nce", "infonce", "cpc", "mlcpc"]
    alpha: Positive | None  # weight of the positive in the denominator of cpc and mlcpc
    normaliser: Literal["first-batch", "first-batch-candidates", "moving-average", "exact"]  # of binary-nce
    sampler: Literal["uniform", "ball", "ring", "cave"]
    samplers: DistillationSamplers

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.bound in WITH_ALPHA) != (self.alpha is not None):
            wanted = "a number, such as 1.0" if self.bound in WITH_ALPHA else f"null, as {self.bound} has no weight"
            raise InputError(f"alpha: {self.alpha} with bound {self.bound}; give {wanted}")
        if self.alpha is not None and self.alpha >= 1 + self.negatives:
            raise InputError(
                f"alpha: {self.alpha:g} with {self.negatives} negatives leaves them no weight; take alpha below "
                f"{1 + self.negatives}"
            )


@dataclass(frozen=True, kw_only=True)
class DistillationImagesParams(Section):
    """Image set: one of the root's data sets, the keys of its section, and numbers of images."""

    dataset: str
    settings: dict[str, Any]
    train_images: Steps | None  # null: all
    test_images: Steps | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dataset not in DATASETS:
            known = list(DATASETS)
            raise InputError(f"dataset {self.dataset!r} is none of {', '.join(known)}{nearest(self.dataset, known)}")
        checked(self.settings, "settings", DATASETS[self.dataset])

    def resolved(self, scale: str, seed: int) -> dict[str, Any]:
        """Settings for `stages/study_images.py`."""
        prepare = {"train_images": self.train_images, "test_images": self.test_images, "unlabelled_images": 0}
        images = {"datasets": {self.dataset: self.settings}, "scales": {scale: {"prepare": prepare}}}
        return {"seeds": [seed], "dataset": self.dataset} | images


@dataclass(frozen=True, kw_only=True)
class TeacherPairParams(Section):
    """Teacher and student; `learning_rate` is the student's, or null for the study's."""

    name: Name
    teacher: str
    student: str
    learning_rate: Rate | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.teacher)
        check_name(self.student)
