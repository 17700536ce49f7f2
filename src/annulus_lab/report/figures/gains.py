"""The comparison figure: each algorithm's gain over the base of its table, here with an interval, and in the paper.

Filled dots are differences whose 95 % intervals exclude 0. Hollow dots are within noise. Diamonds are the paper's. A
failed run does not set the axis: it is an arrow at the edge with its value. Such a run is more than FARTHEST points
from the base and outside the range of the papers and the other rows.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus.evals.families import by_chance, from_half, survivors
from annulus.evals.intervals import Interval
from annulus_lab.report.figures.drawing import GROUND, INK, SERIES, WIDE, Row, group_by, numbers, optional, plain
from annulus_lab.report.papers.tables import number

REAL, GENERATED, LONG = "cifar10_algorithms/table.csv", "algorithms/table.csv", "cifar10/table.csv"
OURS = "none"  # table of the rows that no paper measured on these images
SIGNIFICANT = ("better", "worse")  # verdicts of a difference whose interval excludes 0
WITHOUT_VERDICT = ("one seed", "equal")
FURTHER = ("here_knn_percent", "here_knn_gain_percent", "bound_nats")
FEW = 3  # most algorithms that the finding names
VERBS = {"better": "gains", "worse": "loses"}
MOST_METHODS = 100  # of a figure
FARTHEST = 10.0  # percentage points
VALUE_WIDTH = 0.17  # share of the axis that a value at its edge takes
ROW, AROUND = 0.2, 0.75  # inches: of a row; of the axis, its label and the legend


def compared_rows(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Returns the rows without the bases, by table: the papers' tables first, in the file's order.

    Raises:
        ValueError: when a column is missing.
    """
    by_table = {table: [row for row in group if row["verdict"] != "base"]
                for table, group in group_by(rows, "table").items() if group_by(group, "verdict")}  # fmt: skip
    return dict(sorted(by_table.items(), key=lambda item: item[0] == OURS))


def base_name(rows: Sequence[Row], table: str) -> str:
    """Returns the method that is the base of all rows of a table; `its base` if they differ.

    A row does not name its base. Its accuracy minus its gain is the base's: in the paper, else here with rounding.

    Raises:
        ValueError: when a column is missing.
    """
    bases = [row for row in group_by(rows, "table")[table] if row["verdict"] == "base"]
    if len(bases) != 1 or not all(_has_base(row, bases[0]) for row in compared_rows(rows)[table]):
        return "its base"
    return str(bases[0]["method"])


def _has_base(row: Row, base: Row) -> bool:
    for source, digits in (("paper", 1e-6), ("here", 0.02)):
        accuracy, gain = optional(row, f"{source}_percent"), optional(row, f"{source}_gain_percent")
        base_accuracy = optional(base, f"{source}_percent")
        if accuracy is not None and gain is not None and base_accuracy is not None:
            return abs(accuracy - gain - base_accuracy) < digits
    return False


def verdict_summary(rows: Sequence[Row]) -> str:
    """Returns sentences: counts of rows that differ from their base, with Holm's correction, and by chance.

    Raises:
        ValueError: when a column is missing.
    """
    unique = _unique_rows(rows)
    if not unique:
        return "Each has one seed, so no difference has a verdict."
    return verdict_sentences(
        [str(row["verdict"]) for row in unique], [interval(row, "here_gain_percent") for row in unique]
    )


def verdict_sentences(words: Sequence[str], differences: Sequence[Interval]) -> str:
    """Returns sentences with the count of each verdict, with Holm's correction, and by chance alone."""
    better, worse = (words.count(word) for word in SIGNIFICANT)
    rows = len(words)
    chance = by_chance(rows, 1 + int(min(difference.freedom for difference in differences)))
    several = f", and {chance.one_of_ten} or more in one table of ten, since rows share their base" * (
        chance.one_of_ten > 1
    )
    return (
        f"Of {rows} differences {better} are better, {worse} worse and {rows - better - worse} within noise. "
        f"Holm's correction for all {rows} leaves {_by_sign(differences)}. By chance alone {chance.mean:.1g} "
        f"would be called better or worse on average{several}; any in {chance.any_percent:.0f} % of tables."
    )


def _by_sign(differences: Sequence[Interval]) -> str:
    """Returns the counts of gains and of losses that survive Holm's correction."""
    stand = [difference.mean for difference, stands in zip(differences, survivors(differences), strict=True) if stands]
    gains = sum(mean > 0 for mean in stand)
    return f"{gains} better and {len(stand) - gains} worse"


def interval(row: Row, gain: str) -> Interval:
    """Returns a row's gain with its interval over its seeds."""
    stem, _, unit = gain.rpartition("_")
    seeds = optional(row, "gain_seeds" if "gain_seeds" in row else "seeds")
    return from_half(optional(row, gain) or 0.0, optional(row, f"{stem}_interval_{unit}"), int(seeds or 1))


def surviving_keys(rows: Sequence[Row]) -> set[tuple]:
    """Returns the keys (`run_key`) of the rows whose gain survives Holm's correction for all rows of a study."""
    unique = _unique_rows(rows)
    stand = survivors([interval(row, "here_gain_percent") for row in unique])
    return {run_key(row) for row, stands in zip(unique, stand, strict=True) if stands}


def run_key(row: Row) -> tuple:
    """Returns numbers that identify a run: two runs may share a rounded accuracy and its gain, but not all of these."""
    here, gain = (numbers([row], name)[0] for name in ("here_percent", "here_gain_percent"))
    return here, gain, *(row.get(name) for name in FURTHER)


def finding(rows: Sequence[Row], images: str) -> str:
    """Returns a sentence on the rows that differ from their base: a few by name, with size and interval.

    Raises:
        ValueError: as `verdict_summary`.
    """
    unique = _unique_rows(rows)
    if not unique:
        return f"On {images} each algorithm has one seed, so no difference has a verdict"
    named = [f"{row['method']} {VERBS[row['verdict']]} {_size(row)}" for row in unique if row["verdict"] in SIGNIFICANT]
    if not named:
        return f"On {images} none of {len(unique)} algorithms differs from its base by more than noise"
    rest = len(unique) - len(named)
    if len(named) > FEW:
        better = sum(row["verdict"] == "better" for row in unique)
        worse = len(named) - better
        return f"On {images} {better} of {len(unique)} gain over their base, {worse} lose; {rest} within noise"
    return f"On {images} {', '.join(named)} points against its base" + (f"; {rest} within noise" if rest else "")


def _unique_rows(rows: Sequence[Row]) -> list[Row]:
    """Returns the compared rows that have a verdict; a row of two tables once."""
    repeated = [row for part in compared_rows(rows).values() for row in part]
    unique = {run_key(row): row for row in repeated}.values()
    return [row for row in unique if row["verdict"] not in WITHOUT_VERDICT]


def _size(row: Row) -> str:
    gain, half = (optional(row, f"here_gain_{name}percent") for name in ("", "interval_"))
    return number(abs(gain), 2) + ("" if half is None else f" ± {number(half, 2)}")


def gains(rows: Sequence[Row], table: str) -> Figure:
    """Draws the compared rows of one table, from the top down; the base is the line at 0.

    Raises:
        ValueError: when a column is missing, a gain is not a number, or the base is the only row.
    """
    table_rows = compared_rows(rows).get(table, [])
    if len(table_rows) > MOST_METHODS:
        raise ValueError(f"has {len(table_rows):,} methods of {table}, at most {MOST_METHODS} are drawn")
    here = numbers(table_rows, "here_gain_percent")
    halves = [optional(row, "here_gain_interval_percent") or 0.0 for row in table_rows]
    figure = Figure(figsize=(WIDE, AROUND + ROW * len(table_rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=INK, linewidth=1)
    printed = {i: gain for i, row in enumerate(table_rows) if (gain := optional(row, "paper_gain_percent")) is not None}
    near, limits = _axis_range(here, halves, list(printed.values()))
    for label, fill, places in (
        ("here, significant", SERIES[0], [i for i in near if table_rows[i]["verdict"] in SIGNIFICANT]),
        ("here, within noise", GROUND, [i for i in near if table_rows[i]["verdict"] not in SIGNIFICANT]),
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
        _draw_arrow(axes, i, here[i], printed.get(i))
    axes.set_yticks(range(len(table_rows)), [plain(str(row["method"])) for row in table_rows])
    axes.set_ylim(len(table_rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference to the base, percentage points")
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower left", ncols=3, columnspacing=1.2, handletextpad=0.3)
    return figure


def _axis_range(
    here: Sequence[float], halves: Sequence[float], printed: Sequence[float]
) -> tuple[list[int], tuple[float, float]]:
    """Returns the rows inside the axis, and its limits.

    The axis covers the papers' gains and the intervals of these rows; if rows lie beyond it, at least ± FARTHEST. A row
    within that range is inside.
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


def _draw_arrow(axes: Axes, place: int, gain: float, printed: float | None) -> None:
    """Draws an arrow with the value at the edge, for a row outside the axis."""
    least, most = axes.get_xlim()
    edge, marker, inwards, side = (least, "<", 6, "left") if gain < 0 else (most, ">", -6, "right")
    axes.plot([edge], [place], marker=marker, color=SERIES[0], clip_on=False)
    covered = printed is not None and abs(printed - edge) < VALUE_WIDTH * (most - least)
    axes.annotate(number(gain, 1), (printed if covered else edge, place), xytext=(inwards, 0),
                  textcoords="offset points", va="center", ha=side, color=SERIES[0], fontsize=9)  # fmt: skip
