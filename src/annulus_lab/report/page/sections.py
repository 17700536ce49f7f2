"""Parts of the report from their files: a table, a figure or pictures, or why a part is empty."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

from annulus.files.regular import read_text
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.pipeline.stale import is_other
from annulus_lab.report.claims.verdicts import Verdict
from annulus_lab.report.figures import law
from annulus_lab.report.figures.catalogue import FINDINGS, LAWS, Plot, comparisons
from annulus_lab.report.figures.drawing import svg, with_tooltips
from annulus_lab.report.figures.gains import compared, finding, surviving, verdict_summary
from annulus_lab.report.figures.pictures import NoPictures, Pictures, pictures
from annulus_lab.report.page.first_screen import FILE, OtherRun
from annulus_lab.report.page.law_table import law_table
from annulus_lab.report.page.seed_tables import gains_table, pairs_table, seed_table
from annulus_lab.report.papers.algorithms import algorithms_in_words
from annulus_lab.report.papers.comparison import load_figures, load_tables
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing
from annulus_lab.report.papers.setting import read_setting
from annulus_lab.report.papers.tables import Table, values_table

Made = TypeVar("Made")

MAP = "main/map.svg"
MOST_BYTES = 400_000  # of a drawing
# What `annulus picture` draws, under metrics/: its option, title, and what is to be seen.
DRAWINGS = {
    "figures/annulus.svg": ("", "The memory around one query", "Distance from the centre is the angle to the query."),
    "figures/annealing.svg": (
        " --annealing",
        "The same query's negatives while training goes on",
        "Coloured: the rows that negatives are drawn from, at several epochs in one scale; every fourth row is drawn.",
    ),
}
OF_CLASSES = {"main/knn.json", "main/linear.json", "main/confusion.csv", FILE}  # files, and names of figures
OF_CLASSES |= {"curve.accuracy", "curve.linear", "diagnostics.false-negatives"}


@dataclass(frozen=True)
class Empty:
    """Why a part of the report has nothing to show: not there yet (with the command that makes it), or broken."""

    reason: str
    command: str | None = None
    broken: bool = False


NO_CLASS = Empty("the images have no class, so nothing is measured by classes")


@dataclass(frozen=True)
class Shown:
    """A figure as the page has it, or why it could not be drawn."""

    plot: Plot
    where: str
    finding: str
    setting: str
    verdicts: list[Verdict]
    svg: str | Empty

    @property
    def said(self) -> str:
        """What is to be seen; in a figure of a paper, what the paper says of it."""
        quoted = self.where and self.finding and self.plot.section == "papers"
        return f"The paper: {self.finding}" if quoted else self.finding

    @property
    def wide(self) -> bool:
        """Whether it has panels side by side."""
        size = None if isinstance(self.svg, Empty) else re.search(r'viewBox="0 0 ([\d.]+)', self.svg)
        return size is not None and float(size[1]) > 400


@dataclass(frozen=True)
class FigureDrawing:
    """A drawing as a data: URI, which runs no script."""

    title: str
    finding: str
    source: str


@dataclass(frozen=True)
class Map:
    """The map of the embeddings as a data: URI for a frame in which nothing runs but CSS; its size."""

    source: str
    width: int
    height: int
    of: Literal["classes", "no classes"]


@dataclass(frozen=True)
class Gains:
    """The algorithms against their bases: which differ, how many, each table of the papers as a figure and in numbers.

    The last table is of further pairs, where the study has some.
    """

    finding: str
    verdict_summary: str
    figures: list[Shown]
    tables: list[Table]


@dataclass(frozen=True)
class Law:
    """The law: the sentence of its first figure, or its title where there is none, and what orders the gains."""

    finding: str
    figures: list[Shown]
    correlations: Table | Empty


def flat(metrics: Metrics, name: str, caption: str) -> Table | Empty:
    return part(lambda: values_table(caption, metrics.values(name)), metrics, name)


def by_seed(metrics: Metrics, name: str, caption: str) -> Table | Empty:
    return part(lambda: seed_table(caption, metrics.by_seed(name)), metrics, name)


def gains(metrics: Metrics, file: str, images: str) -> Gains | Empty:
    """What each algorithm of a study gains over its base on these images."""

    def make() -> Gains:
        rows = metrics.rows(file)
        words = algorithms_in_words(metrics.root, file.partition("/")[0])
        figures = [_explained(figure(plot, metrics, []), words) for plot in comparisons(rows, file)]
        stand = surviving(rows)
        tables = [gains_table(_caption(figure), compared(rows)[figure.plot.of], words, stand) for figure in figures]
        pairs = part(lambda: pairs_table(metrics.rows(pairs_file)), metrics, pairs_file)
        return Gains(finding(rows, images), verdict_summary(rows), figures, tables + [pairs] * isinstance(pairs, Table))

    pairs_file = f"{file.partition('/')[0]}/pairs.csv"
    return part(make, metrics, file)


def _explained(figure: Shown, words: Mapping[tuple[str, str], str]) -> Shown:
    """The figure with a tooltip at each method of its table."""
    if isinstance(figure.svg, Empty):
        return figure
    tooltips = {method: line for (table, method), line in words.items() if table == figure.plot.of}
    return replace(figure, svg=with_tooltips(figure.svg, tooltips))


def when_samplers_help(metrics: Metrics) -> Law:
    """Gains of the samplers against how hard uniform negatives are."""
    real = LAWS[0]
    said = part(lambda: law.finding(*map(metrics.rows, real.files)), metrics, " or ".join(real.files))
    return Law(
        real.title if isinstance(said, Empty) else said,
        [figure(plot, metrics, []) for plot in LAWS],
        _correlations(metrics, real.files),
    )


def _correlations(metrics: Metrics, files: Sequence[str]) -> Table | Empty:
    """Correlations of the gains in the law's own files, and with the controls that have run."""
    controls = {name: part(partial(metrics.rows, name), metrics, name) for name in law.CONTROLS}
    ran = {name: rows for name, rows in controls.items() if not isinstance(rows, Empty)}
    return part(lambda: law_table(law.point_sets(map(metrics.rows, files), ran)), metrics, " or ".join(files))


def _caption(figure: Shown) -> str:
    return f"{figure.plot.title}. {' '.join(f'{words}.' for words in (figure.where, figure.setting) if words)}"


def drawings(root: Path) -> list[FigureDrawing | Empty]:
    """The pictures of the annulus, or why one is not there."""
    return [_drawing(root, name, *about) for name, about in DRAWINGS.items()]


def _drawing(root: Path, name: str, option: str, title: str, finding: str) -> FigureDrawing | Empty:
    path, command = root / "metrics" / name, f"annulus picture{option} --svg metrics/{name}"
    try:
        if path.stat().st_size > MOST_BYTES:
            return Empty(f"metrics/{name} has more than {MOST_BYTES} bytes", command, broken=True)
        # Whole units of its thousand across: a tenth would not be seen.
        content = re.sub(r"(\d+\.\d)(?=[ hM])", lambda match: f"{float(match[1]):.0f}", read_text(path))
        return FigureDrawing(title, finding, _uri(content))
    except (OSError, UnicodeDecodeError):
        return Empty(f"metrics/{name} is not there", command)


def _uri(content: str) -> str:
    """An SVG as a data: URI."""
    return "data:image/svg+xml," + quote(content, safe=" =:/;,()'!*@&?$~+")


def embedding_map(metrics: Metrics) -> Map | Empty:
    """The map of the main line's embeddings."""
    path, command = metrics.root / "metrics" / MAP, metrics.command(MAP)
    try:
        current_metrics(metrics, MAP)
        if path.stat().st_size > MOST_BYTES:
            return Empty(f"metrics/{MAP} has more than {MOST_BYTES} bytes", command, broken=True)
        content = read_text(path)
    except OtherRun as error:
        return Empty(str(error), command)
    except (OSError, UnicodeDecodeError):
        return Empty(f"metrics/{MAP} is not there", command)
    if (size := re.search(r'viewBox="0 0 (\d+) (\d+)"', content)) is None:
        return Empty(f"metrics/{MAP} is no map of this version", command, broken=True)
    source = _uri(content)
    return Map(source, int(size[1]), int(size[2]), "classes" if "coloured by class" in content else "no classes")


def part(make: Callable[[], Made], metrics: Metrics, name: str) -> Made | Empty:
    """What `make` gives of the file `name`, or of several files of one study, or why it is empty."""
    if name in OF_CLASSES and without_classes(metrics):
        return NO_CLASS
    try:
        return make()
    except Missing as error:
        return Empty(f"{metrics_path(error.name)} is not there", error.command)
    except OtherRun as error:
        return Empty(str(error), metrics.command(name))
    except Broken as error:
        return Empty(str(error), metrics.command(name), broken=True)
    except ValueError as error:
        return Empty(str(metrics.fault(name, str(error))), metrics.command(name), broken=True)


def current_metrics(metrics: Metrics, name: str) -> Metrics:
    """The metrics, if this file of the main line is the one that dvc.lock names.

    Raises:
        OtherRun: where it is not.
    """
    if is_other(metrics.root, f"metrics/{name}"):
        raise OtherRun(f"metrics/{name} is of another run than dvc.lock names")
    return metrics


def without_classes(metrics: Metrics) -> bool:
    """Whether no image of the main line has a class."""
    try:
        return metrics.values("main/prepare.json").get("classes") == 0
    except (Missing, Broken):
        return False


def figure(plot: Plot, metrics: Metrics, claim_verdicts: Sequence[Verdict]) -> Shown:
    """One figure, drawn or with the reason why not."""
    of = plot.of or plot.name
    paper = load_figures().get(of)
    known = paper or next((table for table in load_tables() if table.id == of), None)
    where = f"{of.partition('.')[0]}, {known.where}" if known else ""
    finding = FINDINGS.get(plot.name) or FINDINGS.get(of) or (paper.finding if paper else "")
    about = [verdict for verdict in claim_verdicts if of in verdict.where]
    files = " or ".join(plot.files)
    if plot.name in OF_CLASSES and without_classes(metrics):
        return Shown(plot, where, finding, "", about, NO_CLASS)
    rows = part(lambda: [metrics.rows(file) for file in plot.files], metrics, files)
    if isinstance(rows, Empty):
        return Shown(plot, where, finding, "", about, rows)
    sources = zip(plot.files, rows, strict=True)
    setting = "; ".join(
        dict.fromkeys(str(read_setting(metrics, file, of[-1])) for file, of in sources)
    )  # a teacher is first
    drawn = part(lambda: svg(lambda: plot.draw(*rows), plot.name, f"{plot.title}. {finding}"), metrics, files)
    return Shown(plot, where, finding, setting, about, drawn)


def grids(root: Path) -> Pictures | Empty:
    try:
        return pictures(root)
    except NoPictures as error:
        return Empty(error.reason, error.command, broken=error.command is None)
