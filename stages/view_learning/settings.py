"""Parameters -> settings of the images, each generator, the views and the pictures: a file for each."""

from typing import Any

from annulus_lab.config.params import plain
from annulus_lab.config.resolved import IMAGES, RUN, resolved
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import Study
from annulus_lab.studies.view_learning.view_learning_params import OPPONENT_KEYS
from annulus_lab.studies.view_learning.view_learning_study import ViewLearningParams, check_held_out, generator_params

READERS = {
    "images": "study_images",
    "generators": "view_learning/generator",
    "views": "view_learning/views",
    "pictures": "view_learning/pictures",
}


def main(study: Study) -> dict[str, Any]:
    own = study.read(ViewLearningParams)
    common, names = {"scale": own.scale, "seeds": own.seeds}, list(own.generators)
    backbones = study.value_at_scale(own.backbones, "backbones")
    learned = {name: generator_params(study, own, name) for name in names}
    seen = resolved(study.variant("generators", {}, own.seeds[0]), OPPONENT_KEYS)
    images = study.variant("images", {}, own.seeds[0])
    check_held_out(own, images, str(study.path))
    files = {"images": resolved(images, IMAGES)}
    for name, params in learned.items():
        files[f"generators/{name}"] = common | {"generator": plain(params), "seen": seen}
    spaces = list(dict.fromkeys(params.space for params in learned.values()))
    points = []
    for backbone in backbones:
        for space in spaces:
            run = resolved(study.variant(space, {"split": space, "backbone": backbone}, own.seeds[0]), RUN)
            about = {"table": "", "space": space, "backbone": backbone, "run": run}
            raw = {"learns": "raw input", "changes": "none", "volume_preserving": ""}
            points.append({"series": f"raw-{space}", "generator": None} | raw | about)
            for name, params in learned.items():
                if params.space == space:
                    columns = {key: value for key, value in plain(params).items() if key in raw}
                    points.append({"series": name, "generator": name} | columns | about)
    smallest = next(iter(backbones))
    for point in points:
        in_table = point["series"].removeprefix("raw-") in (point["space"], f"{point['learns']}-{point['space']}")
        if in_table and point["backbone"] == smallest and point["learns"] != "nothing":
            point["table"] = "infomin.table2"
    views = common | {"held_out_pairs": own.held_out_pairs, "pairs": own.pairs, "points": points}
    pictures = common | {"generators": names, "spaces": spaces, "shown": own.shown}
    return files | {"views": views, "pictures": pictures}


if __name__ == "__main__":
    write_settings(main, Study, READERS)
