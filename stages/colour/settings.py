"""Parameters of the study -> settings of its images and runs: a file for each data set, and one for all spaces."""

from dataclasses import dataclass
from typing import Any

from annulus.evals.segmentation_settings import SegmentationSettings
from annulus.settings import Section, Steps
from annulus_lab.config.params import Names, kinds, plain
from annulus_lab.config.resolved import IMAGES, RUN, resolved
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import Settings, Study, StudyParams

READERS = {"images": "study_images", "spaces": "colour/spaces", "pictures": "colour/pictures"}


@dataclass(frozen=True, kw_only=True)
class ColourSets(Section):
    """For each scale, the training images with one class, and the images with a class for each pixel."""

    labelled: dict[str, Settings]
    segmented: dict[str, Settings]


@dataclass(frozen=True, kw_only=True)
class PictureParams(Section):
    """Rows and columns of the picture: images above their masks."""

    rows: Steps
    columns: Steps


@dataclass(frozen=True, kw_only=True)
class ColourParams(StudyParams):
    """The study's params.yaml."""

    held_out_pairs: Steps
    spaces: dict[str, Names]
    sets: ColourSets
    decoders: dict[str, SegmentationSettings]
    pictures: dict[str, PictureParams]


def main(study: Study) -> dict[str, Any]:
    own = study.read(ColourParams)
    scale, seed = own.scale, own.seeds[0]
    sets = {name: study.value_at_scale(getattr(own.sets, name), f"sets.{name}") for name in kinds(ColourSets)}
    images = {
        f"images/{name}": resolved(study.variant(f"sets.{name}.{scale}", settings, seed), IMAGES)
        for name, settings in sets.items()
    }
    points = [
        {"space": space, "run": resolved(study.variant(f"spaces.{scale}", settings, seed), RUN)}
        for space in study.value_at_scale(own.spaces, "spaces")
        for settings in [sets["labelled"] | {"split": space}]
    ]
    spaces = {"scale": scale, "seeds": own.seeds, "held_out_pairs": own.held_out_pairs}
    spaces |= {"decoder": plain(study.value_at_scale(own.decoders, "decoders")), "points": points}
    return images | {"spaces": spaces, "pictures": plain(study.value_at_scale(own.pictures, "pictures"))}


if __name__ == "__main__":
    write_settings(main, Study, READERS)
