"""The comparison figure: what each algorithm gains over the base of its table, here with an interval, and in the paper.

Filled dots are differences whose 95 % intervals exclude 0, hollow ones are within noise; diamonds are the paper. A run
that failed does not set the axis: more than FARTHEST points from the base, and beyond what the papers and the other
rows need, it is an arrow at the edge, with its value.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus.report.figures.drawing import GROUND, INK, SERIES, WIDE, Row, grouped, numbers, optional, plain
from annulus.report.papers.tables import number

REAL, GENERATED, LONG = "cifar10_algorithms/table.csv", "algorithms/table.csv", "cifar10/table.csv"
OURS = "none"  # the table of what no paper measured on these images
TOLD = ("better", "worse")  # verdicts of a difference that its interval tells from 0
WITHOUT_VERDICT = ("one seed", "equal")
FURTHER = ("here_knn_percent", "here_knn_gain_percent", "bound_nats")
FEW = 3  # that are named
VERBS = {"better": "gains", "worse": "loses"}
MOST_METHODS = 100  # of a figure
FARTHEST = 10.0  # percentage points
COVERED = 0.17  # of the axis' width: where a value at its edge stands, and a diamond would cover it
ROW, AROUND = 0.2, 0.75  # inches: of a row; of the axis, its label and the legend


def compared(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows that are compared with a base, by table; those of the papers' tables first, in the file's order.

    Raises:
        ValueError: when a column is not there.
    """
    found = {table: [row for row in group if row["verdict"] != "base"]
             for table, group in grouped(rows, "table").items() if grouped(group, "verdict")}  # fmt: skip
    return dict(sorted(found.items(), key=lambda item: item[0] == OURS))


def base_of(rows: Sequence[Row], table: str) -> str:
    """The method that all rows of a table are compared with; where they differ, `its base`.

    A row names no base: its accuracy without its gain is the base's, in the paper, else here, where it is rounded.

    Raises:
        ValueError: when a column is not there.
    """
    bases = [row for row in grouped(rows, "table")[table] if row["verdict"] == "base"]
    if len(bases) != 1 or not all(_is_over(row, bases[0]) for row in compared(rows)[table]):
        return "its base"
    return str(bases[0]["method"])


def _is_over(row: Row, base: Row) -> bool:
    for of, digits in (("paper", 1e-6), ("here", 0.02)):
        accuracy, gain, of_base = (
            optional(*cell) for cell in ((row, f"{of}_percent"), (row, f"{of}_gain_percent"), (base, f"{of}_percent"))
        )
        if accuracy is not None and gain is not None and of_base is not None:
            return abs(accuracy - gain - of_base) < digits
    return False


def told(rows: Sequence[Row]) -> str:
    """How many rows differ from their base, and how many would by chance alone.

    Raises:
        ValueError: when a column is not there, or no row is compared.
    """
    words = [str(row["verdict"]) for row in _once(rows)]
    return counted(words) if words else "Each has one seed, so no difference has a verdict."


def counted(words: Sequence[str]) -> str:
    """The verdicts on differences, counted."""
    better, worse = (words.count(word) for word in TOLD)
    return (
        f"Of {len(words)} differences {better} are better, {worse} worse and {len(words) - better - worse} within "
        f"noise; about {0.05 * len(words):.0f} would be called better or worse by chance alone."
    )


def finding(rows: Sequence[Row], images: str) -> str:
    """The rows that differ from their base: a few by name, with the size and the interval of the difference.

    Raises:
        ValueError: as `told`.
    """
    each = _once(rows)
    if not each:
        return f"On {images} each algorithm has one seed, so no difference has a verdict"
    named = [f"{row['method']} {VERBS[row['verdict']]} {_size(row)}" for row in each if row["verdict"] in TOLD]
    if not named:
        return f"On {images} none of {len(each)} algorithms differs from its base by more than noise"
    rest = len(each) - len(named)
    if len(named) > FEW:
        better = sum(row["verdict"] == "better" for row in each)
        return (
            f"On {images} {better} of {len(each)} gain over their base, {len(named) - better} lose; {rest} within noise"
        )
    return f"On {images} {', '.join(named)} points against its base" + (f"; {rest} within noise" if rest else "")


def _once(rows: Sequence[Row]) -> list[Row]:
    """The compared rows that have a verdict; one that stands in two tables comes once."""
    each = [row for part in compared(rows).values() for row in part]
    numbered = zip(numbers(each, "here_percent"), numbers(each, "here_gain_percent"), each, strict=True)
    # Rows of other runs may agree in a rounded accuracy and its gain, not in all four and the bound.
    keys = [(here, gain, *(row.get(name) for name in FURTHER)) for here, gain, row in numbered]
    found = dict(zip(keys, each, strict=True)).values()
    return [row for row in found if row["verdict"] not in WITHOUT_VERDICT]


def _size(row: Row) -> str:
    gain, half = (optional(row, f"here_gain_{name}percent") for name in ("", "interval_"))
    return number(abs(gain), 2) + ("" if half is None else f" ± {number(half, 2)}")


def gains(rows: Sequence[Row], table: str) -> Figure:
    """The compared rows of one table, from the top down; the base is the line at 0.

    Raises:
        ValueError: when a column is not there, a gain is no number, or there is no row besides the base.
    """
    shown = compared(rows).get(table, [])
    if len(shown) > MOST_METHODS:
        raise ValueError(f"has {len(shown):,} methods of {table}, at most {MOST_METHODS} are drawn")
    here = numbers(shown, "here_gain_percent")
    halves = [optional(row, "here_gain_interval_percent") or 0.0 for row in shown]
    figure = Figure(figsize=(WIDE, AROUND + ROW * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=INK, linewidth=1)
    printed = {i: gain for i, row in enumerate(shown) if (gain := optional(row, "paper_gain_percent")) is not None}
    near, limits = _reached(here, halves, list(printed.values()))
    for label, fill, places in (
        ("here, significant", SERIES[0], [i for i in near if shown[i]["verdict"] in TOLD]),
        ("here, within noise", GROUND, [i for i in near if shown[i]["verdict"] not in TOLD]),
    ):
        if places:
            axes.errorbar(
                [here[i] for i in places], places, xerr=[halves[i] for i in places], linestyle="none", marker="o",
                color=SERIES[0], markerfacecolor=fill, elinewidth=1.2, label=label,
            )  # fmt: skip
    if printed:
        axes.plot(list(printed.values()), list(printed), linestyle="none", marker="D", color=SERIES[1], markersize=4,
                  label="the paper")  # fmt: skip
    axes.set_xlim(limits)
    for i in set(range(len(here))) - set(near):
        _beyond(axes, i, here[i], printed.get(i))
    axes.set_yticks(range(len(shown)), [plain(str(row["method"])) for row in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference to the base, percentage points")
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower left", ncols=3, columnspacing=1.2, handletextpad=0.3)
    return figure


def _reached(
    here: Sequence[float], halves: Sequence[float], printed: Sequence[float]
) -> tuple[list[int], tuple[float, float]]:
    """The rows that the axis reaches, and its limits: around the papers' gains and the intervals of these rows, and
    with rows beyond at least as wide as FARTHEST. A row that stands within what others need is one of them.
    """
    near = [i for i, gain in enumerate(here) if abs(gain) <= FARTHEST]
    while True:
        ends = [0.0, *printed, *(here[i] + sign * halves[i] for i in near for sign in (-1, 1))]
        margin = 0.05 * (max(ends) - min(ends)) or 1.0
        least, most = min(ends) - margin, max(ends) + margin
        if len(near) < len(here):
            least, most = min(least, -FARTHEST), max(most, FARTHEST)
        inside = [i for i, gain in enumerate(here) if least <= gain <= most]
        if inside == near:
            return near, (least, most)
        near = inside


def _beyond(axes: Axes, place: int, gain: float, printed: float | None) -> None:
    """An arrow at the edge, with the value, of a row that the axis does not reach."""
    least, most = axes.get_xlim()
    edge, marker, inwards, side = (least, "<", 6, "left") if gain < 0 else (most, ">", -6, "right")
    axes.plot([edge], [place], marker=marker, color=SERIES[0], clip_on=False)
    covered = printed is not None and abs(printed - edge) < COVERED * (most - least)
    axes.annotate(number(gain, 1), (printed if covered else edge, place), xytext=(inwards, 0),
                  textcoords="offset points", va="center", ha=side, color=SERIES[0], fontsize=9)  # fmt: skip
