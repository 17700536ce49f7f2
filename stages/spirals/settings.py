"""The study's parameters -> settings of its stages."""

from dataclasses import dataclass
from typing import Any

from annulus.config.params import plain
from annulus.studies.settings_files import write_settings
from annulus.studies.spirals.spirals_params import SearchParams, SpiralsParams
from annulus.studies.study import OwnParams, OwnStudy


@dataclass(frozen=True, kw_only=True)
class Params(OwnParams):
    """The study's params.yaml."""

    spirals: SpiralsParams
    search: SearchParams


def main(study: OwnStudy) -> dict[str, Any]:
    study.read(Params)
    own, params = {"scale": study.params.scale, "seeds": study.params.seeds}, study.section("spirals", SpiralsParams)
    searched = study.section("search", SearchParams).of(params, f"{study.path}: search.settings")
    return {
        "spirals": own | {"params": plain(params)},
        "search": own | {"settings": {name: plain(spirals) for name, spirals in searched.items()}},
    }


if __name__ == "__main__":
    write_settings(main, OwnStudy)
