"""The parameters -> what the images, each part and the estimates read: a file for each."""

from collections.abc import Mapping
from typing import Any

from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.config.study import Study
from annulus.errors import InputError
from annulus.pipeline.stage import write_settings


def main(study: Study) -> dict[str, Any]:
    own, chosen = {"scale": study.params.scale, "seeds": study.params.seeds}, study.content["estimates"]
    base = study.variant("estimates", {}, study.params.seeds[0])
    files = {"images": resolved(base, IMAGES)}
    for part in study.content["parts"]:
        files[f"parts/{part}"] = own | points(study, part, study.row("parts", part))
    samplers = {
        name: resolved(
            study.variant(f"estimates.samplers.{name}", choice, study.params.seeds[0]), ["samplers.${sampler}"]
        )
        for name, choice in chosen["samplers"].items()
    }
    return files | {"estimates": own | chosen | {"run": resolved(base, RUN), "samplers": samplers}}


def points(study: Study, name: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """A part's grid: each of its series at each value of its sweep, and the point that each is compared with.

    Raises:
        InputError: when the base is no point of the grid.
    """
    sweep, base = part.get("sweep", {"keys": [], "values": [None]}), part.get("base", {})
    grid = {"series": part["series"], "value": sweep["values"]}
    if not base or any(key not in grid or value not in grid[key] for key, value in base.items()):
        raise InputError(
            f"{study.path}: parts.{name}.base: {base} is no point of this part; expected one of its series "
            f"({', '.join(part['series'])}), one of its sweep's values, or both"
        )
    found = []
    for series, settings in part["series"].items():
        for value in sweep["values"]:
            setting = settings | dict.fromkeys(sweep["keys"], value)
            run = study.variant(f"parts.{name}.{series}", setting, study.params.seeds[0])
            compared = [base.get("series", series), base.get("value", value)]
            found.append({"series": series, "value": value, "base": compared, "run": resolved(run, RUN)})
    return {"swept": bool(sweep["keys"]), "points": found}


if __name__ == "__main__":
    write_settings(main, Study)
