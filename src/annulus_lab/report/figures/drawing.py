"""Style of the figures: matplotlib axes in the page's colours, and SVG for the page.

Matplotlib has no light and dark mode. It draws in placeholder colours: `svg` writes each as a CSS variable, and that
of text and axes as currentColor. Series differ in colour, marker and dash.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from annulus_lab.report.figures.compact import compact

Row = Mapping[str, Any]

INK, FAINT, GROUND = "#010203", "#010204", "#010205"
SERIES = [f"#0102{number:02x}" for number in range(0x10, 0x18)]
CSS = {INK: "currentColor", FAINT: "var(--faint)", GROUND: "var(--ground)"}
CSS |= {colour: f"var(--series-{i})" for i, colour in enumerate(SERIES, 1)}

MARKERS = "os^Dv<>P"
DASHES = ["-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)), (0, (3, 1)), (0, (2, 3)), (0, (8, 2, 2, 2))]

# Series of several figures look alike in all of them; the others take the free numbers, in their order.
KNOWN = {
    **{"uniform": 0, "NCE": 0, "IR": 0, "100 % (IR)": 0, "plain": 0, "InfoNCE": 0, "dot": 0, "CPC": 0, "none": 0},
    **{"ball": 1, "CNCE": 1, "CNCE, ball": 1, "10 % from the start": 1, "10 %": 1, "LA": 1, "ML-CPC": 1},
    **{"ring": 2, "CNCE, ring": 2, "EqCo": 2, "CMC": 2},
    **{"cave": 3, "CNCE, cave": 3},
}

STYLE = {
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "axes.titlesize": 10,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,  # its lines replace the ticks
    "xtick.bottom": False,
    "ytick.left": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "svg.fonttype": "none",  # text stays text: to read, to search, in the page's own font
    "text.parse_math": False,  # a class called `$x$` is no formula
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
}

# Inches at 72 units each; the page shows the SVG somewhat larger. A panel's own text stays readable at 360 px.
WIDE, WIDER, HIGH = 5.0, 8.2, 3.2
LONGEST = 40  # letters of a label
MOST_SERIES = 32  # of a figure; with hundreds a legend takes minutes


def panels(*titles: str) -> tuple[Figure, list[Axes]]:
    """Returns a figure with panels of these titles, at most two in a row.

    Raises:
        ValueError: with more than MOST_SERIES panels.
    """
    if len(titles) > MOST_SERIES:
        raise ValueError(f"has {len(titles):,} panels, at most {MOST_SERIES} are drawn")
    columns, rows = min(len(titles), 2), -(-len(titles) // 2)
    figure = Figure(figsize=(WIDE if columns == 1 else WIDER, HIGH * rows), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12)  # inches, between a panel and its neighbour's label
    axes = [figure.add_subplot(rows, columns, place) for place in range(1, len(titles) + 1)]
    for panel, title in zip(axes, titles, strict=True):
        panel.set_title(plain(title), loc="left")
    return figure, axes


def numbers(rows: Sequence[Row], column: str) -> list[float]:
    """Returns a column as numbers.

    Raises:
        ValueError: when there are no rows, the column is missing, or a cell is not a number.
    """
    if not rows:
        raise ValueError("holds no rows")
    for place, row in enumerate(rows, 1):
        if column not in row:
            raise ValueError(f"has no column {column!r}")
        if not isinstance(row[column], int | float) or isinstance(row[column], bool):
            raise ValueError(f"{column} is {row[column]!r} in row {place}, expected a number")
    return [float(row[column]) for row in rows]


def optional(row: Row, column: str) -> float | None:
    """Returns a cell's number; None for an empty cell, such as an interval of one seed.

    Raises:
        ValueError: when the column is missing or holds text.
    """
    return None if row.get(column) == "" else numbers([row], column)[0]


def group_by(rows: Sequence[Row], *columns: str) -> dict[str, list[Row]]:
    """Groups rows by the text in some columns, in the order of its first appearance.

    Raises:
        ValueError: when a column is missing.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if missing := [name for name in columns if name not in row]:
            raise ValueError(f"has no column {missing[0]!r}")
        groups.setdefault(", ".join(text(row[name]) for name in columns), []).append(row)
    return groups


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns colour, marker and dash of each series, by its name.

    Raises:
        ValueError: with more than MOST_SERIES series.
    """
    names = list(dict.fromkeys(names))
    if len(names) > MOST_SERIES:
        raise ValueError(f"has {len(names):,} series, at most {MOST_SERIES} are drawn")
    places = {name: KNOWN[name] for name in names if name in KNOWN}
    if len(set(places.values())) < len(places):
        places = {}  # two of them would look alike here
    free = [number for number in range(len(SERIES)) if number not in places.values()]
    others = [name for name in names if name not in places]
    places |= {name: free[place % len(free)] + len(SERIES) * (place // len(free)) for place, name in enumerate(others)}
    return {name: _look(places[name]) for name in names}


def _look(number: int) -> dict[str, Any]:
    """Returns the look of a number. A second round of the colours has other markers and dashes than the first."""
    colour, again = number % len(SERIES), number // len(SERIES)
    other = (colour + 3 * again) % len(SERIES)
    return {"color": SERIES[colour], "marker": MARKERS[other], "linestyle": DASHES[other]}


def curves(axes: Axes, groups: Mapping[str, Sequence[Row]], x: str, y: str, half: str = "", scale: float = 1.0) -> None:
    """Draws one line per series, sorted by x (times `scale`); `half`: column of the error bars, or empty."""
    for name, look in looks(groups).items():
        across, values = numbers(groups[name], x), numbers(groups[name], y)
        order = sorted(range(len(across)), key=across.__getitem__)
        look = look | {"marker": look["marker"] if len(order) <= 24 else "", "label": plain(name)}
        places, heights = [across[i] * scale for i in order], [values[i] for i in order]
        if half:
            errors = [optional(row, half) or 0.0 for row in groups[name]]
            axes.errorbar(places, heights, [errors[i] for i in order], capsize=2.5, elinewidth=0.9, **look)
        else:
            axes.plot(places, heights, **look)


def reference(axes: Axes, height: float, label: str, dashes: tuple[int, int] = (2, 2)) -> None:
    """Draws a thin horizontal line for a known value; `dashes` and gaps in points."""
    axes.axhline(height, color=INK, linewidth=1, linestyle=(0, dashes), label=plain(label))


def finish(axes: Axes, x: str, y: str, log_x: bool = False, log_y: bool = False, ticks: Sequence[float] = ()) -> None:
    """Adds labels with units, logarithmic axes with plain numbers at `ticks`, and a legend for several series."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if x == "epoch":  # whole numbers
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    letters = 66 if len(axes.figure.axes) == 1 else 48  # about as many fit under the axis
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
        axes.yaxis.set_minor_locator(NullLocator())
    if ticks:
        places = thin(ticks, letters // 8)
        axes.set_xticks(places, [text(tick) for tick in places])
        axes.xaxis.set_minor_locator(NullLocator())
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        # Below the axis the legend covers no line.
        below = axes.transAxes + ScaledTranslation(0, -36 / 72, axes.figure.dpi_scale_trans)
        columns = max(1, min(len(labels), letters // (max(map(len, labels)) + 10)))
        lines = -(-len(labels) // columns)
        height = HIGH * axes.get_gridspec().nrows + 0.2 * (lines - 1)  # inches: the legend takes no room from the axes
        axes.figure.set_figheight(max(height, axes.figure.get_figheight()))
        axes.legend(handles, labels, ncols=columns, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below)


def thin(ticks: Iterable[float], most: int) -> list[float]:
    """Selects at most `most` ticks of a logarithmic axis, a factor of at least 1.4 apart."""
    sparse: list[float] = []
    for tick in sorted(set(ticks)):
        if not sparse or tick >= 1.4 * sparse[-1]:
            sparse.append(tick)
    return sparse[:: -(-len(sparse) // most)]


def svg(draw: Callable[[], Figure], name: str, description: str) -> str:
    """Returns the figure of `draw` as an <svg> element: reproducible bytes, identifiers of this figure alone."""
    file = io.StringIO()
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = draw()
        figure.set_dpi(72)  # in which SVG is laid out
        # Figure.savefig draws twice, the first time for the layout alone. One drawing computes the layout too.
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    content = compact(file.getvalue(), name, FAINT)
    for sentinel, colour in CSS.items():
        content = content.replace(sentinel, colour)
    return content.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


def with_tooltips(drawing: str, words: Mapping[str, str]) -> str:
    """Adds a tooltip, a <title>, to each label of an SVG that `words` explains."""
    for label, line in words.items():
        old = f">{escape(plain(label), quote=False)}</text>"
        drawing = drawing.replace(old, old.replace("</text>", f"<title>{escape(line, quote=False)}</title></text>"))
    return drawing


def text(value: object) -> str:
    """Returns a value as a label: numbers without trailing zeros."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain(label: str) -> str:
    """Returns a printable label of at most LONGEST letters; a zero-width space precedes `_`: matplotlib omits `_x`."""
    label = " ".join("".join(c if c.isprintable() else " " for c in label).split())
    label = label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
    return f"\u200b{label}" if label.startswith("_") else label
