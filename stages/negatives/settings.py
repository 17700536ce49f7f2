"""The parameters -> settings of the images, each part and the estimates: a file for each."""

from typing import Annotated, Any

from pydantic import Field

from annulus.config.params import Name, Params
from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.settings import Rows
from annulus.studies.grid import Part, part_settings
from annulus.studies.settings_files import write_settings
from annulus.studies.study import Settings, Study, StudyParams


class EstimatesParams(Params):
    """The estimate with a trained encoder held fixed: negatives are drawn `repeats` times."""

    queries: Rows
    repeats: int = Field(ge=2, le=10**6)
    counts: Annotated[list[Rows], Field(min_length=1)]  # of negatives
    samplers: Annotated[dict[str, Settings], Field(min_length=1)]


class NegativesParams(StudyParams):
    """The study's params.yaml."""

    parts: Annotated[dict[Name, Part], Field(min_length=1)]
    estimates: EstimatesParams


def main(study: Study) -> dict[str, Any]:
    params = study.read(NegativesParams)
    own, chosen = {"scale": params.scale, "seeds": params.seeds}, params.estimates
    base = study.variant("estimates", {}, study.params.seeds[0])
    files = {"images": resolved(base, IMAGES)}
    for part in params.parts:
        files[f"parts/{part}"] = part_settings(study, part)
    samplers = {
        name: resolved(
            study.variant(f"estimates.samplers.{name}", choice, study.params.seeds[0]), ["samplers.${sampler}"]
        )
        for name, choice in chosen.samplers.items()
    }
    return files | {"estimates": own | chosen.model_dump() | {"run": resolved(base, RUN), "samplers": samplers}}


if __name__ == "__main__":
    write_settings(main, Study)
