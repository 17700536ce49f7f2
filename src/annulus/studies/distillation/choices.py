"""The study's params.yaml as a whole: pairs, teachers, and each loss's settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import MinLen

from annulus.config.file import checked
from annulus.config.params import Name, Names, plain
from annulus.errors import InputError, nearest
from annulus.studies.distillation.classifiers.config import check_name
from annulus.studies.distillation.classifiers.params import FitParams
from annulus.studies.distillation.params import ContrastParams, ImagesParams, PairParams, WeightParams
from annulus.studies.study import OwnParams, OwnStudy


@dataclass(frozen=True, kw_only=True)
class DistillationParams(OwnParams):
    """The study's params.yaml."""

    teachers: Names  # that are trained
    pairs: Annotated[list[PairParams], MinLen(1)]
    losses: Names
    images: ImagesParams
    teacher: FitParams
    student: FitParams
    weights: WeightParams
    contrast: ContrastParams
    rows: dict[Name, dict[str, dict[str, Any]]]  # what each loss sets of `weights` and `contrast`
    comparisons: dict[str, list[str]]
    shown: Names
    thirteen: list[PairParams]  # the paper's

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
        named = [("shown", name, self.losses, "losses") for name in self.shown]
        named += [("losses", name, self.rows, "rows") for name in self.losses]
        for loss, bases in self.comparisons.items():
            named += [(f"comparisons.{loss}", name, self.rows, "rows") for name in (loss, *bases)]
        for where, name, known, section in named:
            if name not in known:
                raise ValueError(f"{where}: {section} has no {name!r}{nearest(name, known)}")


def check_clusters(study: OwnStudy, loss: str, settings: Mapping[str, Any], images: ImagesParams) -> None:
    """Refuse more clusters than images in a loss's `loss_settings`, before a teacher is trained.

    With `train_images: null` only a student knows how many images there are, and refuses at its first step.

    Raises:
        InputError: when negatives are drawn by clusters, of which there are more than `images.train_images`.
    """
    contrast, most = settings["contrast"], images.train_images
    clusters = contrast["samplers"]["cave"]["clusters"]
    if settings["weights"]["contrast"] > 0 and contrast["sampler"] == "cave" and most is not None and clusters > most:
        raise InputError(
            f"{study.path}: contrast.samplers.cave.clusters: {clusters} for {loss} are more than the {most} training "
            "images (images.train_images); take fewer clusters, or more images"
        )


def loss_settings(study: OwnStudy, loss: str) -> dict[str, Any]:
    """Weights and contrast of a loss: the study's, then its row's.

    Raises:
        InputError: for an unknown loss, with the nearest known one, or a value that its model refuses.
    """
    row, merged_sections = study.row("rows", loss), {}
    models = {"weights": WeightParams, "contrast": ContrastParams}
    if unknown := sorted(set(row) - set(models)):
        raise InputError(f"{study.path}: rows.{loss}: {unknown[0]!r} is none of {', '.join(models)}")
    for name, model in models.items():
        # The section is checked as a whole first, so that a fault of its own is named there.
        section = plain(study.section(name, model))
        merged = checked(section | row.get(name, {}), f"{study.path}: rows.{loss}.{name}", model)
        merged_sections[name] = plain(merged)
    return merged_sections
