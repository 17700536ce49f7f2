"""Table of runs beside the papers' numbers, with gains over a base method in pairs of a seed and a test image."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.evals.families import by_chance, from_half, survivors
from annulus.evals.intervals import Interval, over_seeds
from annulus.files.results import Number, read_metrics
from annulus.files.right import read_right
from annulus_lab.studies.shared.outcomes import BySeed, accuracy, gain, verdict_text, with_interval

log = logging.getLogger("annulus")

ACCURACY = "linear_top1_percent"  # the number of the papers' tables
KNN = "knn_top1_percent"  # beside it: negatives change it more
TOP5 = "linear_top5_percent"  # without test images of its own: its interval covers seeds alone


class StudyRows:
    """Metrics and right test images of each row, read once: ROW.json, or ROW/SEED.json for each seed.

    In a study of days some seeds are missing: rows are compared by their common seeds, at least `least`. A row without
    its right test images, whose metrics come from elsewhere, counts as not run, with a warning.
    """

    def __init__(self, metrics: Path, right: Path, least: int = 1) -> None:
        self._metrics, self._right, self._least = metrics, right, least
        self._read: dict[str, tuple[list[dict[str, Number]], dict[str, BySeed]]] = {}
        self._warned: set[str] = set()

    def __getitem__(self, row: str) -> tuple[list[dict[str, Number]], dict[str, BySeed]]:
        """Numbers of a row by seed, and its right test images by accuracy and seed.

        Raises:
            InputError: when a file is missing or belongs to another run.
        """
        if row not in self._read:
            seed_metrics = {
                seed: metrics for file in _files(self._metrics, row) for seed, metrics in read_metrics(file).items()
            }
            parts = [read_right(file) for file in _files(self._right, row)]
            right = {
                name: {seed: bits for part in parts for seed, bits in part[name].items()} for name in (ACCURACY, KNN)
            }
            if {str(seed) for seed in right[ACCURACY]} != set(seed_metrics):
                raise InputError(f"{row}: metrics and right test images are of other seeds; run `dvc repro` again")
            if len(epochs := {metrics["epochs"] for metrics in seed_metrics.values()}) > 1:
                raise InputError(
                    f"{row}: its seeds trained for {sorted(epochs)} epochs; run the older ones again, or delete their "
                    f"files in {self._metrics} and {self._right}"
                )
            self._read[row] = list(seed_metrics.values()), right
        return self._read[row]

    def comparable(self, row: str, base: str) -> bool:
        """Returns True if both rows have run, with at least `least` seeds in common."""
        return all(self._has_run(name) for name in (row, base)) and len(self.common(row, base)) >= self._least

    def common(self, row: str, base: str) -> list[int]:
        """Seeds that both rows have; gains are taken over these."""
        return list(_shared(self[row][1][ACCURACY], self[base][1][ACCURACY]))

    def gain(self, row: str, base: str, name: str) -> Interval:
        """Gain of a row over another, over the seeds that both have."""
        right, base_right = self[row][1][name], self[base][1][name]
        return gain(_shared(right, base_right), base_right)

    def _has_run(self, row: str) -> bool:
        if not _files(self._metrics, row)[0].exists():
            return False
        right = _files(self._right, row)[0]
        if not right.exists() and row not in self._warned:
            self._warned.add(row)
            log.warning("WARNING: %s is left out of the tables: its stage's file %s is missing", row, right)
        return right.exists()

    def setting(self, row: str) -> dict[str, Number]:
        """Epochs and seeds of a row."""
        seed_metrics, _ = self[row]
        return {"epochs": seed_metrics[0]["epochs"], "seeds": len(seed_metrics)}


def _files(folder: Path, row: str) -> list[Path]:
    """File of a row, or the files of its seeds."""
    return sorted((folder / row).glob("*.json")) or [folder / f"{row}.json"]


def _shared(right: BySeed, base: BySeed) -> BySeed:
    """Bits of the seeds that the base has too."""
    return {seed: bits for seed, bits in right.items() if seed in base}


def comparison_table(tables: Mapping[str, Any], rows: StudyRows, scale: str) -> list[dict[str, Number]]:
    """Line for each method of each table, if the method and its base have run."""
    lines = []
    for name, table in tables.items():
        for method, entry in table["methods"].items():
            base = table["methods"][entry.get("base", table["base"])]
            if not rows.comparable(entry["row"], base["row"]):
                continue
            setting = {"scale": scale} | rows.setting(entry["row"])
            setting["gain_seeds"] = len(rows.common(entry["row"], base["row"]))
            lines.append({"table": name, "method": method, **compared(entry, base, rows), **setting})
    return lines


def compared(entry: Mapping[str, Any], base: Mapping[str, Any], rows: StudyRows) -> dict[str, Number]:
    """Cells of the paper's and the measured number, each with its gain over the base; measured ones with intervals."""
    seed_metrics, right = rows[entry["row"]]
    paper, paper_base, is_base = entry["top1_percent"], base["top1_percent"], entry["row"] == base["row"]
    above, knn_above = (rows.gain(entry["row"], base["row"], name) for name in (ACCURACY, KNN))
    return {
        "paper_percent": "" if paper is None else paper,
        "paper_gain_percent": "" if None in (paper, paper_base) else paper - paper_base,
        **with_interval("here_percent", accuracy(right[ACCURACY])),
        **with_interval("here_gain_percent", above),
        "verdict": "base" if is_base else verdict_text(above),
        **with_interval("here_knn_percent", accuracy(right[KNN])),
        **with_interval("here_knn_gain_percent", knn_above),
        "knn_verdict": "base" if is_base else verdict_text(knn_above),
        **_top5(seed_metrics),
        "bound_nats": _mean(seed_metrics, "bound_nats"),
        "ceiling_nats": _mean(seed_metrics, "ceiling_nats"),
    }


def in_pairs(pairs: Mapping[str, Sequence[str]], rows: StudyRows, scale: str) -> list[dict[str, Number]]:
    """Lines of further differences: each row's gain over each of its bases, if both have run."""
    lines: list[dict[str, Number]] = []
    for row, bases in pairs.items():
        for base in bases:
            if not rows.comparable(row, base):
                continue
            above, knn_above = (rows.gain(row, base, name) for name in (ACCURACY, KNN))
            line = {"row": row, "base": base} | with_interval("gain_percent", above) | {"verdict": verdict_text(above)}
            line |= with_interval("knn_gain_percent", knn_above) | {"knn_verdict": verdict_text(knn_above)}
            lines.append(line | {"scale": scale} | rows.setting(row) | {"seeds": len(rows.common(row, base))})
    return lines


def as_text(rows: Sequence[Mapping[str, Number]]) -> str:
    """Main columns of the table as text. The last line reads all rows together: Holm's correction, verdicts by chance.

    A row that stands in two tables with the same numbers counts once.
    """
    compared = [row for row in rows if row["verdict"] not in WITHOUT_VERDICT]
    once = list({_measured(row): row for row in compared}.values())
    gains = [from_half(*(_optional(row[name]) for name in SHOWN[1]), int(row["gain_seeds"])) for row in once]
    stand = {_measured(row) for row, stands in zip(once, survivors(gains), strict=True) if stands}
    lines = [f"{'table':<18} {'method':<26}{'paper':>7}{'gain':>7}   {'here':>7}       {'gain':>7}       verdict"]
    for row in rows:
        paper, gained = (
            f"{row[name]:.1f}" if row[name] != "" else "" for name in ("paper_percent", "paper_gain_percent")
        )
        here, above = (_with_half(row[name], row[half]) for name, half in SHOWN)
        said = f"{row['verdict']}{', survives' * (_measured(row) in stand)}"
        lines.append(f"{row['table']:<18} {row['method']:<26}{paper:>7}{gained:>7}   {here}{above} {said}".rstrip())
    differ = sum(row["verdict"] in ("better", "worse") for row in once)
    chance = by_chance(len(once), 1 + int(min((gain.freedom for gain in gains), default=0)))
    lines.append(
        f"{differ} of {len(once)} comparisons differ, {len(stand)} survive Holm's correction for all; by chance alone "
        f"{chance.mean:.1f} would differ on average, {chance.one_of_ten} or more in one table of ten, and one at least "
        f"in {chance.any_percent:.0f} % of tables"
    )
    return "\n".join(lines)


def _measured(row: Mapping[str, Number]) -> tuple[Number, ...]:
    """Numbers of a row without its place in the papers."""
    return tuple(value for name, value in row.items() if name not in PLACE)


def _optional(cell: Number) -> float | None:
    return None if cell == "" else float(cell)


def pairs_as_text(rows: Sequence[Mapping[str, Number]]) -> str:
    """Further differences as text."""
    lines = [f"{'row':<26} {'over':<26}{'gain':>7}       verdict"]
    for row in rows:
        above = _with_half(row["gain_percent"], row["gain_interval_percent"])
        lines.append(f"{row['row']:<26} {row['base']:<26}{above}{row['verdict']}")
    return "\n".join(lines)


WITHOUT_VERDICT = ("base", "equal", "one seed")  # such rows cannot differ
PLACE = ("table", "method", "paper_percent", "paper_gain_percent")
SHOWN = [("here_percent", "here_interval_percent"), ("here_gain_percent", "here_gain_interval_percent")]


def _with_half(mean: Number, half: Number) -> str:
    """Number and half of its interval; blank for a single seed."""
    return f"{mean:>7.1f}" + (" " * 7 if half == "" else f" ± {half:<4.1f}")


def _top5(seed_metrics: Sequence[Mapping[str, Number]]) -> dict[str, Number]:
    """Top-5 accuracy with its interval over seeds; empty cells for a row that ran before rows kept it."""
    if any(TOP5 not in metrics for metrics in seed_metrics):
        return {"here_top5_percent": "", "here_top5_interval_percent": ""}
    return with_interval("here_top5_percent", over_seeds([float(metrics[TOP5]) for metrics in seed_metrics]))


def _mean(seed_metrics: Sequence[Mapping[str, Number]], name: str) -> float:
    return over_seeds([float(metrics[name]) for metrics in seed_metrics]).mean
