"""Parameters of the study -> settings of its images and its table."""

from dataclasses import dataclass
from typing import Any

from annulus_lab.config.params import plain
from annulus_lab.studies.moving_digits.digits_params import DigitsTrainingParams, WorldParams
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import OwnParams, OwnStudy

READERS = {"images": "moving_digits/images", "table": "moving_digits/table"}


@dataclass(frozen=True, kw_only=True)
class MovingDigitsParams(OwnParams):
    """The study's params.yaml."""

    world: WorldParams
    training: DigitsTrainingParams


def main(study: OwnStudy) -> dict[str, Any]:
    study.read(MovingDigitsParams)
    world = plain(study.section("world", WorldParams))
    training = plain(study.section("training", DigitsTrainingParams))
    seeds = study.params.seeds
    images = {"seeds": seeds, "world": world, "sharings": training["sharings"]}
    return {
        "images": images,
        "table": {"scale": study.params.scale, "seeds": seeds, "world": world, "training": training},
    }


if __name__ == "__main__":
    write_settings(main, OwnStudy, READERS)
