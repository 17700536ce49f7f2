"""Parameters of the study and of the main line -> settings of scenes, tasks and the table."""

import logging
from pathlib import Path
from typing import Any

from annulus.errors import InputError, abridge, nearest
from annulus_lab.config.params import plain
from annulus_lab.studies.detection.detection_study import read_study
from annulus_lab.studies.detection.further_encoders import further_settings, missing_encoders
from annulus_lab.studies.detection.scenes_params import SceneParams
from annulus_lab.studies.detection.tasks import ScenesParams, segments_settings, task_settings
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import MainStudy, OwnStudy
from annulus_lab.studies.transfer.target_tables import SELECTORS

READERS = {
    "scenes": "detection/scenes",
    "tasks": "detection/detect",
    "segments": "detection/segments",
    "table": "detection/table",
    "further": "detection/further",
    "further_table": "detection/further_table",
}

log = logging.getLogger("annulus")


def main(study: MainStudy) -> dict[str, Any]:
    params = read_study(study)
    encoders = OwnStudy(study.path.parents[1] / "transfer/params.yaml")  # all encoders except the main line's
    if lacking := [seed for seed in study.seeds if seed not in encoders.params.seeds]:
        raise InputError(
            f"{study.path}: seeds: {encoders.path} has no encoder of {abridge(lacking)}; take some of its seeds, "
            f"{abridge(encoders.params.seeds)}, or add what is lacking there"
        )
    for path in (Path("data/main/encoders"), Path("stages/transfer/data/encoders")):
        if not path.is_dir():  # DVC's own error does not name the command that makes it
            log.warning(
                "WARNING: %s is missing; `make repro`, `make study STUDY=transfer ARGS=encoders` make them", path
            )
    further = further_settings(study, params.encoders)
    for sentence in missing_encoders(further):
        log.warning("WARNING: %s", sentence)
    drawn = plain(study.section("drawn", SceneParams))
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
    tasks = {name: files[f"tasks/{name}"] for name in params.tasks}
    for one in further:
        seeds = {"seeds": one["seeds"]}
        files[f"further/{one['encoder']}"] = {"tasks": {name: task | seeds for name, task in tasks.items()}}
    segments = segments_settings(study)
    files["segments"] = own | {"engine": "none", "drop_empty": scenes.drop_empty} | segments
    trained = {name: getattr(study.main, name) for name in SELECTORS}
    files["table"] = {"tasks": [*params.tasks, "segments"], "main": trained}
    return files | {"further_table": {"tasks": tasks, "encoders": further}}


if __name__ == "__main__":
    write_settings(main, MainStudy, READERS)
