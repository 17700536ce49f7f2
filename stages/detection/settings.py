"""The study's and the main line's parameters -> what scenes, tasks and the table read."""

from typing import Any

from annulus.config.study import MainStudy
from annulus.detection.scenes_params import SceneParams
from annulus.detection.tasks import ScenesParams, check_engine, segments_settings, task_settings
from annulus.pipeline.stage import write_settings


def main(study: MainStudy) -> dict[str, Any]:
    check_engine(study.content["engine"])
    drawn = study.section("drawn", SceneParams).model_dump(mode="json")
    scenes = study.section("scenes", ScenesParams)
    own = {"engine": study.content["engine"], "scale": study.params.scale, "seeds": study.seeds}
    files: dict[str, Any] = {}
    for name in study.content["tasks"]:
        task, root = task_settings(study, name), scenes.roots[name]
        files[f"tasks/{name}"] = own | {"drop_empty": scenes.drop_empty} | task
        files[f"scenes/{name}"] = {"kind": task["kind"], "root": root, "drawn": None if root else drawn}
        files[f"scenes/{name}"] |= {"seed": study.seeds[0], "drop_empty": scenes.drop_empty}
    segments = segments_settings(study)
    files["segments"] = own | {"engine": "none", "drop_empty": scenes.drop_empty} | segments
    trained = {name: getattr(study.main, name) for name in ("method", "split", "sampler", "dataset")}
    return files | {"table": {"tasks": [*study.content["tasks"], "segments"], "main": trained}}


if __name__ == "__main__":
    write_settings(main, MainStudy)
