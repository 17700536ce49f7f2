"""The study's parameters -> what each table and figure reads: a file for each."""

from typing import Any

from annulus.config.study import OwnStudy
from annulus.estimators.params import (
    BinaryParams,
    ConditionalParams,
    GaussiansParams,
    IdealParams,
    StaircaseParams,
    TheoremsParams,
)
from annulus.pipeline.stage import write_settings

SECTIONS = {
    "gaussians": GaussiansParams,
    "binary": BinaryParams,
    "conditional": ConditionalParams,
    "ideal": IdealParams,
    "theorems": TheoremsParams,
}


def main(study: OwnStudy) -> dict[str, Any]:
    found = {name: study.section(name, model) for name, model in SECTIONS.items()}
    for name in study.content["staircases"]:
        found[f"staircase-{name}"] = study.section(f"staircases.{name}", StaircaseParams)
    own = {"scale": study.params.scale, "seeds": study.params.seeds}
    return {name: own | {"params": section.model_dump(mode="json")} for name, section in found.items()}


if __name__ == "__main__":
    write_settings(main, OwnStudy)
