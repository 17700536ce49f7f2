"""Studies, or parts of them, outside of the papers' claims, tables and figures, such as a user's own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annulus.errors import InputError
from annulus_lab.config.file import checked
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.claims.verdicts import CLAIMS
from annulus_lab.report.figures.catalogue import LAWS, PLOTS
from annulus_lab.report.figures.gains import GENERATED, LONG, REAL, WITHOUT_VERDICT, interval, verdict_sentences
from annulus_lab.report.figures.parts import part_plot
from annulus_lab.report.page.part_tables import measurements_table, points_table
from annulus_lab.report.page.sections import Empty, Gains, PageFigure, figure, gains, part
from annulus_lab.report.papers.comparison import load_measured
from annulus_lab.report.papers.metrics import Metrics, Row
from annulus_lab.report.papers.setting import read_setting, study_params
from annulus_lab.report.papers.tables import Table
from annulus_lab.studies.shared.grid import GridPart
from annulus_lab.studies.shared.study import study_content


@dataclass(frozen=True)
class FurtherPart:
    """A part's gains and further measurements, and its figure if it has one."""

    verdict_summary: str
    gains: Table
    measurements: Table
    figure: PageFigure | None


@dataclass(frozen=True)
class FurtherStudy:
    """A study with its parts or rows that no other section has; an Empty if one was not run."""

    name: str
    parts: dict[str, FurtherPart | Empty]
    rows: Gains | Empty | None = None


def further_studies(metrics: Metrics) -> list[FurtherStudy]:
    """Returns every study of stages/ with such parts or rows. The context reports an unreadable params.yaml."""
    studies, elsewhere = [], _files_elsewhere()
    for path in sorted(metrics.root.glob("stages/*/params.yaml")):
        study = path.parent.name
        try:
            content = study_content(path)
        except InputError:
            continue
        own = [name for name in _names(content.get("parts")) if not _files(study, name) & elsewhere]
        table = f"{study}/table.csv"
        if content.get("of") == "algorithms" and table not in elsewhere:
            studies.append(FurtherStudy(study, {}, gains(metrics, table, f"the images of {study}")))
        elif own:
            studies.append(FurtherStudy(study, {name: _part(metrics, study, name) for name in own}))
    return studies


def _files_elsewhere() -> set[str]:
    """Returns the files of all claims, tables and figures, and of the report's own sections."""
    claimed = {number.file for claim in CLAIMS for number in claim.values.values()}
    tables = {measured.file for measured in load_measured().values()}
    return claimed | tables | {REAL, GENERATED, LONG} | {file for plot in (*PLOTS, *LAWS) for file in plot.files}


def _names(parts: object) -> list[str]:
    """Returns the names that can be file names; the study's settings stage rejects others."""
    sections = parts if isinstance(parts, dict) else {}
    return [name for name in sections if isinstance(name, str) and re.fullmatch(r"[\w-]+", name)]


def _files(study: str, name: str) -> set[str]:
    return {f"{study}/{name}.csv", f"{study}/{name}_figure.csv"}


def _part(metrics: Metrics, study: str, name: str) -> FurtherPart | Empty:
    file = f"{study}/{name}.csv"

    def make() -> FurtherPart:
        rows = metrics.rows(file)
        label = _setting_name(study_params(metrics.root / f"stages/{study}/params.yaml"), name, rows[0])
        plot = part_plot(study, name, rows, label)
        about = f"{metrics_path(file)}: {read_setting(metrics, file, rows[0])}"
        return FurtherPart(
            _verdict_summary(rows),
            points_table(f"Accuracies, and gains over the rows of the base, ± 95 %. {about}", rows, label),
            measurements_table(f"Further numbers, ± 95 %. {about}", rows, label),
            figure(plot, metrics, []) if plot else None,
        )

    return part(make, metrics, file)


def _setting_name(params: Mapping[str, Any], name: str, row: Row) -> str:
    """Returns the last word of the keys that a part's sweep sets; `value` if the study's parameters are unknown."""
    content = params["parts"][name] if params else None
    if not isinstance(content, dict):
        return "value"
    try:
        at_scale = checked(content, name, GridPart).scales.get(row.get("scale"), {})
        sweep = checked(content | at_scale, name, GridPart).sweep
    except InputError:
        return "value"
    return ", ".join(dict.fromkeys(key.rpartition(".")[2].replace("_", " ") for key in sweep.keys)) if sweep else ""


def _verdict_summary(rows: Sequence[Row]) -> str:
    """Returns sentences that count the verdicts on the linear probe's differences from the base."""
    words = {row.get("linear_verdict") for row in rows}
    compared = [row for row in rows if row.get("linear_verdict", "base") not in ("base", *WITHOUT_VERDICT)]
    if not compared:
        return "One seed: no difference has a verdict." if "one seed" in words else ""
    differences = [interval(row, "linear_gain_percent") for row in compared]
    return f"Linear probe: {verdict_sentences([str(row['linear_verdict']) for row in compared], differences)}"
