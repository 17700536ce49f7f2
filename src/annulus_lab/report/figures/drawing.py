"""How a figure looks: matplotlib's axes in the page's own colours, and the SVG that the page holds.

Matplotlib knows no light and dark. It draws in a few odd colours that stand for the page's: `svg` writes each as a CSS
variable, text and axes as currentColor. A series is told from the next by colour, marker and dash.
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

# Series that appear in several figures look alike in all of them; the others take what is left, in their order.
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
    "axes.grid": True,  # whose lines are the ticks
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
    """A figure with panels of these titles side by side, two at most in a row.

    Raises:
        ValueError: when there are too many.
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
    """A column as numbers.

    Raises:
        ValueError: when it is not there, or a row holds something else.
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
    """A cell's number; None where it is empty, as an interval of one seed is.

    Raises:
        ValueError: when the column is not there, or holds something else.
    """
    return None if row.get(column) == "" else numbers([row], column)[0]


def grouped(rows: Sequence[Row], *columns: str) -> dict[str, list[Row]]:
    """Rows by the text in some columns, in the order in which it first appears.

    Raises:
        ValueError: when a column is not there.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if missing := [name for name in columns if name not in row]:
            raise ValueError(f"has no column {missing[0]!r}")
        groups.setdefault(", ".join(text(row[name]) for name in columns), []).append(row)
    return groups


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dash of each series, by its name.

    Raises:
        ValueError: when there are too many.
    """
    names = list(dict.fromkeys(names))
    if len(names) > MOST_SERIES:
        raise ValueError(f"has {len(names):,} series, at most {MOST_SERIES} are drawn")
    taken = {name: KNOWN[name] for name in names if name in KNOWN}
    if len(set(taken.values())) < len(taken):
        taken = {}  # two of them would look alike here
    free = [number for number in range(len(SERIES)) if number not in taken.values()]
    others = [name for name in names if name not in taken]
    taken |= {name: free[place % len(free)] + len(SERIES) * (place // len(free)) for place, name in enumerate(others)}
    return {name: _look(taken[name]) for name in names}


def _look(number: int) -> dict[str, Any]:
    """The look of a number. A second round of the colours has other markers and dashes than the first."""
    colour, again = number % len(SERIES), number // len(SERIES)
    other = (colour + 3 * again) % len(SERIES)
    return {"color": SERIES[colour], "marker": MARKERS[other], "linestyle": DASHES[other]}


def curves(axes: Axes, groups: Mapping[str, Sequence[Row]], x: str, y: str, half: str = "", scale: float = 1.0) -> None:
    """One line per series, by rising x (times `scale`); `half` is the column that makes its error bars, or is empty."""
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
    """A thin line across, for a known value; `dashes` and gaps in points."""
    axes.axhline(height, color=INK, linewidth=1, linestyle=(0, dashes), label=plain(label))


def finish(axes: Axes, x: str, y: str, log_x: bool = False, log_y: bool = False, ticks: Sequence[float] = ()) -> None:
    """Labels with their units, logarithmic axes with plain numbers at `ticks`, and a legend where there is a choice."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if x == "epoch":  # of which there is no half
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    letters = 66 if len(axes.figure.axes) == 1 else 48  # about as many fit under the axis
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
        axes.yaxis.set_minor_locator(NullLocator())
    if ticks:
        places = thinned(ticks, letters // 8)
        axes.set_xticks(places, [text(tick) for tick in places])
        axes.xaxis.set_minor_locator(NullLocator())
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        # Below the axis, where it covers no line: as many columns as fit side by side.
        below = axes.transAxes + ScaledTranslation(0, -36 / 72, axes.figure.dpi_scale_trans)
        columns = max(1, min(len(labels), letters // (max(map(len, labels)) + 10)))
        lines = -(-len(labels) // columns)
        wanted = HIGH * axes.get_gridspec().nrows + 0.2 * (lines - 1)  # inches: the legend takes no room from the axes
        axes.figure.set_figheight(max(wanted, axes.figure.get_figheight()))
        axes.legend(handles, labels, ncols=columns, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below)


def thinned(ticks: Iterable[float], most: int) -> list[float]:
    """So many ticks of a logarithmic axis at most, a factor of at least 1.4 apart."""
    kept: list[float] = []
    for tick in sorted(set(ticks)):
        if not kept or tick >= 1.4 * kept[-1]:
            kept.append(tick)
    return kept[:: -(-len(kept) // most)]


def svg(draw: Callable[[], Figure], name: str, described: str) -> str:
    """What `draw` returns as an <svg> for inside a page: always the same bytes, and identifiers that are its own."""
    file = io.StringIO()
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = draw()
        figure.set_dpi(72)  # in which SVG is laid out
        # Figure.savefig would draw twice, the first time for the layout alone, which drawing settles as well.
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    content = compact(file.getvalue(), name, FAINT)
    for sentinel, colour in CSS.items():
        content = content.replace(sentinel, colour)
    return content.replace("<svg", f'<svg role="img" aria-label="{escape(described)}"', 1)


def with_tooltips(drawing: str, words: Mapping[str, str]) -> str:
    """An SVG with a tooltip, a <title>, at each label that `words` explains."""
    for label, line in words.items():
        known = f">{escape(plain(label), quote=False)}</text>"
        drawing = drawing.replace(known, known.replace("</text>", f"<title>{escape(line, quote=False)}</title></text>"))
    return drawing


def text(value: object) -> str:
    """A value as a label: numbers without needless digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain(label: str) -> str:
    """A label that matplotlib takes as it is, and not too long for its figure; `_` first would leave it out."""
    label = " ".join("".join(c if c.isprintable() else " " for c in label).split())
    label = label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
    return f"\u200b{label}" if label.startswith("_") else label
