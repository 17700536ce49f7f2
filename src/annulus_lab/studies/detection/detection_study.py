"""params.yaml of the study of detection as a whole."""

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import MinLen

from annulus.errors import InputError, nearest
from annulus.settings import Section
from annulus_lab.config.file import checked
from annulus_lab.config.params import Name
from annulus_lab.studies.detection.detection_params import (
    DetectorParams,
    DetectorTrainingParams,
    SegmentsParams,
    TaskParams,
)
from annulus_lab.studies.detection.further_encoders import FurtherEncoder
from annulus_lab.studies.detection.scenes_params import SceneParams
from annulus_lab.studies.detection.tasks import ScenesParams, check_engine, detector_settings
from annulus_lab.studies.shared.study import MainStudy, OwnParams, Settings


@dataclass(frozen=True, kw_only=True)
class Configuration(Section):
    """Changes to `detector` and `training`."""

    optional = True
    detector: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DetectionScale(Configuration):
    """Changes of a scale to sections and configurations."""

    scenes: Settings = field(default_factory=dict)
    segments: Settings = field(default_factory=dict)
    drawn: Settings = field(default_factory=dict)
    configurations: dict[str, Configuration] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DetectionParams(OwnParams):
    """The study's params.yaml."""

    scales: dict[str, DetectionScale]
    engine: str
    tasks: Annotated[dict[Name, TaskParams], MinLen(1)]
    encoders: Annotated[list[FurtherEncoder], MinLen(1)]
    scenes: ScenesParams
    segments: SegmentsParams
    drawn: SceneParams
    detector: DetectorParams
    training: DetectorTrainingParams
    configurations: dict[str, Configuration]


def read_study(study: MainStudy) -> DetectionParams:
    """Checks the whole file, also detectors without a task, and returns it.

    Raises:
        InputError: for a value that a model refuses, or an unknown name.
    """
    params = study.read(DetectionParams)
    check_engine(params.engine)
    for name, own in params.configurations.items():
        for section, model in (("detector", DetectorParams), ("training", DetectorTrainingParams)):
            tree = study.content[section] | getattr(own, section)
            checked(tree, f"{study.path}: configurations.{name}.{section}", model)
        detector_settings(study, name)
    for scale, section in params.scales.items():
        for name in section.configurations:
            if name not in params.configurations:
                where = f"{study.path}: scales.{scale}.configurations"
                raise InputError(f"{where}: no {name!r}{nearest(name, params.configurations)}")
    return params
