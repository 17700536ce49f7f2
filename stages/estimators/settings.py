"""Parameters of the study -> settings of each table and figure: a file for each."""

from dataclasses import dataclass
from typing import Any

from annulus_lab.config.params import Name, plain
from annulus_lab.studies.estimators.estimators_params import (
    BinaryParams,
    ConditionalParams,
    GaussiansParams,
    IdealParams,
    StaircaseParams,
    TheoremsParams,
)
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import OwnParams, OwnStudy

READERS = {
    "gaussians": "estimators/gaussians",
    "binary": "estimators/binary",
    "staircases": "estimators/staircase",
    "conditional": "estimators/conditional",
    "ideal": "estimators/ideal",
    "theorems": "estimators/theorems",
}


@dataclass(frozen=True, kw_only=True)
class EstimatorsParams(OwnParams):
    """The study's params.yaml."""

    gaussians: GaussiansParams
    binary: BinaryParams
    conditional: ConditionalParams
    ideal: IdealParams
    theorems: TheoremsParams
    staircases: dict[Name, StaircaseParams]


SECTIONS = ("gaussians", "binary", "conditional", "ideal", "theorems")


def main(study: OwnStudy) -> dict[str, Any]:
    params = study.read(EstimatorsParams)
    sections = {name: study.section(name, type(getattr(params, name))) for name in SECTIONS}
    for name in params.staircases:
        sections[f"staircases/{name}"] = study.section(f"staircases.{name}", StaircaseParams)
    own = {"scale": params.scale, "seeds": params.seeds}
    return {name: own | {"params": plain(section)} for name, section in sections.items()}


if __name__ == "__main__":
    write_settings(main, OwnStudy, READERS)
