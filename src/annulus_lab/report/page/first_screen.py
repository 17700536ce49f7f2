"""The first screen: the main line's gain over uniform negatives, as a sentence and its figure."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import GROUND, INK, SERIES, WIDE, Row, numbers, optional, svg
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.papers.tables import MINUS, Cell, Column, Table, number, number_cell, words_and_unit

FILE, SUMMARY = "comparisons/uniform.csv", "summary.csv"
LEADING = "linear_top1_percent"
COLUMNS = ("number", "base", "head", "difference", "interval", "verdict", "changed", "dataset", "scale", "seeds")
ACCURACIES = {LEADING: "linear probe", "knn_top1_percent": "kNN", "nn1_top1_percent": "1-NN"}


@dataclass(frozen=True)
class HeadlineGain:
    """The sentence, its details, its figure, and the numbers of the whole comparison."""

    sentence: str
    details: str
    svg: str
    table: Table


class OtherRun(Exception):
    """An undamaged file of another run, such as another processor's, or a file that DVC keeps after `make restore`."""


def gain(metrics: Metrics) -> HeadlineGain:
    """Returns the comparison of the main line with the same run on uniform negatives.

    Raises:
        Missing, Broken: when a file is missing or damaged.
        ValueError: when it lacks a column or a number.
        OtherRun: when it was made from another summary of the main line.
    """
    rows = metrics.rows(FILE)
    for column in COLUMNS:
        if column not in rows[0]:
            raise ValueError(f"has no column {column!r}")
    by_number = {row.get("number"): row for row in rows}
    if LEADING not in by_number:
        raise ValueError(f"has no row of {LEADING}")
    leading = by_number[LEADING]
    now = {row.get("number"): row.get("mean") for row in metrics.rows(SUMMARY)}
    for name, row in by_number.items():
        if (head := row.get("head")) != now.get(name):
            raise OtherRun(
                f"metrics/{FILE} is of another run than metrics/{SUMMARY}: {name} {head}, not {now.get(name)}"
            )
    accuracies = [by_number[name] for name in ACCURACIES if name in by_number]
    drawing = svg(lambda: differences(accuracies), "gain.uniform", sentence(leading))
    return HeadlineGain(sentence(leading), details(leading), drawing, table(rows))


def sentence(row: Row) -> str:
    """Returns the finding: size and interval, and the verdict if it is not significant."""
    difference, half = optional(row, "difference"), optional(row, "interval")
    size = number(abs(difference), 2) + ("" if half is None else f" ± {number(half, 2)}")
    sampler = _sampler(row)
    if row["verdict"] in ("better", "worse"):
        verb = {"better": "gain", "worse": "lose"}[row["verdict"]]
        return f"{sampler} {verb} {size} points of linear-probe accuracy over uniform ones"
    sign = "+" if difference >= 0 else MINUS
    return f"{sampler} against uniform ones: {sign}{size} points of linear-probe accuracy, {row['verdict']}"


def details(row: Row) -> str:
    """Returns sentences with the accuracies and the number of seeds and images."""
    head, base, seeds, images = (numbers([row], name)[0] for name in ("head", "base", "seeds", "test_images"))
    data = f"{number(images)} test images of {row['dataset']}, scale {row['scale']}"
    interval = "" if row.get("interval") == "" else " ±: 95 % interval over seeds and test images, in pairs."
    return (
        f"A linear probe on frozen features gets {number(head, 2)} % right, {number(base, 2)} % after training with "
        f"uniform negatives: {number(seeds)} seed{'s' if seeds != 1 else ''}, {data}.{interval} "
        f"What differs: {str(row['changed']).replace('->', '→')}."
    )


def differences(rows: Sequence[Row]) -> Figure:
    """Draws the differences to uniform negatives with their intervals, and each seed's own as a small dot."""
    figure = Figure(figsize=(WIDE, 0.8 + 0.36 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=INK, linewidth=1)
    for place, row in enumerate(rows):
        seeds = [value for name, value in row.items() if name.startswith("seed") and name != "seeds"]
        dots = [float(value) for value in seeds if isinstance(value, float)]
        axes.plot(dots, [place + 0.24] * len(dots), linestyle="none", marker="o", markersize=3, color=SERIES[0],
                  alpha=0.6, label="each seed")  # fmt: skip
        axes.errorbar(
            [numbers([row], "difference")[0]], [place], xerr=[optional(row, "interval") or 0.0], linestyle="none",
            marker="o", markersize=6, color=SERIES[0], elinewidth=1.6, capsize=3, label="mean, 95 % interval",
            markerfacecolor=SERIES[0] if row["verdict"] in ("better", "worse") else GROUND,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [ACCURACIES[str(row["number"])] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("accuracy over uniform negatives, percentage points")
    handles, labels = axes.get_legend_handles_labels()
    first = {label: handle for handle, label in zip(reversed(handles), reversed(labels), strict=True)}
    figure.legend(first.values(), first.keys(), loc="outside lower left", ncols=2)
    return figure


def table(rows: Sequence[Row]) -> Table:
    """Returns a table of every number of the comparison."""
    lines = []
    for row in rows:
        words, unit = words_and_unit(str(row["number"]))
        digits = 2 if unit == "percent" else 4
        values = (optional(row, name) for name in ("base", "head"))
        difference = number_cell(optional(row, "difference"), digits, optional(row, "interval"), sign=True)
        sides = [number_cell(value, digits) for value in values]
        lines.append([Cell(words), *sides, difference, Cell(unit), Cell(str(row["verdict"]))])
    heads = [Column("quantity", numeric=False), Column("uniform"), Column("main line"), Column("difference ± 95 %"),
             Column("unit", numeric=False), Column("verdict", numeric=False)]  # fmt: skip
    return Table("The main line and the same run on uniform negatives", heads, lines)


def _sampler(row: Row) -> str:
    """Returns the main line's sampler as the beginning of a sentence, from `sampler: uniform -> ring`."""
    choices = dict(part.split(": ", 1) for part in str(row["changed"]).split("; ") if ": " in part)
    name = choices.get("sampler", "").rpartition("-> ")[2]
    return f"{name.capitalize()} negatives" if name else "The main line's negatives"
