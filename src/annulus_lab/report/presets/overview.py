"""State of every table of the papers: what ran here with its claims' verdicts, or the commands and their hours."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from annulus_lab.report.claims.verdicts import VERDICTS, Verdict
from annulus_lab.report.papers.comparison import Comparison
from annulus_lab.report.papers.tables import setting_of
from annulus_lab.report.presets.hours import H200, V100, detector_hours, pretraining
from annulus_lab.report.presets.tables import TablePresets, TableRow

SIZES = ("held", "refuted", "undecided")


@dataclass(frozen=True)
class TableState:
    """One table: its printed rows that ran here, the verdicts of its claims, its commands, and their hours."""

    table: str
    title: str
    ran: str
    direction: str  # claims by verdict, as "held 2, undecided 1"; empty: no claim reads the table
    size: str
    first: str | None  # row whose command `annulus preset` prints; None: no row has one
    commands: int
    without: int  # rows that have no command
    hours: str

    @property
    def ways(self) -> str:
        """Number of rows with and without a command, in words."""
        without = f", {self.without} without" if self.without else ""
        return f"{self.commands} command{'s' * (self.commands != 1)}{without}"


def table_states(
    root: Path, presets: TablePresets, tables: Sequence[Comparison], verdicts: Sequence[Verdict]
) -> list[TableState]:
    """States of the tables, in their order.

    Raises:
        InputError: when a parameter file or a file of metrics is damaged.
    """
    states = []
    for comparison in tables:
        table = comparison.table
        rows = [row for row in presets.rows.values() if row.table == table.id]
        ready = [row for row in rows if not row.absent]
        claims = [each for each in verdicts if table.id in each.where and not each.ours]
        states.append(
            TableState(
                table=table.id,
                title=f"{table.where}: {table.task}",
                ran=", ".join(filter(None, [comparison.ran, setting_of(comparison)])),
                direction=_counted([each.verdict for each in claims if each.directed], VERDICTS),
                size=_counted([each.size for each in claims if each.size and each.own], SIZES),
                first=ready[0].name if ready else None,
                commands=len(ready),
                without=len(rows) - len(ready),
                hours=_hours(root, presets, ready),
            )
        )
    return states


def _counted(found: Sequence[str], order: Sequence[str]) -> str:
    counts = Counter(found)
    return ", ".join(f"{name} {counts[name]}" for name in order if counts[name])


def _hours(root: Path, presets: TablePresets, rows: Sequence[TableRow]) -> str:
    """Least and most hours of a row's parts, as far as they are known."""
    times = [(pretraining(root, presets, row), row) for row in rows]
    trained = [len(presets.params(row).seeds) * found.seconds / 3600 for found, row in times if found]
    detected = [hours for row in rows if (hours := detector_hours(presets.root, row)) is not None]
    parts = [
        f"{about} {_span(hours)} h of {machine}"
        for hours, about, machine in ((trained, "at least", H200), (detected, "about", V100))
        if hours
    ]
    return " and ".join(parts) or "not known"


def _span(hours: Sequence[float]) -> str:
    least, most = (f"{value:.0f}" if value >= 10 else f"{value:.2g}" for value in (min(hours), max(hours)))
    return least if least == most else f"{least} to {most}"
