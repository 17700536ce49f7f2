"""The study's parameters -> what its stage reads."""

from typing import Any

from annulus.config.study import OwnStudy
from annulus.pipeline.stage import write_settings
from annulus.toys.params import SpiralsParams


def main(study: OwnStudy) -> dict[str, Any]:
    params = study.section("spirals", SpiralsParams).model_dump(mode="json")
    return {"spirals": {"scale": study.params.scale, "seeds": study.params.seeds, "params": params}}


if __name__ == "__main__":
    write_settings(main, OwnStudy)
