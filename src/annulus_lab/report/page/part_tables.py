"""Tables of a study's part: a row for each point of its grid."""

from collections.abc import Mapping, Sequence

from annulus_lab.report.figures.drawing import optional, text
from annulus_lab.report.papers.tables import DECIMALS, Cell, Column, Table, number_cell, words_and_unit

# Measures with a gain and a verdict, by the stem of their columns: title, and the column of the accuracy.
MEASURES = {
    "linear": ("linear probe", "linear_top1_percent"),
    "knn": ("kNN", "knn_top1_percent"),
    "mean_iou": ("segmentation, mean IoU", "mean_iou_percent"),
}


def points_table(caption: str, rows: Sequence[Mapping[str, object]], setting_name: str) -> Table:
    """Returns the points of a study's part: each accuracy and its gain with half of the 95 % interval, a verdict.

    `setting_name`: heading of the values of its sweep.

    Raises:
        ValueError: when a column is missing or holds text.
    """
    measures = [stem for stem in MEASURES if f"{stem}_verdict" in rows[0]]
    if not measures:
        raise ValueError(f"has no column {' or '.join(f'{stem}_verdict' for stem in MEASURES)}")
    columns = [
        Column(title, unit, MEASURES[stem][0], numeric=title != "verdict")
        for stem in measures
        for title, unit in (("here", "percent"), ("gain", "points"), ("verdict", ""))
    ]

    def cells(row: Mapping[str, object], stem: str) -> list[Cell]:
        gain = Cell("")
        if row[f"{stem}_verdict"] != "base":
            gain = _with_half(row, f"{stem}_gain_percent", sign=True)
        return [_with_half(row, MEASURES[stem][1]), gain, Cell(str(row[f"{stem}_verdict"]))]

    return _grid_table(
        caption, rows, setting_name, columns, [[cell for s in measures for cell in cells(row, s)] for row in rows]
    )


def measurements_table(caption: str, rows: Sequence[Mapping[str, object]], setting_name: str) -> Table:
    """Returns the further numbers of a part's points, each number with half of its 95 % interval.

    Raises:
        ValueError: when a column is missing or holds text.
    """
    accuracies = {column for _, column in MEASURES.values()}
    names = [
        name for name in rows[0] if _half_column(name) in rows[0] and name not in accuracies and "_gain_" not in name
    ]
    columns = [Column(*words_and_unit(name)) for name in names]
    return _grid_table(
        caption, rows, setting_name, columns, [[_with_half(row, name) for name in names] for row in rows]
    )


def _grid_table(
    caption: str,
    rows: Sequence[Mapping[str, object]],
    setting_name: str,
    columns: Sequence[Column],
    cells: Sequence[Sequence[Cell]],
) -> Table:
    """Returns a table of the columns after the series and, if there is a sweep, its values."""
    points = {"series": "series"} | ({"value": setting_name} if any(row.get("value", "") != "" for row in rows) else {})
    words = {name for name in points for row in rows if isinstance(row.get(name), str)}
    heads = [Column(title, numeric=name not in words) for name, title in points.items()]
    places = [[Cell(text(row.get(name, ""))) for name in points] for row in rows]
    lines = [[*point, *line] for point, line in zip(places, cells, strict=True)]
    return Table(caption, [*heads, *columns], lines)


def _with_half(row: Mapping[str, object], name: str, sign: bool = False) -> Cell:
    """Returns a number with half of its interval; without one if the number is the same for all seeds."""
    return number_cell(
        optional(row, name), DECIMALS.get(words_and_unit(name)[1]), optional(row, _half_column(name)) or None, sign
    )


def _half_column(name: str) -> str:
    stem, _, unit = name.rpartition("_")
    return f"{stem}_interval_{unit}"
