"""The parameters -> what the images, each generator, the views and the pictures read: a file for each."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from annulus.config.file import checked, shown
from annulus.config.params import Count, Name, Params, Rate, nearest
from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.config.study import Settings, Study, StudyParams
from annulus.errors import InputError
from annulus.generators.params import SEEN, GeneratorParams
from annulus.pipeline.stage import write_settings


class Nothing(Params):
    """A choice without settings of its own."""


class Rates(Params):
    """Learning rates of a generator and of its estimators."""

    generator_rate: Rate
    estimator_rate: Rate


class ViewLearningParams(StudyParams):
    """The study's params.yaml."""

    held_out_pairs: Count
    shown: Count
    backbones: dict[str, Annotated[dict[str, Nothing], Field(min_length=1)]]  # of each scale
    learning: dict[str, Settings]  # of all, then what differs at a scale
    rates: dict[str, dict[str, Rates]]  # of each scale
    generators: Annotated[dict[Name, Settings], Field(min_length=1)]
    pairs: dict[str, list[str]]

    @model_validator(mode="after")
    def _generators_exist(self) -> Self:
        for generator, others in self.pairs.items():
            for name in (generator, *others):
                if name not in self.generators:
                    raise ValueError(f"pairs.{generator}: no {name!r}{nearest(name, self.generators)}")
        return self


def main(study: Study) -> dict[str, Any]:
    own = study.read(ViewLearningParams)
    common, names = {"scale": own.scale, "seeds": own.seeds}, list(own.generators)
    backbones = study.of_scale(own.backbones, "backbones")
    learned = {name: _params(study, own, name) for name in names}
    seen = resolved(study.variant("generators", {}, own.seeds[0]), SEEN)
    files = {"images": resolved(study.variant("images", {}, own.seeds[0]), IMAGES)}
    for name, params in learned.items():
        files[f"generators/{name}"] = common | {"generator": params.model_dump(mode="json"), "seen": seen}
    spaces = list(dict.fromkeys(params.space for params in learned.values()))
    points = []
    for backbone in backbones:
        for space in spaces:
            run = resolved(study.variant(space, {"split": space, "backbone": backbone}, own.seeds[0]), RUN)
            about = {"table": "", "space": space, "backbone": backbone, "run": run}
            raw = {"learns": "raw input", "changes": "none", "volume_preserving": ""}
            points.append({"series": f"raw-{space}", "generator": None} | raw | about)
            for name, params in learned.items():
                if params.space == space:
                    told = params.model_dump(mode="json", include=set(raw))
                    points.append({"series": name, "generator": name} | told | about)
    smallest = next(iter(backbones))
    for point in points:
        plain = point["series"].removeprefix("raw-") in (point["space"], f"{point['learns']}-{point['space']}")
        if plain and point["backbone"] == smallest and point["learns"] != "nothing":
            point["table"] = "infomin.table2"
    views = common | {"held_out_pairs": own.held_out_pairs, "pairs": own.pairs, "points": points}
    pictures = common | {"generators": names, "spaces": spaces, "shown": own.shown}
    return files | {"views": views, "pictures": pictures}


def _params(study: Study, own: ViewLearningParams, name: str) -> GeneratorParams:
    """What all generators have, what the scale sets, the generator's rates, and what it says itself."""
    tree, rates = dict(own.generators[name]), study.of_scale(own.rates, "rates")
    if (chosen := tree.pop("rates", None)) not in list(rates):
        where = f"{study.path}: generators.{name}.rates: {shown(chosen)}"
        raise InputError(f"{where} is none of {', '.join(rates)}{nearest(str(chosen), rates)}")
    scales = {scale: settings for scale, settings in own.learning.items() if scale != "all"}
    learning = study.row("learning", "all") | study.of_scale(scales, "learning")
    return checked(learning | rates[chosen].model_dump() | tree, f"{study.path}: generators.{name}", GeneratorParams)


if __name__ == "__main__":
    write_settings(main, Study)
