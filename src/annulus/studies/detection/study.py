"""The params.yaml of the study of detection as a whole."""

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import MinLen

from annulus.config.file import checked
from annulus.config.params import Name
from annulus.errors import InputError, nearest
from annulus.settings import Section
from annulus.studies.detection.params import DetectorParams, SegmentsParams, TaskParams, TrainingParams
from annulus.studies.detection.scenes_params import SceneParams
from annulus.studies.detection.tasks import ScenesParams, check_engine, detector_of
from annulus.studies.study import MainStudy, OwnParams, Settings


@dataclass(frozen=True, kw_only=True)
class Configuration(Section):
    """Changes to `detector` and `training`."""

    optional = True
    detector: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scale(Configuration):
    """Changes that a scale makes to sections and configurations."""

    scenes: Settings = field(default_factory=dict)
    segments: Settings = field(default_factory=dict)
    drawn: Settings = field(default_factory=dict)
    configurations: dict[str, Configuration] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DetectionParams(OwnParams):
    """The study's params.yaml."""

    scales: dict[str, Scale]
    engine: str
    tasks: Annotated[dict[Name, TaskParams], MinLen(1)]
    scenes: ScenesParams
    segments: SegmentsParams
    drawn: SceneParams
    detector: DetectorParams
    training: TrainingParams
    configurations: dict[str, Configuration]


def read_study(study: MainStudy) -> DetectionParams:
    """The file, checked as a whole, including detectors without a task.

    Raises:
        InputError: for values that the models refuse, and for names that do not exist.
    """
    params = study.read(DetectionParams)
    check_engine(params.engine)
    for name, own in params.configurations.items():
        for section, model in (("detector", DetectorParams), ("training", TrainingParams)):
            tree = study.content[section] | getattr(own, section)
            checked(tree, f"{study.path}: configurations.{name}.{section}", model)
        detector_of(study, name)
    for scale, section in params.scales.items():
        for name in section.configurations:
            if name not in params.configurations:
                where = f"{study.path}: scales.{scale}.configurations"
                raise InputError(f"{where}: no {name!r}{nearest(name, params.configurations)}")
    return params
