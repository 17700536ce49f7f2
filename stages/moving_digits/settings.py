"""The study's parameters -> settings of its images and its table."""

from dataclasses import dataclass
from typing import Any

from annulus.config.params import plain
from annulus.studies.moving_digits.digits_params import TrainingParams, WorldParams
from annulus.studies.settings_files import write_settings
from annulus.studies.study import OwnParams, OwnStudy


@dataclass(frozen=True, kw_only=True)
class Params(OwnParams):
    """The study's params.yaml."""

    world: WorldParams
    training: TrainingParams


def main(study: OwnStudy) -> dict[str, Any]:
    study.read(Params)
    world = plain(study.section("world", WorldParams))
    training = plain(study.section("training", TrainingParams))
    seeds = study.params.seeds
    images = {"seeds": seeds, "world": world, "sharings": training["sharings"]}
    return {
        "images": images,
        "table": {"scale": study.params.scale, "seeds": seeds, "world": world, "training": training},
    }


if __name__ == "__main__":
    write_settings(main, OwnStudy)
