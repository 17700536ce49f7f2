"""The study's tasks: scenes and detectors of the papers, at the study's scale."""

from dataclasses import dataclass
from importlib.util import find_spec

from annulus.config.file import checked
from annulus.config.params import plain
from annulus.errors import InputError, nearest
from annulus.settings import Section
from annulus.studies.detection.params import DetectorParams, SegmentsParams, TaskParams, TrainingParams
from annulus.studies.study import OwnStudy, Settings

# What detectors may look for in scenes of a kind.
OUTPUTS = {
    "boxes": ("boxes",),
    "masks": ("masks",),
    "keypoints": ("keypoints",),
    "voc": ("boxes",),
    "lvis": ("masks",),
}

ENGINES = ("torchvision", "detectron2")


def check_engine(name: str) -> None:
    """Refuse an engine that does not exist or is not installed, before anything is trained.

    Raises:
        InputError: naming the nearest one, or where to find it.
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
    """Folder with the pictures of each task; null: they are drawn."""

    roots: dict[str, str | None]
    drop_empty: bool  # objects without area are left out, and not refused


def detector_of(study: OwnStudy, name: str) -> tuple[DetectorParams, TrainingParams]:
    """A configuration's detector and training.

    Later settings replace earlier ones: the study's, the configuration's, the scale's, and the scale's for this
    configuration.

    Raises:
        InputError: when there is no such configuration, with the nearest name, or a value is refused.
    """
    row, scale = study.row("configurations", name), study.params.scales[study.params.scale]
    own = scale.get("configurations", {}).get(name, {})
    found = [
        checked(
            study.content[section] | row.get(section, {}) | scale.get(section, {}) | own.get(section, {}),
            f"{study.path}: configurations.{name}.{section}",
            model,
        )
        for section, model in (("detector", DetectorParams), ("training", TrainingParams))
    ]
    return found[0], found[1]


def segments_settings(study: OwnStudy) -> Settings:
    """Settings of the segmentation decoder's stage.

    Raises:
        InputError: when its task does not exist, or has scenes without masks.
    """
    segments = study.section("segments", SegmentsParams)
    kind = checked(study.row("tasks", segments.task), f"{study.path}: tasks.{segments.task}", TaskParams).kind
    if "masks" not in OUTPUTS[kind]:
        raise InputError(f"{study.path}: segments.task: scenes of {segments.task} have no masks; take coco or lvis")
    return {"task": "segments", "kind": kind, "configuration": "decoder", "segments": plain(segments)}


def task_settings(study: OwnStudy, name: str) -> Settings:
    """Settings of one task's stage."""
    row = checked(study.row("tasks", name), f"{study.path}: tasks.{name}", TaskParams)
    detector, training = detector_of(study, row.configuration)
    if detector.outputs not in OUTPUTS[row.kind]:
        raise InputError(
            f"{study.path}: tasks.{name}: {row.configuration} finds {detector.outputs}, which scenes of kind "
            f"{row.kind} do not have; take a configuration with outputs: {' or '.join(OUTPUTS[row.kind])}"
        )
    return {
        "task": name,
        "kind": row.kind,
        "configuration": row.configuration,
        "detector": plain(detector),
        "training": plain(training),
    }
