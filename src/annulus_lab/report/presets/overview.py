"""State of every table of the papers: what ran here with its claims' verdicts, and the commands with their hours."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from annulus.files.regular import read_text
from annulus_lab.report.claims.verdicts import VERDICTS, Verdict
from annulus_lab.report.papers.comparison import Comparison
from annulus_lab.report.papers.tables import setting_of
from annulus_lab.report.presets.h200 import STEPS
from annulus_lab.report.presets.hours import (
    H200,
    PAPER_STUDIES,
    V100,
    detector_hours,
    pretraining,
    study_time,
    two_digits,
)
from annulus_lab.report.presets.tables import SCALE, TablePresets, TableRow

SIZES = ("held", "refuted", "undecided")
STUDIES = ("algorithms", "detection", "estimators", "moving_digits", "view_learning")
READ = ("params.yaml", *(f"stages/{study}/params.yaml" for study in STUDIES), STEPS, PAPER_STUDIES)
_kept: dict[tuple[str, ...], dict[str, "Commands"]] = {}  # by the content of `READ`; a report asks more than once


@dataclass(frozen=True)
class Commands:
    """Commands of a table's rows at the papers' scale, and the hours of the first as far as they are known."""

    first: str | None  # row whose command `annulus preset` prints; None: no row has one
    count: int
    without: int  # rows that have no command
    hours: str
    scale: str | None = None  # that `annulus preset` needs: of a row that runs at other scales too

    @property
    def line(self) -> str:
        """Command that prints the first of them."""
        scale = "" if self.scale is None else f" --scale {self.scale}"
        return "" if self.first is None else f"annulus preset {shlex.quote(self.first)}{scale}"

    def __str__(self) -> str:
        without = f", {self.without} row{'s' * (self.without > 1)} without" if self.without else ""
        first = f"; the first: {self.hours}" if self.hours else ""
        return f"{self.count} command{'s' * (self.count != 1)}{without}{first}"


@dataclass(frozen=True)
class TableState:
    """One table: its printed rows that ran here, its claims by verdict, its commands."""

    table: str
    title: str
    ran: str
    claims: list[str]
    commands: Commands


def table_states(root: Path, tables: Sequence[Comparison], verdicts: Sequence[Verdict]) -> list[TableState]:
    """States of the tables, in their order.

    Raises:
        InputError: when a parameter file or a file of metrics is damaged.
    """
    commands = table_commands(root)
    return [
        TableState(
            table=comparison.table.id,
            title=f"{comparison.table.where}: {comparison.table.task}",
            ran=", ".join(filter(None, [comparison.ran, setting_of(comparison)])),
            claims=claim_lines(comparison, verdicts),
            commands=commands[comparison.table.id],
        )
        for comparison in tables
    ]


def claims_about(place: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The papers' claims about a table or figure."""
    return [verdict for verdict in verdicts if place in verdict.where and not verdict.ours]


def claim_lines(comparison: Comparison, verdicts: Sequence[Verdict]) -> list[str]:
    """Lines about the papers' claims of a table: directions and sizes by verdict, as "held 2, undecided 1".

    Claims of a table without rows here read other runs, whose data set, scale and seeds stand beside them.
    """
    claims = claims_about(comparison.table.id, verdicts)
    if all(claim.verdict == "not run" for claim in claims):
        return []
    own, elsewhere = ([claim.size for claim in claims if claim.size and claim.own is kind] for kind in (True, False))
    read = {claim.setting: None for claim in claims if claim.setting} if comparison.status == "not run" else {}
    counts = {
        "direction of claims": counts_in_words([claim.verdict for claim in claims if claim.directed], VERDICTS),
        "size on the paper's own data": counts_in_words(own, SIZES),
        "size as information": counts_in_words(elsewhere, SIZES),
    }
    lines = [f"{name}: {count}" for name, count in counts.items() if count]
    return lines + [f"claims read {setting}" for setting in read]


def table_commands(root: Path) -> dict[str, Commands]:
    """Commands of each table.

    Raises:
        InputError: when a parameter file or a file of metrics is damaged.
    """
    key = tuple(read_text(root / name) if (root / name).exists() else "" for name in READ)
    if key not in _kept:
        presets = TablePresets(root)
        rows: dict[str, list[TableRow]] = {}
        for row in presets.rows.values():
            rows.setdefault(row.table, []).append(row)
        _kept.clear()
        _kept[key] = {table: _commands(root, presets, own) for table, own in rows.items()}
    return _kept[key]


def _commands(root: Path, presets: TablePresets, rows: Sequence[TableRow]) -> Commands:
    ready = [row for row in rows if not row.absent]
    if not ready:
        return Commands(None, 0, len(rows), "")
    # Of the first row alone: to check the parameters of all takes seconds.
    timing, detector = pretraining(root, presets, ready[0]), detector_hours(root, ready[0])
    parts = []
    if timing is not None:
        seeds = len(presets.params(ready[0]).seeds)
        parts.append(f"at least {two_digits(seeds * timing.seconds / 3600)} h of {H200}")
    if detector is not None:
        parts.append(f"about {two_digits(detector)} h of {V100}")
    if (time := study_time(root, ready[0])) is not None:
        parts.append(f"{time.hours} h of {time.machine}")
    first = ready[0].name
    scale = SCALE if first in presets.main.all else None
    return Commands(first, len(ready), len(rows) - len(ready), " and ".join(parts) or "hours not known", scale)


def counts_in_words(words: Sequence[str], order: Sequence[str]) -> str:
    """Count of each word, as "held 2, undecided 1"."""
    counts = Counter(words)
    return ", ".join(f"{name} {counts[name]}" for name in order if counts[name])
