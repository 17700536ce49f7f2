"""The params.yaml of the study of learned views as a whole."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from annulus.config.file import checked
from annulus.config.params import Name, Params
from annulus.errors import InputError, nearest, shown
from annulus.settings import Rate, Steps
from annulus.studies.study import Settings, Study, StudyParams
from annulus.studies.view_learning.params import GeneratorParams


class Nothing(Params):
    """A choice without settings of its own."""


class Rates(Params):
    """Learning rates of a generator and of its estimators."""

    generator_rate: Rate
    estimator_rate: Rate


class ViewLearningParams(StudyParams):
    """The study's params.yaml."""

    held_out_pairs: Steps
    shown: Steps
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


def generator_of(study: Study, own: ViewLearningParams, name: str) -> GeneratorParams:
    """A generator's settings: the common ones, the scale's, its rates, and its own.

    Raises:
        InputError: when it names no rates of the scale, or a value is refused.
    """
    tree, rates = dict(own.generators[name]), study.value_at_scale(own.rates, "rates")
    if (chosen := tree.pop("rates", None)) not in list(rates):
        where = f"{study.path}: generators.{name}.rates: {shown(chosen)}"
        raise InputError(f"{where} is none of {', '.join(rates)}{nearest(str(chosen), rates)}")
    scales = {scale: settings for scale, settings in own.learning.items() if scale != "all"}
    learning = study.row("learning", "all") | study.value_at_scale(scales, "learning")
    return checked(learning | rates[chosen].model_dump() | tree, f"{study.path}: generators.{name}", GeneratorParams)
