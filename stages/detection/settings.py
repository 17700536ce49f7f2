"""The study's and the main line's parameters -> settings of scenes, tasks and the table."""

from typing import Any

from annulus.config.params import plain
from annulus.errors import InputError, nearest, shown
from annulus.studies.detection.scenes_params import SceneParams
from annulus.studies.detection.study import read_study
from annulus.studies.detection.tasks import ScenesParams, segments_settings, task_settings
from annulus.studies.settings_files import write_settings
from annulus.studies.study import MainStudy, OwnStudy
from annulus.studies.transfer.target_tables import SELECTORS


def main(study: MainStudy) -> dict[str, Any]:
    params = read_study(study)
    encoders = OwnStudy(study.path.parent.parent / "transfer/params.yaml")  # beside the main line's
    if lacking := [seed for seed in study.seeds if seed not in encoders.params.seeds]:
        raise InputError(
            f"{study.path}: seeds: {encoders.path} has no encoder of {shown(lacking)}; take some of its seeds, "
            f"{shown(encoders.params.seeds)}, or add what is lacking there"
        )
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
    segments = segments_settings(study)
    files["segments"] = own | {"engine": "none", "drop_empty": scenes.drop_empty} | segments
    trained = {name: getattr(study.main, name) for name in SELECTORS}
    return files | {"table": {"tasks": [*params.tasks, "segments"], "main": trained}}


if __name__ == "__main__":
    write_settings(main, MainStudy)
