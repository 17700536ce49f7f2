"""Parameters of the study -> settings of its stages."""

from dataclasses import dataclass
from typing import Any

from annulus_lab.config.params import plain
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import OwnParams, OwnStudy
from annulus_lab.studies.spirals.spirals_params import SearchParams, SpiralsParams

READERS = {"spirals": "spirals/spirals", "search": "spirals/search"}


@dataclass(frozen=True, kw_only=True)
class SpiralsStudyParams(OwnParams):
    """The study's params.yaml."""

    spirals: SpiralsParams
    search: SearchParams


def main(study: OwnStudy) -> dict[str, Any]:
    study.read(SpiralsStudyParams)
    own, params = {"scale": study.params.scale, "seeds": study.params.seeds}, study.section("spirals", SpiralsParams)
    searched = study.section("search", SearchParams).variants(params, f"{study.path}: search.settings")
    return {
        "spirals": own | {"params": plain(params)},
        "search": own | {"settings": {name: plain(spirals) for name, spirals in searched.items()}},
    }


if __name__ == "__main__":
    write_settings(main, OwnStudy, READERS)
