"""The comparison figure: what each algorithm gains over the base of its table, here with an interval, and in the paper.

Filled dots are differences whose 95 % intervals exclude 0, hollow ones are within noise; diamonds are the paper. A run
that failed does not set the axis: more than FARTHEST points from the base, and beyond what the papers and the other
rows need, it is an arrow at the edge, with its value.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus.evals.families import by_chance, from_half, survivors
from annulus.evals.intervals import Interval
from annulus_lab.report.figures.drawing import GROUND, INK, SERIES, WIDE, Row, grouped, numbers, optional, plain
from annulus_lab.report.papers.tables import number

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
    by_table = {table: [row for row in group if row["verdict"] != "base"]
                for table, group in grouped(rows, "table").items() if grouped(group, "verdict")}  # fmt: skip
    return dict(sorted(by_table.items(), key=lambda item: item[0] == OURS))


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
        accuracy, gain, base_accuracy = (
            optional(*cell) for cell in ((row, f"{of}_percent"), (row, f"{of}_gain_percent"), (base, f"{of}_percent"))
        )
        if accuracy is not None and gain is not None and base_accuracy is not None:
            return abs(accuracy - gain - base_accuracy) < digits
    return False


def verdict_summary(rows: Sequence[Row]) -> str:
    """Numbers of rows that differ from their base, that stand in all rows together, and that would differ by chance.

    Raises:
        ValueError: when a column is not there, or no row is compared.
    """
    unique = _once(rows)
    if not unique:
        return "Each has one seed, so no difference has a verdict."
    return counted([str(row["verdict"]) for row in unique], [interval(row, "here_gain_percent") for row in unique])


def counted(words: Sequence[str], differences: Sequence[Interval]) -> str:
    """The verdicts on differences, counted, and read together."""
    better, worse = (words.count(word) for word in TOLD)
    rows = len(words)
    chance = by_chance(rows, 1 + int(min(difference.freedom for difference in differences)))
    several = f", and {chance.one_of_ten} or more in one table of ten, since rows share their base" * (
        chance.one_of_ten > 1
    )
    return (
        f"Of {rows} differences {better} are better, {worse} worse and {rows - better - worse} within noise. "
        f"{sum(survivors(differences))} survive Holm's correction for all {rows}. By chance alone {chance.mean:.1g} "
        f"would be called better or worse on average{several}; any in {chance.any_percent:.0f} % of tables."
    )


def interval(row: Row, gain: str) -> Interval:
    """A row's gain with its interval, by the seeds that it is over."""
    stem, _, unit = gain.rpartition("_")
    seeds = optional(row, "gain_seeds" if "gain_seeds" in row else "seeds")
    return from_half(optional(row, gain) or 0.0, optional(row, f"{stem}_interval_{unit}"), int(seeds or 1))


def surviving(rows: Sequence[Row]) -> set[tuple]:
    """The keys (`key_of`) of the rows whose gain survives Holm's correction for all rows of a study."""
    unique = _once(rows)
    stand = survivors([interval(row, "here_gain_percent") for row in unique])
    return {key_of(row) for row, stands in zip(unique, stand, strict=True) if stands}


def key_of(row: Row) -> tuple:
    """Columns that identify a run: two runs may agree in a rounded accuracy and its gain, but not in all of these."""
    here, gain = (numbers([row], name)[0] for name in ("here_percent", "here_gain_percent"))
    return here, gain, *(row.get(name) for name in FURTHER)


def finding(rows: Sequence[Row], images: str) -> str:
    """The rows that differ from their base: a few by name, with the size and the interval of the difference.

    Raises:
        ValueError: as `verdict_summary`.
    """
    unique = _once(rows)
    if not unique:
        return f"On {images} each algorithm has one seed, so no difference has a verdict"
    named = [f"{row['method']} {VERBS[row['verdict']]} {_size(row)}" for row in unique if row["verdict"] in TOLD]
    if not named:
        return f"On {images} none of {len(unique)} algorithms differs from its base by more than noise"
    rest = len(unique) - len(named)
    if len(named) > FEW:
        better = sum(row["verdict"] == "better" for row in unique)
        worse = len(named) - better
        return f"On {images} {better} of {len(unique)} gain over their base, {worse} lose; {rest} within noise"
    return f"On {images} {', '.join(named)} points against its base" + (f"; {rest} within noise" if rest else "")


def _once(rows: Sequence[Row]) -> list[Row]:
    """The compared rows that have a verdict; one that stands in two tables comes once."""
    repeated = [row for part in compared(rows).values() for row in part]
    unique = {key_of(row): row for row in repeated}.values()
    return [row for row in unique if row["verdict"] not in WITHOUT_VERDICT]


def _size(row: Row) -> str:
    gain, half = (optional(row, f"here_gain_{name}percent") for name in ("", "interval_"))
    return number(abs(gain), 2) + ("" if half is None else f" ± {number(half, 2)}")


def gains(rows: Sequence[Row], table: str) -> Figure:
    """The compared rows of one table, from the top down; the base is the line at 0.

    Raises:
        ValueError: when a column is not there, a gain is no number, or there is no row besides the base.
    """
    table_rows = compared(rows).get(table, [])
    if len(table_rows) > MOST_METHODS:
        raise ValueError(f"has {len(table_rows):,} methods of {table}, at most {MOST_METHODS} are drawn")
    here = numbers(table_rows, "here_gain_percent")
    halves = [optional(row, "here_gain_interval_percent") or 0.0 for row in table_rows]
    figure = Figure(figsize=(WIDE, AROUND + ROW * len(table_rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=INK, linewidth=1)
    printed = {i: gain for i, row in enumerate(table_rows) if (gain := optional(row, "paper_gain_percent")) is not None}
    near, limits = _reached(here, halves, list(printed.values()))
    for label, fill, places in (
        ("here, significant", SERIES[0], [i for i in near if table_rows[i]["verdict"] in TOLD]),
        ("here, within noise", GROUND, [i for i in near if table_rows[i]["verdict"] not in TOLD]),
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
    axes.set_yticks(range(len(table_rows)), [plain(str(row["method"])) for row in table_rows])
    axes.set_ylim(len(table_rows) - 0.5, -0.5)
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
