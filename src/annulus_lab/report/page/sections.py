"""Parts of the report from their files: a table, a figure, pictures, or the reason of an empty part."""

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
from annulus_lab.report.figures.gains import compared_rows, finding, surviving_keys, verdict_summary
from annulus_lab.report.figures.pictures import NoPictures, Pictures, pictures
from annulus_lab.report.page.first_screen import FILE, OtherRun
from annulus_lab.report.page.law_table import law_table
from annulus_lab.report.page.seed_tables import gains_table, pairs_table, seed_table
from annulus_lab.report.papers.algorithms import algorithms_in_words
from annulus_lab.report.papers.comparison import load_figures, load_tables
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing
from annulus_lab.report.papers.setting import read_setting
from annulus_lab.report.papers.tables import Table, values_table

Content = TypeVar("Content")

MAP = "main/map.svg"
MOST_BYTES = 400_000  # of a drawing
# Drawings of `annulus picture`, under metrics/: option, title, finding.
DRAWINGS = {
    "figures/annulus.svg": ("", "The memory around one query", "Distance from the centre is the angle to the query."),
    "figures/annealing.svg": (
        " --annealing",
        "The same query's negatives while training goes on",
        "Coloured: the rows that negatives are drawn from, at several epochs in one scale; every fourth row is drawn.",
    ),
}
CLASS_FILES = {"main/knn.json", "main/linear.json", "main/confusion.csv", FILE}  # files, and names of figures
CLASS_FILES |= {"curve.accuracy", "curve.linear", "diagnostics.false-negatives"}


@dataclass(frozen=True)
class Empty:
    """Reason of an empty part: its file is missing (with the command that makes it) or damaged."""

    reason: str
    command: str | None = None
    broken: bool = False


NO_CLASS = Empty("the images have no class, so nothing is measured by classes")


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page, or the reason if it cannot be drawn."""

    plot: Plot
    where: str
    finding: str
    setting: str
    verdicts: list[Verdict]
    svg: str | Empty

    @property
    def caption(self) -> str:
        """Caption: the finding, after "The paper: " for a paper's figure."""
        quoted = self.where and self.finding and self.plot.section == "papers"
        return f"The paper: {self.finding}" if quoted else self.finding

    @property
    def wide(self) -> bool:
        """True if the figure has panels side by side."""
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
    """The map of the embeddings as a data: URI for a frame that runs only CSS; its size."""

    source: str
    width: int
    height: int
    colours: Literal["classes", "no classes"]


@dataclass(frozen=True)
class Gains:
    """Gains over the bases: a finding, a count of verdicts, each table of the papers as a figure and in numbers.

    The last table has further pairs, if the study has some.
    """

    finding: str
    verdict_summary: str
    figures: list[PageFigure]
    tables: list[Table]


@dataclass(frozen=True)
class Law:
    """The law: its sentence (the first figure's title if there is none), figures, and correlations of the gains."""

    finding: str
    figures: list[PageFigure]
    correlations: Table | Empty


def flat(metrics: Metrics, name: str, caption: str) -> Table | Empty:
    return part(lambda: values_table(caption, metrics.values(name)), metrics, name)


def by_seed(metrics: Metrics, name: str, caption: str) -> Table | Empty:
    return part(lambda: seed_table(caption, metrics.by_seed(name)), metrics, name)


def gains(metrics: Metrics, file: str, images: str) -> Gains | Empty:
    """Returns the gain of each algorithm of a study over its base on these images."""

    def make() -> Gains:
        rows = metrics.rows(file)
        words = algorithms_in_words(metrics.root, file.partition("/")[0])
        figures = [_add_tooltips(figure(plot, metrics, []), words) for plot in comparisons(rows, file)]
        survivor_keys = surviving_keys(rows)
        tables = [
            gains_table(_caption(figure), compared_rows(rows)[figure.plot.paper_id], words, survivor_keys)
            for figure in figures
        ]
        pairs = part(lambda: pairs_table(metrics.rows(pairs_file)), metrics, pairs_file)
        return Gains(finding(rows, images), verdict_summary(rows), figures, tables + [pairs] * isinstance(pairs, Table))

    pairs_file = f"{file.partition('/')[0]}/pairs.csv"
    return part(make, metrics, file)


def _add_tooltips(figure: PageFigure, words: Mapping[tuple[str, str], str]) -> PageFigure:
    """Adds a tooltip to each method of the figure's table."""
    if isinstance(figure.svg, Empty):
        return figure
    tooltips = {method: line for (table, method), line in words.items() if table == figure.plot.paper_id}
    return replace(figure, svg=with_tooltips(figure.svg, tooltips))


def law_section(metrics: Metrics) -> Law:
    """Returns the samplers' gains against the temperature, and their correlations."""
    real = LAWS[0]
    sentence = part(lambda: law.finding(*map(metrics.rows, real.files)), metrics, " or ".join(real.files))
    return Law(
        real.title if isinstance(sentence, Empty) else sentence,
        [figure(plot, metrics, []) for plot in LAWS],
        _correlations(metrics, real.files),
    )


def _correlations(metrics: Metrics, files: Sequence[str]) -> Table | Empty:
    """Returns correlations of the gains in the law's own files, alone and with the controls that have run."""
    controls = {name: part(partial(metrics.rows, name), metrics, name) for name in law.CONTROLS}
    available = {name: rows for name, rows in controls.items() if not isinstance(rows, Empty)}
    return part(lambda: law_table(law.point_sets(map(metrics.rows, files), available)), metrics, " or ".join(files))


def _caption(figure: PageFigure) -> str:
    return f"{figure.plot.title}. {' '.join(f'{words}.' for words in (figure.where, figure.setting) if words)}"


def drawings(root: Path) -> list[FigureDrawing | Empty]:
    """Returns the pictures of the annulus; an Empty for a missing one."""
    return [_drawing(root, name, *about) for name, about in DRAWINGS.items()]


def _drawing(root: Path, name: str, option: str, title: str, finding: str) -> FigureDrawing | Empty:
    path, command = root / "metrics" / name, f"annulus picture{option} --svg metrics/{name}"
    try:
        if path.stat().st_size > MOST_BYTES:
            return Empty(f"metrics/{name} has more than {MOST_BYTES} bytes", command, broken=True)
        # Whole units: the drawing is a thousand wide, so tenths are invisible.
        content = re.sub(r"(\d+\.\d)(?=[ hM])", lambda match: f"{float(match[1]):.0f}", read_text(path))
        return FigureDrawing(title, finding, _uri(content))
    except (OSError, UnicodeDecodeError):
        return Empty(f"metrics/{name} is not there", command)


def _uri(content: str) -> str:
    """Returns an SVG as a data: URI."""
    return "data:image/svg+xml," + quote(content, safe=" =:/;,()'!*@&?$~+")


def embedding_map(metrics: Metrics) -> Map | Empty:
    """Returns the map of the main line's embeddings."""
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


def part(make: Callable[[], Content], metrics: Metrics, name: str) -> Content | Empty:
    """Returns `make()`, or `Empty` with the reason. `name`: its file, or several files of one study."""
    if name in CLASS_FILES and lacks_classes(metrics):
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
    """Returns the metrics, if this file of the main line matches dvc.lock.

    Raises:
        OtherRun: if it does not match.
    """
    if is_other(metrics.root, f"metrics/{name}"):
        raise OtherRun(f"metrics/{name} is of another run than dvc.lock names")
    return metrics


def lacks_classes(metrics: Metrics) -> bool:
    """True if no image of the main line has a class."""
    try:
        return metrics.values("main/prepare.json").get("classes") == 0
    except (Missing, Broken):
        return False


def figure(plot: Plot, metrics: Metrics, claim_verdicts: Sequence[Verdict]) -> PageFigure:
    """Returns one figure, drawn or with the reason."""
    paper_id = plot.paper_id or plot.name
    paper = load_figures().get(paper_id)
    published = paper or next((table for table in load_tables() if table.id == paper_id), None)
    where = f"{paper_id.partition('.')[0]}, {published.where}" if published else ""
    finding = FINDINGS.get(plot.name) or FINDINGS.get(paper_id) or (paper.finding if paper else "")
    about = [verdict for verdict in claim_verdicts if paper_id in verdict.where]
    files = " or ".join(plot.files)
    if plot.name in CLASS_FILES and lacks_classes(metrics):
        return PageFigure(plot, where, finding, "", about, NO_CLASS)
    rows = part(lambda: [metrics.rows(file) for file in plot.files], metrics, files)
    if isinstance(rows, Empty):
        return PageFigure(plot, where, finding, "", about, rows)
    sources = zip(plot.files, rows, strict=True)
    setting = "; ".join(
        dict.fromkeys(str(read_setting(metrics, file, paper_id[-1])) for file, paper_id in sources)
    )  # the first row may be a teacher's
    drawing = part(lambda: svg(lambda: plot.draw(*rows), plot.name, f"{plot.title}. {finding}"), metrics, files)
    return PageFigure(plot, where, finding, setting, about, drawing)


def grids(root: Path) -> Pictures | Empty:
    try:
        return pictures(root)
    except NoPictures as error:
        return Empty(error.reason, error.command, broken=error.command is None)
