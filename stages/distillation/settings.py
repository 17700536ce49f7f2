"""The study's parameters -> what its images, each teacher, each student and the table read."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from annulus.classifiers.params import FitParams
from annulus.config.params import Name, Names, nearest
from annulus.config.study import OwnParams, OwnStudy
from annulus.distillation.choices import loss_settings, pairs_of, teachers_of
from annulus.distillation.params import ContrastParams, ImagesParams, PairParams, WeightParams
from annulus.pipeline.stage import write_settings


class DistillationParams(OwnParams):
    """The study's params.yaml."""

    teachers: Names
    pairs: Annotated[list[PairParams], Field(min_length=1)]
    losses: Names
    images: ImagesParams
    teacher: FitParams
    student: FitParams
    weights: WeightParams
    contrast: ContrastParams
    rows: dict[Name, dict[str, dict[str, Any]]]  # what each loss sets of `weights` and `contrast`
    comparisons: dict[str, list[str]]
    shown: Names
    thirteen: list[PairParams]

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        named = [("shown", name, self.losses, "losses") for name in self.shown]
        named += [("losses", name, self.rows, "rows") for name in self.losses]
        for loss, bases in self.comparisons.items():
            named += [(f"comparisons.{loss}", name, self.rows, "rows") for name in (loss, *bases)]
        for where, name, known, section in named:
            if name not in known:
                raise ValueError(f"{where}: {section} has no {name!r}{nearest(name, known)}")
        return self


def main(study: OwnStudy) -> dict[str, Any]:
    own = study.read(DistillationParams)
    losses = {loss: loss_settings(study, loss) for loss in own.rows}
    pairs, fits = pairs_of(study), {name: study.section(name, FitParams) for name in ("teacher", "student")}
    images = study.section("images", ImagesParams)
    files: dict[str, Any] = {"images": images.resolved(own.scale, own.seeds[0])}
    for network in teachers_of(study, pairs):
        teacher = {"scale": own.scale, "seeds": own.seeds[:1], "network": network}
        files[f"teachers/{network}"] = teacher | {"fit": fits["teacher"].model_dump(mode="json")}
    for pair in pairs:
        rate = pair.learning_rate or fits["student"].learning_rate
        fit = fits["student"].model_copy(update={"learning_rate": rate}).model_dump(mode="json")
        for loss in own.losses:
            student = {"scale": own.scale, "seeds": own.seeds, "network": pair.student, "fit": fit}
            files[f"students/{pair.name}.{loss}"] = student | losses[loss]
    table = {"pairs": [pair.model_dump() for pair in pairs], "comparisons": own.comparisons}
    shown = pairs[0].model_dump() | {"seed": own.seeds[0], "losses": own.shown}
    alphas = {loss: losses[loss]["contrast"] for loss in own.losses}
    return files | {
        "table": {"scale": own.scale, "dataset": images.dataset} | table | {"losses": alphas, "shown": shown}
    }


if __name__ == "__main__":
    write_settings(main, OwnStudy)
