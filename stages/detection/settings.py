"""The study's and the main line's parameters -> what scenes, tasks and the table read."""

from typing import Annotated, Any

from pydantic import Field

from annulus.config.file import checked
from annulus.config.params import Name, Params, nearest
from annulus.config.study import MainStudy, OwnParams, Settings
from annulus.detection.params import DetectorParams, SegmentsParams, TaskParams, TrainingParams
from annulus.detection.scenes_params import SceneParams
from annulus.detection.tasks import ScenesParams, check_engine, detector_of, segments_settings, task_settings
from annulus.errors import InputError
from annulus.pipeline.stage import write_settings


class Configuration(Params):
    """What differs of `detector` and `training`."""

    detector: Settings = Field(default={})
    training: Settings = Field(default={})


class Scale(Configuration):
    """What a scale sets: of sections, and of configurations."""

    scenes: Settings = Field(default={})
    segments: Settings = Field(default={})
    drawn: Settings = Field(default={})
    configurations: dict[str, Configuration] = Field(default={})


class DetectionParams(OwnParams):
    """The study's params.yaml."""

    scales: dict[str, Scale]
    engine: str
    tasks: Annotated[dict[Name, TaskParams], Field(min_length=1)]
    scenes: ScenesParams
    segments: SegmentsParams
    drawn: SceneParams
    detector: DetectorParams
    training: TrainingParams
    configurations: dict[str, Configuration]


def main(study: MainStudy) -> dict[str, Any]:
    params = study.read(DetectionParams)
    check_engine(params.engine)
    _check_configurations(study, params)
    drawn = study.section("drawn", SceneParams).model_dump(mode="json")
    scenes = study.section("scenes", ScenesParams)
    own = {"engine": params.engine, "scale": study.params.scale, "seeds": study.seeds}
    files: dict[str, Any] = {}
    for name in params.tasks:
        if name not in scenes.roots:
            known = nearest(name, scenes.roots)
            raise InputError(f"{study.path}: scenes.roots: lacks {name!r}, a task{known}; give its folder, or null")
        task, root = task_settings(study, name), scenes.roots[name]
        files[f"tasks/{name}"] = own | {"drop_empty": scenes.drop_empty} | task
        files[f"scenes/{name}"] = {"kind": task["kind"], "root": root, "drawn": None if root else drawn}
        files[f"scenes/{name}"] |= {"seed": study.seeds[0], "drop_empty": scenes.drop_empty}
    segments = segments_settings(study)
    files["segments"] = own | {"engine": "none", "drop_empty": scenes.drop_empty} | segments
    trained = {name: getattr(study.main, name) for name in ("method", "split", "sampler", "dataset")}
    return files | {"table": {"tasks": [*params.tasks, "segments"], "main": trained}}


def _check_configurations(study: MainStudy, params: DetectionParams) -> None:
    """Refuse faults of detectors that no task has yet, and a scale's settings of one that does not exist."""
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


if __name__ == "__main__":
    write_settings(main, MainStudy)
