"""Content of the report, before it becomes HTML or Markdown: every section gathered from the files that exist.

A missing file raises no error: its part is an `Empty` with the command that makes it. A damaged file's part is an
`Empty` with the fault, which the last section lists too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from annulus.diagnostics.maps import short_name
from annulus.errors import InputError
from annulus_lab.report.claims.verdicts import CLAIMS, VERDICTS, Verdict, verdict_counts, verdicts
from annulus_lab.report.figures.catalogue import PLOTS
from annulus_lab.report.figures.gains import GENERATED, LONG, REAL
from annulus_lab.report.figures.pictures import Pictures
from annulus_lab.report.page.claim_numbers import Numbers, format_numbers
from annulus_lab.report.page.context import Context, context
from annulus_lab.report.page.first_screen import FILE, HeadlineGain, gain
from annulus_lab.report.page.further_studies import FurtherStudy, further_studies
from annulus_lab.report.page.own_images import OwnImages, own_images
from annulus_lab.report.page.sections import (
    Empty,
    FigureDrawing,
    Gains,
    Law,
    Map,
    PageFigure,
    by_seed,
    current_metrics,
    drawings,
    embedding_map,
    figure,
    flat,
    gains,
    grids,
    law_section,
    part,
)
from annulus_lab.report.page.seed_tables import summary_table
from annulus_lab.report.page.sheets import Sheet, sheets
from annulus_lab.report.page.state_table import in_words, state_table
from annulus_lab.report.papers.comparison import Comparison, compare
from annulus_lab.report.papers.metrics import Broken, Metrics
from annulus_lab.report.papers.setting import processors, read_setting
from annulus_lab.report.papers.tables import (
    Cell,
    Column,
    Table,
    common_setting,
    number_cell,
    paper_table,
    value_cell,
    values_table,
    words_and_unit,
)
from annulus_lab.report.presets.overview import Commands, claim_lines, table_commands

MOST_IMAGES = 100_000  # of a test set; its confusion file has a row for each image
MAIN = {
    "main/knn.json": "Nearest neighbours of the test images",
    "main/linear.json": "Linear probe on frozen features",
    "main/pretrain.json": "Pretraining",
}


@dataclass(frozen=True)
class TableSection:
    """Section of one of the papers' tables."""

    comparison: Comparison
    table: Table
    setting: str
    verdicts: list[Verdict]
    empty: Empty | None  # reason for a missing number of ours
    claims: list[str]  # its claims by verdict
    commands: Commands | None  # at the papers' scale; None if the parameters cannot be read


@dataclass(frozen=True)
class Paper:
    """One paper, its tables and its claims, the decided ones first."""

    key: str
    title: str
    tables: list[TableSection]
    verdicts: list[Verdict]


@dataclass(frozen=True)
class PageContent:
    """All sections. A part is its content or an Empty."""

    context: Context
    own: OwnImages | None  # None if the main line trained on other images
    gain: HeadlineGain | Empty
    states: Table  # state of every table, figure and theorem of the papers
    real: Gains | Empty
    law: Law
    generated: Gains | Empty
    long: Gains | Empty
    further: list[FurtherStudy]
    drawings: list[FigureDrawing | Empty]
    map: Map | Empty
    main_setting: str | None  # of the main line, if it has run
    headline: Table | Empty
    main: list[Table | Empty]
    runs: Table | None
    confusion: Table | Empty
    speed: list[Table]
    verdicts: list[Verdict]
    numbers: dict[str, Numbers]  # of each claim
    papers: list[Paper]
    figures: list[PageFigure]
    theorems: Table | Empty
    curves: list[PageFigure]
    diagnostics: Table | Empty
    diagnostics_figures: list[PageFigure]
    pictures: Pictures | Empty
    sheets: list[Sheet | Empty]
    broken: list[Broken]
    counts: dict[str, int]

    @property
    def verdict_counts(self) -> str:
        """Count of the claims by verdict, as text."""
        return verdict_counts(self.verdicts)

    @property
    def state_counts(self) -> str:
        """Count of the papers' tables, figures and theorems by state, as text."""
        return in_words(self.states)

    @property
    def table_counts(self) -> str:
        """Count of the papers' tables with a number measured here, as text."""
        statuses = [one.comparison.status for paper in self.papers for one in paper.tables]
        return f"{statuses.count('run')} of {len(statuses)} have numbers from here"


def _gain(metrics: Metrics, about: Context) -> HeadlineGain | Empty:
    """Returns the first section, or the reason and the command that makes it in this checkout."""
    if about.outdated:
        return Empty(about.outdated[0])
    headline = part(lambda: gain(metrics), metrics, FILE)
    if not isinstance(headline, Empty) or headline.command is None:
        return headline
    if about.choices.get("sampler") == "uniform":
        return Empty("the main line's own negatives are uniform, so it gains nothing over them")
    if about.changed_files or not about.commit:
        return replace(
            headline, reason=f"{headline.reason}; commit first, since `make restore` goes back to the commit"
        )
    return headline


def gather(root: Path, now: datetime) -> PageContent:
    """Gathers all content that exists under `root`, at the time `now`."""
    metrics = Metrics(root)
    claim_verdicts = verdicts(metrics)
    comparisons = {comparison.table.id: comparison for comparison in compare(metrics)}
    claims = {claim.id: claim for claim in CLAIMS}
    figures = [figure(plot, metrics, claim_verdicts) for plot in PLOTS]
    sections = {name: [figure for figure in figures if figure.plot.section == name] for name in
                ("papers", "curves", "diagnostics")}  # fmt: skip
    tally = Counter(verdict.verdict for verdict in claim_verdicts)
    about = context(root, now)
    map_ = embedding_map(metrics)
    commands = _table_commands(root)
    bound = next(curve for curve in sections["curves"] if curve.plot.name == "curve.bound")
    return PageContent(
        context=about,
        own=own_images(metrics, map_, bound),
        gain=_gain(metrics, about),
        states=state_table(comparisons.values(), claim_verdicts, commands),
        real=gains(metrics, REAL, "CIFAR-10"),
        law=law_section(metrics),
        generated=gains(metrics, GENERATED, "generated images"),
        long=gains(metrics, LONG, "all of CIFAR-10"),
        further=further_studies(metrics),
        drawings=drawings(root),
        map=map_,
        main_setting=str(read_setting(metrics, "summary.csv")) if processors(metrics) else None,
        headline=part(lambda: summary_table(metrics.rows("summary.csv")), metrics, "summary.csv"),
        main=[
            *(by_seed(metrics, name, caption) for name, caption in MAIN.items()),
            flat(metrics, "main/prepare.json", "Images"),
        ],
        runs=_runs(metrics),
        confusion=part(
            lambda: confusion(current_metrics(metrics, "main/confusion.csv").rows("main/confusion.csv", MOST_IMAGES)),
            metrics,
            "main/confusion.csv",
        ),
        speed=_speed(metrics),
        verdicts=claim_verdicts,
        numbers={
            verdict.id: format_numbers(claims[verdict.id], verdict, metrics, comparisons) for verdict in claim_verdicts
        },
        papers=group_by_paper(comparisons.values(), claim_verdicts, commands),
        figures=sections["papers"],
        theorems=flat(metrics, "estimators/theorems.json", "Theorems on toys of known information"),
        curves=sections["curves"],
        diagnostics=by_seed(metrics, "main/diagnostics.json", "The encoder after the last epoch"),
        diagnostics_figures=sections["diagnostics"],
        pictures=grids(root),
        sheets=sheets(metrics),
        broken=metrics.broken,
        counts={verdict: tally[verdict] for verdict in VERDICTS if tally[verdict]},
    )


def confusion(rows: Sequence[Mapping[str, float | str]]) -> Table:
    """Returns the confusion matrix in percent of each true class: rows are the true class, columns the predicted class.

    Raises:
        ValueError: when a column is missing.
    """
    for column in ("actual", "predicted"):
        if column not in rows[0]:
            raise ValueError(f"has no column {column!r}")
    pairs = Counter((str(row["actual"]), str(row["predicted"])) for row in rows)
    classes = sorted({name for pair in pairs for name in pair})
    totals = Counter(str(row["actual"]) for row in rows)
    lines = []
    for actual in classes:
        cells = [number_cell(pairs[actual, predicted] * 100 / max(totals[actual], 1), 0) for predicted in classes]
        lines.append([Cell(short_name(actual)), *cells])
    columns = [Column("true class", numeric=False), *(Column(short_name(name)) for name in classes)]
    return Table("Confusion of the linear probe, percent of each true class", columns, lines)


def _table_commands(root: Path) -> Mapping[str, Commands]:
    """Returns the commands of each table; none if a parameter file has a fault, which the page prints elsewhere."""
    try:
        return table_commands(root)
    except InputError:
        return {}


def group_by_paper(
    comparisons: Iterable[Comparison], claim_verdicts: Sequence[Verdict], commands: Mapping[str, Commands]
) -> list[Paper]:
    """Returns each paper with its tables and the verdicts on its claims."""
    papers: dict[str, Paper] = {}
    ordered = sorted(claim_verdicts, key=lambda verdict: VERDICTS.index(verdict.verdict))
    for comparison in comparisons:
        key = comparison.table.id.partition(".")[0]
        claims = [verdict for verdict in ordered if verdict.paper == key]
        paper = papers.setdefault(key, Paper(key, comparison.table.paper, [], claims))
        about = [verdict for verdict in claim_verdicts if comparison.table.id in verdict.where]
        empty = None
        if comparison.reason is not None:
            empty = Empty(comparison.reason, comparison.command, comparison.status == "broken")
        own, lines = commands.get(comparison.table.id), claim_lines(comparison, claim_verdicts)
        beside = paper_table(comparison), common_setting(comparison), about
        paper.tables.append(TableSection(comparison, *beside, empty, lines, own))
    return list(papers.values())


def _runs(metrics: Metrics) -> Table | None:
    """Returns the main line's other runs whose headlines are in git, a row each, without damaged files."""
    runs = {path.stem: values for path, values in _folder(metrics, "runs")}
    if not runs:
        return None
    names = list(dict.fromkeys(name for values in runs.values() for name in values))
    rows = [[Cell(run), *(value_cell(name, values.get(name)) for name in names)] for run, values in runs.items()]
    heads = [Column("run", numeric=False), *(Column(*words_and_unit(name)) for name in names)]
    return Table("Other runs kept in git, metrics/runs/", heads, rows)


def _speed(metrics: Metrics) -> list[Table]:
    return [values_table(f"metrics/benchmarks/{p.name}", values) for p, values in _folder(metrics, "benchmarks")]


def _folder(metrics: Metrics, folder: str) -> Iterator[tuple[Path, dict[str, object]]]:
    """Returns the undamaged JSON files of a folder of metrics/."""
    for path in sorted((metrics.root / "metrics" / folder).glob("*.json")):
        name = f"{folder}/{path.name}"
        if not isinstance(part(lambda name=name: values_table("", metrics.values(name)), metrics, name), Empty):
            yield path, metrics.values(name)
