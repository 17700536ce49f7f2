"""Tasks of the study: scenes and detectors of the papers, at the study's scale."""

from dataclasses import dataclass
from importlib.util import find_spec

from annulus.errors import InputError, nearest
from annulus.settings import Section
from annulus_lab.config.file import checked
from annulus_lab.config.params import plain
from annulus_lab.studies.detection.detection_params import (
    DetectorParams,
    DetectorTrainingParams,
    SegmentsParams,
    TaskParams,
)
from annulus_lab.studies.shared.study import OwnStudy, Settings

# Outputs that detectors can learn from scenes of a kind.
OUTPUTS = {
    "boxes": ("boxes",),
    "masks": ("masks",),
    "keypoints": ("keypoints",),
    "voc": ("boxes",),
    "lvis": ("masks",),
}

ENGINES = ("torchvision", "detectron2")


def check_engine(name: str) -> None:
    """Checks, before any training, that an engine is known and installed.

    Raises:
        InputError: when it is not, with the nearest name or the page of its installation.
    """
    if name not in ENGINES:
        raise InputError(f"engine: {name!r} is none of {', '.join(ENGINES)}{nearest(name, ENGINES)}")
    if name == "detectron2" and find_spec("detectron2") is None:
        raise InputError(
            "engine: detectron2 is not installed here; build it as "
            "https://detectron2.readthedocs.io/en/latest/tutorials/install.html says, or take engine: torchvision"
        )


@dataclass(frozen=True, kw_only=True)
class ScenesParams(Section):
    """Folder with the pictures of each task; null: drawn pictures."""

    roots: dict[str, str | None]
    drop_empty: bool  # true: objects without area are left out; false: they are refused


def detector_settings(study: OwnStudy, name: str) -> tuple[DetectorParams, DetectorTrainingParams]:
    """Detector and training of a configuration.

    Later settings replace earlier ones: the study's, the configuration's, the scale's, and the scale's for this
    configuration.

    Raises:
        InputError: when the configuration is unknown, with the nearest name, or a value is refused.
    """
    row, scale = study.row("configurations", name), study.params.scales[study.params.scale]
    own = scale.get("configurations", {}).get(name, {})
    sections = [
        checked(
            study.content[section] | row.get(section, {}) | scale.get(section, {}) | own.get(section, {}),
            f"{study.path}: configurations.{name}.{section}",
            model,
        )
        for section, model in (("detector", DetectorParams), ("training", DetectorTrainingParams))
    ]
    return sections[0], sections[1]


def segments_settings(study: OwnStudy) -> Settings:
    """Settings of the segmentation decoder's stage.

    Raises:
        InputError: when its task is unknown, or has scenes without masks.
    """
    segments = study.section("segments", SegmentsParams)
    kind = checked(study.row("tasks", segments.task), f"{study.path}: tasks.{segments.task}", TaskParams).kind
    if "masks" not in OUTPUTS[kind]:
        raise InputError(f"{study.path}: segments.task: scenes of {segments.task} have no masks; take coco or lvis")
    return {"task": "segments", "kind": kind, "configuration": "decoder", "segments": plain(segments)}


def task_settings(study: OwnStudy, name: str) -> Settings:
    """Settings of one task's stage."""
    row = checked(study.row("tasks", name), f"{study.path}: tasks.{name}", TaskParams)
    detector, training = detector_settings(study, row.configuration)
    if detector.outputs not in OUTPUTS[row.kind]:
        raise InputError(
            f"{study.path}: tasks.{name}: {row.configuration} finds {detector.outputs}, which scenes of kind "
            f"{row.kind} do not have; take a configuration with outputs: {' or '.join(OUTPUTS[row.kind])}"
        )
    if detector.cascade and study.content["engine"] != "detectron2":
        raise InputError(
            f"{study.path}: tasks.{name}: {row.configuration} has a cascade of box heads, which engine: "
            f"{study.content['engine']} does not build; take engine: detectron2"
        )
    return {
        "task": name,
        "kind": row.kind,
        "configuration": row.configuration,
        "detector": plain(detector),
        "training": plain(training),
    }
