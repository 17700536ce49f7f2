"""Parameters -> settings of the images, each part and the estimates: a file for each."""

from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le, MinLen

from annulus.errors import InputError
from annulus.settings import Rows, Rule, Section
from annulus_lab.config.params import Name, each_once, plain
from annulus_lab.config.resolved import IMAGES, RUN, resolved
from annulus_lab.studies.shared.grid import GridPart, part_settings
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import Settings, Study, StudyParams

READERS = {"images": "study_images", "parts": "study_part", "estimates": "negatives/estimates"}


@dataclass(frozen=True, kw_only=True)
class EstimatesParams(Section):
    """Estimate with a frozen encoder: negatives are drawn `repeats` times."""

    queries: Rows
    repeats: Annotated[int, Ge(2), Le(10**6)]
    counts: Annotated[list[Rows], MinLen(1), Rule(each_once)]  # of negatives
    samplers: Annotated[dict[str, Settings], MinLen(1)]


@dataclass(frozen=True, kw_only=True)
class NegativesParams(StudyParams):
    """The study's params.yaml."""

    parts: Annotated[dict[Name, GridPart], MinLen(1)]
    estimates: EstimatesParams


def main(study: Study) -> dict[str, Any]:
    params = study.read(NegativesParams)
    own, chosen = {"scale": params.scale, "seeds": params.seeds}, params.estimates
    base = study.variant("estimates", {}, study.params.seeds[0])
    if (base.method, base.split) != ("ir", "none"):
        raise InputError(
            f"{study.path}: defaults: method {base.method!r} with split {base.split!r}: the estimates score views "
            "against the one memory bank of `ir` without a split; set these, and vary others in `parts`"
        )
    files = {"images": resolved(base, IMAGES)}
    for part in params.parts:
        files[f"parts/{part}"] = part_settings(study, part)
    samplers = {
        name: resolved(
            study.variant(f"estimates.samplers.{name}", choice, study.params.seeds[0]), ["samplers.${sampler}"]
        )
        for name, choice in chosen.samplers.items()
    }
    return files | {"estimates": own | plain(chosen) | {"run": resolved(base, RUN), "samplers": samplers}}


if __name__ == "__main__":
    write_settings(main, Study, READERS)
