"""The report's table of the law: rank correlations of a ring's gain over several sets of points."""

from collections.abc import Mapping, Sequence

from annulus_lab.report.figures.law_correlations import Correlation, Point, separation
from annulus_lab.report.papers.tables import Cell, Column, Table

CAPTION = (
    "Rank correlations of a ring's gain in kNN, with 95 % intervals over points. Weight: the closest tenth's "
    "share of the loss's gradient under uniform negatives. HCL has the temperature t, and t/(1 + beta) for negatives"
)
COLUMNS = [
    Column("rings", numeric=False),
    Column("temperature", numeric=False),
    Column("points"),
    *(Column(title, group="gain with") for title in ("weight", "temperature")),
    Column("weight with temperature"),
    *(Column(title, group="gain with, the other one fixed") for title in ("weight", "temperature")),
]


def law_table(sets: Mapping[tuple[str, str], Sequence[Point]]) -> Table:
    """Returns a row for each set whose points differ enough for a correlation.

    Raises:
        ValueError: when no set has such points.
    """
    rows = []
    for names, points in sets.items():
        try:
            correlations = separation(points)
        except ValueError:
            continue
        rows.append([*map(Cell, names), Cell(str(len(points)), len(points)), *map(_cell, correlations)])
    if not rows:
        raise ValueError("has no points that differ enough for a correlation")
    return Table(CAPTION, COLUMNS, rows)


def _cell(correlation: Correlation | None) -> Cell:
    return Cell("") if correlation is None else Cell(str(correlation), correlation.value)
