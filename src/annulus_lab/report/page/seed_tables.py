"""Tables of several seeds: a mean with its 95 % interval, and each seed's number."""

from collections.abc import Collection, Mapping, Sequence
from itertools import compress

from annulus.evals.families import survivors
from annulus.evals.intervals import over_seeds
from annulus_lab.report.figures.drawing import optional
from annulus_lab.report.figures.gains import interval, run_key
from annulus_lab.report.papers.tables import (
    DECIMALS,
    Cell,
    Column,
    Table,
    decimal_places,
    number_cell,
    value_cell,
    words_and_unit,
)


def seed_table(caption: str, seeds: Mapping[str, Mapping[str, object]]) -> Table:
    """Returns a row for each number: its mean, half of the mean's 95 % interval over seeds, and each seed's number.

    Text, and a number that is the same for all seeds, have no interval.
    """
    rows = []
    for name in dict.fromkeys(name for values in seeds.values() for name in values if name != "seed"):
        values = [metrics.get(name) for metrics in seeds.values()]
        numbers = [float(x) for x in values if isinstance(x, int | float) and not isinstance(x, bool)]
        mean, half = values[0], None
        if len(numbers) == len(values) and len(set(numbers)) > 1:
            over = over_seeds(numbers)
            mean, half = over.mean, over.half
        elif len(set(values)) > 1:
            mean = ", ".join(dict.fromkeys(str(x) for x in values if x is not None))
        rows.append(_seed_row(name, mean, half, values if len(seeds) > 1 else []))
    return Table(caption, _seed_columns(list(seeds) if len(seeds) > 1 else [], "± 95 % over seeds"), rows)


def summary_table(lines: Sequence[Mapping[str, object]]) -> Table:
    """Returns the rows of metrics/summary.csv: the headline numbers with their intervals and seeds.

    Raises:
        ValueError: when a column is missing.
    """
    for column in ("number", "mean", "interval"):
        if column not in lines[0]:
            raise ValueError(f"has no column {column!r}")
    seeds = [column for column in lines[0] if column.startswith("seed")]
    columns = seeds if len(seeds) > 1 else []
    rows = [
        _seed_row(str(line["number"]), line["mean"], line["interval"], [line[seed] for seed in columns])
        for line in lines
    ]
    return Table("Headline", _seed_columns([seed.removeprefix("seed") for seed in columns]), rows)


def gains_table(
    caption: str,
    rows: Sequence[Mapping[str, object]],
    words: Mapping[tuple[str, str], str],
    survivor_keys: Collection[tuple] = (),
) -> Table:
    """Returns gains over the base: here with half of the 95 % interval and the verdict; the paper's, if there are some.

    `words` has lines by table and method. Without a line for any row the table omits their column. `survivor_keys`:
    keys of the rows that survive the correction for all rows of the study.

    Raises:
        ValueError: when a column is missing or holds text.
    """
    lines, printed = [], any(optional(row, "paper_gain_percent") is not None for row in rows)
    first_names: dict[tuple, str] = {}
    for row in rows:
        names = ("here_gain_percent", "here_gain_interval_percent", "paper_gain_percent")
        gain, half, paper = (optional(row, name) for name in names)
        here = number_cell(gain, 2, half, sign=True)
        same = first_names.setdefault((row["table"], *run_key(row)), str(row["method"]))
        text = f"the same run as {same}" if same != row["method"] else words.get((str(row["table"]), same), "")
        line = Cell(text)
        survives = Cell("yes" if run_key(row) in survivor_keys else "")
        cells = [Cell(str(row["method"])), line, here, Cell(str(row["verdict"])), survives]
        lines.append([*cells, number_cell(paper, 1, sign=True)])
    columns = [
        Column("method", numeric=False),
        Column("in words", numeric=False),
        Column("gain here ± 95 %", "percent"),
        Column("verdict", numeric=False),
        Column("survives in all rows", numeric=False),
        Column("gain in the paper", "percent"),
    ]
    selectors = [True, any(line[1].text for line in lines), True, True, True, printed]
    return Table(caption, list(compress(columns, selectors)), [list(compress(line, selectors)) for line in lines])


def pairs_table(rows: Sequence[Mapping[str, object]]) -> Table:
    """Returns gains of a row over another with half of the 95 % interval, the verdict, and a mark for survivors.

    A survivor is significant with Holm's correction for all pairs.

    Raises:
        ValueError: when a column is missing or holds text.
    """
    for column in ("row", "base", "verdict"):
        if column not in rows[0]:
            raise ValueError(f"has no column {column!r}")
    lines, stand = [], survivors([interval(row, "gain_percent") for row in rows])
    for row, stands in zip(rows, stand, strict=True):
        gain, half = optional(row, "gain_percent"), optional(row, "gain_interval_percent")
        names = (Cell(str(row[name])) for name in ("row", "base"))
        survives = Cell("yes" if stands else "")
        lines.append([*names, number_cell(gain, 2, half, sign=True), Cell(str(row["verdict"])), survives])
    columns = [
        Column("method", numeric=False),
        Column("over", numeric=False),
        Column("gain ± 95 %", "percent"),
        Column("verdict", numeric=False),
        Column("survives in all pairs", numeric=False),
    ]
    return Table("Further pairs, linear probe", columns, lines)


def _seed_columns(seeds: Sequence[str], interval: str = "± 95 %") -> list[Column]:
    first = [Column("quantity", numeric=False), Column("mean"), Column(interval), Column("unit", numeric=False)]
    return first + [Column(seed, group="seed") for seed in seeds]


def _seed_row(name: str, mean: object, half: object, seeds: Sequence[object]) -> list[Cell]:
    words, unit = words_and_unit(name)
    half_cell = Cell("")
    if isinstance(half, float):
        short = half if unit in DECIMALS else float(f"{half:.2g}")  # two digits: no protocol gives the decimals
        half_cell = number_cell(short, DECIMALS.get(unit, decimal_places([short])))
    return [
        Cell(words),
        value_cell(name, mean),
        half_cell,
        Cell(unit),
        *(value_cell(name, x) for x in seeds),
    ]
