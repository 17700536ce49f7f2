"""State of every table of the papers: rows that ran here, verdicts of claims, and commands with their hours."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from annulus.files.regular import read_text
from annulus_lab.report.claims.verdicts import VERDICTS, Verdict
from annulus_lab.report.papers.comparison import Comparison
from annulus_lab.report.papers.tables import common_setting
from annulus_lab.report.presets.h200 import STEPS
from annulus_lab.report.presets.hours import (
    BENCHMARKS,
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
STUDIES = ("algorithms", "detection", "distillation", "estimators", "moving_digits", "view_learning")
TIMES = (STEPS, PAPER_STUDIES, f"{BENCHMARKS}/distillation.json")
READ = ("params.yaml", *(f"stages/{study}/params.yaml" for study in STUDIES), *TIMES)
_cache: dict[tuple[str, ...], dict[str, "Commands"]] = {}  # by the content of `READ`, for repeated calls


@dataclass(frozen=True)
class Commands:
    """Commands of a table's rows at the papers' scale, and the hours of the first, if known."""

    first: str | None  # row whose command `annulus preset` prints; None: no row has one
    count: int
    missing: int  # rows that have no command
    hours: str
    scale: str | None = None  # for `annulus preset`, if the row runs at other scales too

    @property
    def line(self) -> str:
        """Command that prints the first command."""
        scale = "" if self.scale is None else f" --scale {self.scale}"
        return "" if self.first is None else f"annulus preset {shlex.quote(self.first)}{scale}"

    def __str__(self) -> str:
        missing = f", {self.missing} row{'s' * (self.missing > 1)} without" if self.missing else ""
        first = f"; the first: {self.hours}" if self.hours else ""
        return f"{self.count} command{'s' * (self.count != 1)}{missing}{first}"


@dataclass(frozen=True)
class TableState:
    """One table: its printed rows that ran here, its claims by verdict, its commands."""

    table: str
    title: str
    coverage: str
    claims: list[str]
    commands: Commands


def table_states(root: Path, tables: Sequence[Comparison], verdicts: Sequence[Verdict]) -> list[TableState]:
    """Returns the states of the tables, in their order.

    Raises:
        InputError: when a parameter file or a file of metrics is damaged.
    """
    commands = table_commands(root)
    return [
        TableState(
            table=comparison.table.id,
            title=f"{comparison.table.where}: {comparison.table.task}",
            coverage=", ".join(filter(None, [comparison.coverage, common_setting(comparison)])),
            claims=claim_lines(comparison, verdicts),
            commands=commands[comparison.table.id],
        )
        for comparison in tables
    ]


def claims_about(place: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Returns the papers' claims about a table or figure."""
    return [verdict for verdict in verdicts if place in verdict.where and not verdict.ours]


def claim_lines(comparison: Comparison, verdicts: Sequence[Verdict]) -> list[str]:
    """Returns lines on the papers' claims of a table: directions and sizes by verdict, as "held 2, undecided 1".

    Claims of a table without rows here read other runs; further lines name their data set, scale and seeds.
    """
    claims = claims_about(comparison.table.id, verdicts)
    if all(claim.verdict == "not run" for claim in claims):
        return []
    own, elsewhere = ([claim.size for claim in claims if claim.size and claim.own is kind] for kind in (True, False))
    read = {claim.setting: None for claim in claims if claim.setting} if comparison.status == "not run" else {}
    counts = {
        "direction of claims": counts_in_words([claim.verdict for claim in claims if claim.has_direction], VERDICTS),
        "size on the paper's own data": counts_in_words(own, SIZES),
        "size as information": counts_in_words(elsewhere, SIZES),
    }
    lines = [f"{name}: {count}" for name, count in counts.items() if count]
    return lines + [f"claims read {setting}" for setting in read]


def table_commands(root: Path) -> dict[str, Commands]:
    """Returns the commands of each table.

    Raises:
        InputError: when a parameter file or a file of metrics is damaged.
    """
    key = tuple(read_text(root / name) if (root / name).exists() else "" for name in READ)
    if key not in _cache:
        presets = TablePresets(root)
        rows: dict[str, list[TableRow]] = {}
        for row in presets.rows.values():
            rows.setdefault(row.table, []).append(row)
        _cache.clear()
        _cache[key] = {table: _commands(root, presets, own) for table, own in rows.items()}
    return _cache[key]


def _commands(root: Path, presets: TablePresets, rows: Sequence[TableRow]) -> Commands:
    ready = [row for row in rows if not row.absent]
    if not ready:
        return Commands(None, 0, len(rows), "")
    # Hours of the first row alone: checking the parameters of all rows takes seconds.
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
    """Returns the count of each word, as "held 2, undecided 1"."""
    counts = Counter(words)
    return ", ".join(f"{name} {counts[name]}" for name in order if counts[name])
