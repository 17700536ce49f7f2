"""Parameters of the study -> settings of its images, each teacher, each student and the table."""

from dataclasses import replace
from typing import Any

from annulus_lab.config.params import plain
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.distillation_params import DistillationImagesParams
from annulus_lab.studies.distillation.distillation_study import DistillationParams, check_clusters, loss_settings
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import OwnStudy

READERS = {
    "images": "study_images",
    "teachers": "distillation/teacher",
    "students": "distillation/student",
    "table": "distillation/table",
}


def main(study: OwnStudy) -> dict[str, Any]:
    own = study.read(DistillationParams)
    losses = {loss: loss_settings(study, loss) for loss in own.rows}
    fits = {name: study.section(name, FitParams) for name in ("teacher", "student")}
    images = study.section("images", DistillationImagesParams)
    for loss in own.losses:
        check_clusters(study, loss, losses[loss], images)
    files: dict[str, Any] = {"images": images.resolved(own.scale, own.seeds[0])}
    for network in own.teachers:
        teacher = {"scale": own.scale, "seeds": own.seeds[:1], "network": network}
        files[f"teachers/{network}"] = teacher | {"fit": plain(fits["teacher"])}
    for pair in own.pairs:
        rate = pair.learning_rate or fits["student"].learning_rate
        fit = plain(replace(fits["student"], learning_rate=rate))
        for loss in own.losses:
            student = {"scale": own.scale, "seeds": own.seeds, "network": pair.student, "fit": fit}
            files[f"students/{pair.name}.{loss}"] = student | losses[loss]
    table = {"pairs": [plain(pair) for pair in own.pairs], "comparisons": own.comparisons}
    picture = plain(own.pairs[0]) | {"seed": own.seeds[0], "losses": own.shown}
    alphas = {loss: losses[loss]["contrast"] for loss in own.losses}
    return files | {
        "table": {"scale": own.scale, "dataset": images.dataset} | table | {"losses": alphas, "shown": picture}
    }


if __name__ == "__main__":
    write_settings(main, OwnStudy, READERS)
