"""A study's parts: each a grid, of series and of the values that one setting takes."""

from collections.abc import Mapping
from typing import Any

from annulus.config.resolved import RUN, resolved
from annulus.config.study import Study
from annulus.errors import InputError


def part_settings(study: Study, name: str) -> dict[str, Any]:
    """What stages/study_part.py reads: the seeds, each series at each value of its sweep, and its base.

    What stands under the part's `scales` for the study's scale takes the place of the part's own.

    Raises:
        InputError: when there is no such part, or its base is no point of the grid.
    """
    part = study.row("parts", name)
    part = part | part.get("scales", {}).get(study.params.scale, {})
    sweep, base = part.get("sweep", {"keys": [], "values": [None]}), part.get("base", {})
    grid = {"series": part["series"], "value": sweep["values"]}
    if not base or any(key not in grid or value not in grid[key] for key, value in base.items()):
        raise InputError(
            f"{study.path}: parts.{name}.base: {base} is no point of this part; expected one of its series "
            f"({', '.join(part['series'])}), one of its sweep's values, or both"
        )
    points = []
    for series, settings in part["series"].items():
        for value in sweep["values"]:
            run = _run(study, f"parts.{name}.{series}", settings | dict.fromkeys(sweep["keys"], value))
            compared = [base.get("series", series), base.get("value", value)]
            points.append({"series": series, "value": value, "base": compared, "run": run})
    own = {"scale": study.params.scale, "seeds": study.params.seeds, "swept": bool(sweep["keys"])}
    return own | {"held_out_pairs": study.content.get("held_out_pairs"), "points": points}


def _run(study: Study, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return resolved(study.variant(name, settings, study.params.seeds[0]), RUN)
