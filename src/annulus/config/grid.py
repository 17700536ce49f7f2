"""A study's parts: each a grid, of series and of the values that one setting takes."""

from typing import Any

from annulus.config.resolved import RUN, resolved
from annulus.config.study import Study
from annulus.errors import InputError


def part_settings(study: Study, name: str) -> dict[str, Any]:
    """What stages/study_part.py reads: the seeds, each series at each value of its sweep, and its base.

    What stands under the part's `scales` for the study's scale takes the place of the part's own.

    Raises:
        InputError: when there is no such part, its base is no point of the grid, or it shows what nothing measures.
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
            changed = settings | dict.fromkeys(sweep["keys"], value)
            run = study.variant(f"parts.{name}.{series}", changed, study.params.seeds[0])
            if not sweep["keys"] and run.get("datasets.${dataset}").validation_fraction == 0:
                raise InputError(
                    f"{study.path}: parts.{name} shows validation accuracy over epochs, and "
                    f"datasets.{run.dataset}.validation_fraction is 0; give it 0.1, say"
                )
            compared = [base.get("series", series), base.get("value", value)]
            points.append({"series": series, "value": value, "base": compared, "run": resolved(run, RUN)})
    own = {"scale": study.params.scale, "seeds": study.params.seeds, "swept": bool(sweep["keys"])}
    return own | {"held_out_pairs": study.content.get("held_out_pairs"), "points": points}
