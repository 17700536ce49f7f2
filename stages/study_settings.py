"""Parameters of a study of parts -> settings of its images and of each part: a file for each."""

from typing import Any

from annulus_lab.config.resolved import IMAGES, resolved
from annulus_lab.studies.shared.grid import PartsParams, part_settings
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import Study

READERS = {"images": "study_images", "parts": "study_part"}


def main(study: Study) -> dict[str, Any]:
    own, base = study.read(PartsParams), study.variant("images", {}, study.params.seeds[0])
    parts = {f"parts/{part}": part_settings(study, part) for part in own.parts}
    return {"images": resolved(base, IMAGES)} | parts


if __name__ == "__main__":
    write_settings(main, Study, READERS)
