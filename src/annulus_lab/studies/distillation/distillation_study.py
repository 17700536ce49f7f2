"""params.yaml of the study of distillation as a whole: pairs, teachers, and the settings of each loss."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import MinLen

from annulus.errors import InputError, nearest
from annulus_lab.config.file import checked
from annulus_lab.config.params import Name, Names, plain
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.config import check_name
from annulus_lab.studies.distillation.distillation_params import (
    ContrastParams,
    DistillationImagesParams,
    TeacherPairParams,
    WeightParams,
)
from annulus_lab.studies.shared.study import OwnParams, OwnStudy


@dataclass(frozen=True, kw_only=True)
class DistillationParams(OwnParams):
    """The study's params.yaml."""

    teachers: Names  # networks to train
    pairs: Annotated[list[TeacherPairParams], MinLen(1)]
    losses: Names
    images: DistillationImagesParams
    teacher: FitParams
    student: FitParams
    weights: WeightParams
    contrast: ContrastParams
    rows: dict[Name, dict[str, dict[str, Any]]]  # for each loss its changes of `weights` and `contrast`
    comparisons: dict[str, list[str]]
    shown: Names
    thirteen: list[TeacherPairParams]  # the paper's

    def __post_init__(self) -> None:
        super().__post_init__()
        for network in self.teachers:
            check_name(network)
        names = [pair.name for pair in self.pairs]
        for pair in self.pairs:
            if names.count(pair.name) > 1:
                raise ValueError(f"pairs: {pair.name} stands twice; give each pair a name of its own")
            if pair.teacher not in self.teachers:
                raise ValueError(
                    f"pairs: {pair.name} needs the teacher {pair.teacher}, which `teachers` does not name"
                    f"{nearest(pair.teacher, self.teachers)}; add it there"
                )
        references = [("shown", name, self.losses, "losses") for name in self.shown]
        references += [("losses", name, self.rows, "rows") for name in self.losses]
        for loss, bases in self.comparisons.items():
            references += [(f"comparisons.{loss}", name, self.rows, "rows") for name in (loss, *bases)]
        for where, name, known, section in references:
            if name not in known:
                raise ValueError(f"{where}: {section} has no {name!r}{nearest(name, known)}")


def check_clusters(study: OwnStudy, loss: str, settings: Mapping[str, Any], images: DistillationImagesParams) -> None:
    """Checks before any training that a loss's `loss_settings` have no more clusters than images.

    With `train_images: null` the number of images is unknown here, and the check is a student's, at its first step.

    Raises:
        InputError: when a loss draws negatives by more clusters than `images.train_images`.
    """
    contrast, most = settings["contrast"], images.train_images
    clusters = contrast["samplers"]["cave"]["clusters"]
    if settings["weights"]["contrast"] > 0 and contrast["sampler"] == "cave" and most is not None and clusters > most:
        raise InputError(
            f"{study.path}: contrast.samplers.cave.clusters: {clusters} for {loss} are more than the {most} training "
            "images (images.train_images); take fewer clusters, or more images"
        )


def loss_settings(study: OwnStudy, loss: str) -> dict[str, Any]:
    """Weights and contrast of a loss: the study's settings, then the row's.

    Raises:
        InputError: for an unknown loss, with the nearest known one, or a value that its model refuses.
    """
    row, merged_sections = study.row("rows", loss), {}
    models = {"weights": WeightParams, "contrast": ContrastParams}
    if unknown := sorted(set(row) - set(models)):
        raise InputError(f"{study.path}: rows.{loss}: {unknown[0]!r} is none of {', '.join(models)}")
    for name, model in models.items():
        # First the section alone, so that its own fault is named there.
        section = plain(study.section(name, model))
        merged = checked(section | row.get(name, {}), f"{study.path}: rows.{loss}.{name}", model)
        merged_sections[name] = plain(merged)
    return merged_sections
