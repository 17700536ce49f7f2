"""Parts of a study: each part is a grid of series and of the values of one setting."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import MinLen

from annulus.errors import InputError, abridge, nearest
from annulus.settings import Rule, Section, Steps
from annulus_lab.config.file import checked
from annulus_lab.config.params import Name, Names, each_once
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared.study import Settings, Study, StudyParams


def _points(values: list[Any]) -> None:
    for value in values:
        if isinstance(value, dict | list):
            raise ValueError(f"{abridge(value)} is not a value of a setting; expected numbers or words")
    each_once(values)


SweptValues = Annotated[list[Any], MinLen(1), Rule(_points)]


@dataclass(frozen=True, kw_only=True)
class Sweep(Section):
    """Keys of one setting, and its values."""

    keys: Names
    values: SweptValues


@dataclass(frozen=True, kw_only=True)
class GridPart(Section):
    """Grid: series of settings at each value of a sweep, with gains over `base`."""

    optional = True
    figure: str = "none"  # the papers' figure or table that it repeats
    base: dict[str, Any]
    sweep: Sweep | None = None  # none: the figure is accuracy over epochs
    series: Annotated[dict[str, Settings], MinLen(1)]
    scales: dict[str, Settings] = field(default_factory=dict)  # changes of the part at a scale


@dataclass(frozen=True, kw_only=True)
class PartsParams(StudyParams):
    """params.yaml of a study of parts."""

    parts: Annotated[dict[Name, GridPart], MinLen(1)]
    across: Name  # column of the metrics across which dvc.yaml plots the linear probe
    closeness_views: Steps | None = None  # views whose closest rows each run measures
    held_out_pairs: Steps | None = None  # unseen images whose two views give the information estimate


def part_settings(study: Study, name: str) -> dict[str, Any]:
    """Settings of stages/study_part.py: the seeds, each series at each value of its sweep, and its base.

    Keys of the part's `scales` for the study's scale replace the part's own.

    Raises:
        InputError: when the part does not exist, its base is not in the grid, or runs do not measure its number.
    """
    part = _part(study, name)
    keys, values = (part.sweep.keys, part.sweep.values) if part.sweep else ([], [None])
    grid = {"series": list(part.series)} | ({"value": values} if part.sweep else {})
    if not part.base or any(key not in grid or value not in grid[key] for key, value in part.base.items()):
        raise InputError(
            f"{study.path}: parts.{name}.base: {abridge(part.base)} is not a point of this part; expected one of its "
            f"series ({', '.join(part.series)}), one of its sweep's values, or both"
        )
    points = []
    for series, settings in part.series.items():
        for value in values:
            run = study.variant(f"parts.{name}.{series}", settings | dict.fromkeys(keys, value), study.params.seeds[0])
            if not keys and run.get("datasets.${dataset}").validation_fraction == 0:
                raise InputError(
                    f"{study.path}: parts.{name} shows validation accuracy over epochs, and "
                    f"datasets.{run.dataset}.validation_fraction is 0; give it 0.1, say"
                )
            compared = [part.base.get("series", series), part.base.get("value", value)]
            points.append({"series": series, "value": value, "base": compared, "run": resolved(run, RUN)})
    own = {"scale": study.params.scale, "seeds": study.params.seeds, "swept": bool(keys)}
    return own | {"held_out_pairs": study.content.get("held_out_pairs"), "points": points} | study.measured


def _part(study: Study, name: str) -> GridPart:
    """Part with the settings of the study's scale; checks the settings of other scales too."""
    row, where = study.row("parts", name), f"{study.path}: parts.{name}"
    part = checked(row, where, GridPart)
    for scale in part.scales:
        if scale not in study.params.scales:
            raise InputError(f"{where}.scales: {scale!r} is not a scale{nearest(scale, study.params.scales)}")
    at_scales = {scale: checked(row | own, f"{where}.scales.{scale}", GridPart) for scale, own in part.scales.items()}
    return at_scales.get(study.params.scale, part)
