"""params.yaml of the study of learned views as a whole."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import MinLen

from annulus.errors import InputError, abridge, nearest
from annulus.settings import Rate, Section, Steps
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.file import checked
from annulus_lab.config.params import Name, plain
from annulus_lab.studies.shared.study import Settings, Study, StudyParams
from annulus_lab.studies.view_learning.view_learning_params import GeneratorParams


@dataclass(frozen=True, kw_only=True)
class Nothing(Section):
    """Choice without settings."""


@dataclass(frozen=True, kw_only=True)
class Rates(Section):
    """Learning rates of a generator and of its estimators."""

    generator_rate: Rate
    estimator_rate: Rate


@dataclass(frozen=True, kw_only=True)
class ViewLearningParams(StudyParams):
    """The study's params.yaml."""

    held_out_pairs: Steps
    shown: Steps
    backbones: dict[str, Annotated[dict[str, Nothing], MinLen(1)]]  # by scale
    learning: dict[str, Settings]  # common settings, and the differences at each scale
    rates: dict[str, dict[str, Rates]]  # by scale
    generators: Annotated[dict[Name, Settings], MinLen(1)]
    pairs: dict[str, list[str]]

    def __post_init__(self) -> None:
        super().__post_init__()
        for generator, others in self.pairs.items():
            for name in (generator, *others):
                if name not in self.generators:
                    raise ValueError(f"pairs.{generator}: no {name!r}{nearest(name, self.generators)}")


def check_held_out(own: ViewLearningParams, images: AllParams, source: str) -> None:
    """Checks before any training that the test images suffice for the held-out pairs, if the settings number them.

    `images`: the settings of the study's images; `source` names the study's file.

    Raises:
        InputError: when there are more pairs than test images, with both numbers.
    """
    most = images.get("scales.${scale}.prepare").test_images
    if most is not None and own.held_out_pairs > most:
        raise InputError(
            f"{source}: held_out_pairs: {own.held_out_pairs} is more than the {most} test images of scale "
            f"{own.scale}; take fewer pairs"
        )


def generator_params(study: Study, own: ViewLearningParams, name: str) -> GeneratorParams:
    """Settings of a generator: the common ones, the scale's, its rates, and its own.

    Raises:
        InputError: when its rates are unknown at the scale, or a value is refused.
    """
    tree, rates = dict(own.generators[name]), study.value_at_scale(own.rates, "rates")
    if (chosen := tree.pop("rates", None)) not in list(rates):
        where = f"{study.path}: generators.{name}.rates: {abridge(chosen)}"
        raise InputError(f"{where} is none of {', '.join(rates)}{nearest(str(chosen), rates)}")
    scales = {scale: settings for scale, settings in own.learning.items() if scale != "all"}
    learning = study.row("learning", "all") | study.value_at_scale(scales, "learning")
    return checked(learning | plain(rates[chosen]) | tree, f"{study.path}: generators.{name}", GeneratorParams)
