"""Parameters of the study -> settings of its images and runs: a file for each data set, and one for all offsets."""

from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import MinLen

from annulus.errors import InputError
from annulus.settings import Rule, Section, Steps
from annulus_lab.config.params import each_once, kinds
from annulus_lab.config.resolved import IMAGES, RUN, resolved
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import Settings, Study, StudyParams

OFFSET = "view_sets.patches.patches.offset"

READERS = {"images": "study_images", "offsets": "distance/offsets"}


@dataclass(frozen=True, kw_only=True)
class DistanceSets(Section):
    """For each scale, the training images, and the image sets of the probes."""

    large: dict[str, Settings]
    first: dict[str, Settings]
    second: dict[str, Settings]


@dataclass(frozen=True, kw_only=True)
class PatchPairParams(Section):
    """Distances between two patches, and number of pairs of unseen images for the information estimate."""

    held_out_pairs: Steps
    offsets: Annotated[list[int], MinLen(1), Rule(each_once)]  # pixels; gains are over the first


@dataclass(frozen=True, kw_only=True)
class DistanceParams(StudyParams):
    """The study's params.yaml."""

    sets: DistanceSets
    pairs: dict[str, PatchPairParams]


def main(study: Study) -> dict[str, Any]:
    own = study.read(DistanceParams)
    scale, seed, pairs = own.scale, own.seeds[0], study.value_at_scale(own.pairs, "pairs")
    sets = {name: study.value_at_scale(getattr(own.sets, name), f"sets.{name}") for name in kinds(DistanceSets)}
    variants = {name: study.variant(f"sets.{name}.{scale}", settings, seed) for name, settings in sets.items()}
    images = {f"images/{name}": resolved(params, IMAGES) for name, params in variants.items()}
    points = [
        {"offset": offset, "run": resolved(study.variant(f"pairs.{scale}.offsets", apart, seed), RUN)}
        for offset in pairs.offsets
        for apart in [sets["large"] | {OFFSET: offset}]
    ]
    names = {name: variants[name].dataset for name in ("first", "second")}
    if names["first"] == names["second"]:  # the rows of one would replace the other's
        raise InputError(f"{study.path}: sets: first and second are both {names['first']}; take two data sets")
    offsets = {"scale": scale, "seeds": own.seeds, "held_out_pairs": pairs.held_out_pairs}
    return images | {"offsets": offsets | {"sets": names, "points": points}}


if __name__ == "__main__":
    write_settings(main, Study, READERS)
