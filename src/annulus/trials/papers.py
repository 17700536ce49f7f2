"""A table of runs beside the papers' numbers, with gains over a base method in pairs of a seed and a test image."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.results import Number, read_metrics
from annulus.files.right import read_right
from annulus.intervals import COVERAGE, over_seeds
from annulus.trials.outcomes import BySeed, accuracy, gain, said, with_interval

ACCURACY = "linear_top1_percent"  # what the papers' tables print


class Rows:
    """The metrics and the right and wrong test images of each row, read once."""

    def __init__(self, metrics: Path, right: Path) -> None:
        self._metrics, self._right = metrics, right
        self._read: dict[str, tuple[list[dict[str, Number]], BySeed]] = {}

    def __getitem__(self, row: str) -> tuple[list[dict[str, Number]], BySeed]:
        """
        Raises:
            InputError: when a file is missing or of another run.
        """
        if row not in self._read:
            of_seeds = read_metrics(self._metrics / f"{row}.json")
            right = read_right(self._right / f"{row}.json")[ACCURACY]
            if {str(seed) for seed in right} != set(of_seeds):
                raise InputError(f"{row}: metrics and right test images are of other seeds; run `dvc repro` again")
            self._read[row] = list(of_seeds.values()), right
        return self._read[row]

    def ran(self, *rows: str) -> bool:
        """Whether all of them have; of a study that takes days, some have not."""
        return all((self._metrics / f"{row}.json").exists() for row in rows)

    def setting(self, row: str) -> dict[str, Number]:
        """Epochs and seeds of a row."""
        of_seeds, _ = self[row]
        return {"epochs": of_seeds[0]["epochs"], "seeds": len(of_seeds)}


def beside_papers(tables: Mapping[str, Any], rows: Rows, scale: str) -> list[dict[str, Number]]:
    """A row for every method of every table that has run, as its base has."""
    found = []
    for name, table in tables.items():
        for method, entry in table["methods"].items():
            base = table["methods"][entry.get("base", table["base"])]
            if not rows.ran(entry["row"], base["row"]):
                continue
            setting = {"scale": scale} | rows.setting(entry["row"])
            found.append({"table": name, "method": method, **compared(entry, base, rows), **setting})
    return found


def compared(entry: Mapping[str, Any], base: Mapping[str, Any], rows: Rows) -> dict[str, Number]:
    """Paper and here, each with its gain over the base; here's with intervals and a verdict."""
    (of_seeds, right), (_, of_base) = rows[entry["row"]], rows[base["row"]]
    known, above = entry["top1_percent"] is not None, gain(right, of_base)
    return {
        "paper_percent": entry["top1_percent"] if known else "",
        "paper_gain_percent": entry["top1_percent"] - base["top1_percent"] if known else "",
        **with_interval("here_percent", accuracy(right)),
        **with_interval("here_gain_percent", above),
        "verdict": "base" if entry["row"] == base["row"] else said(above),
        "here_knn_percent": _mean(of_seeds, "knn_top1_percent"),
        "bound_nats": _mean(of_seeds, "bound_nats"),
        "ceiling_nats": _mean(of_seeds, "ceiling_nats"),
    }


def in_pairs(pairs: Mapping[str, Sequence[str]], rows: Rows, scale: str) -> list[dict[str, Number]]:
    """Further differences: each row's gain over each of its bases, where both have run."""
    found: list[dict[str, Number]] = []
    for row, bases in pairs.items():
        for base in bases:
            if not rows.ran(row, base):
                continue
            above = gain(rows[row][1], rows[base][1])
            line = {"row": row, "base": base} | with_interval("gain_percent", above) | {"verdict": said(above)}
            found.append(line | {"scale": scale} | rows.setting(row))
    return found


def as_text(rows: Sequence[Mapping[str, Number]]) -> str:
    """The table for the eye: its main columns, and how many of its verdicts chance alone would give."""
    lines = [f"{'table':<18} {'method':<26}{'paper':>7}{'gain':>7}   {'here':>7}       {'gain':>7}       verdict"]
    for row in rows:
        paper, gained = (
            f"{row[name]:.1f}" if row[name] != "" else "" for name in ("paper_percent", "paper_gain_percent")
        )
        here, above = (f"{row[name]:>7.1f} ± {row[half]:<4.1f}" for name, half in SHOWN)
        lines.append(
            f"{row['table']:<18} {row['method']:<26}{paper:>7}{gained:>7}   {here}{above} {row['verdict']}".rstrip()
        )
    compared = [row for row in rows if row["verdict"] != "base"]
    differ = sum(row["verdict"] in ("better", "worse") for row in compared)
    chance = (1 - COVERAGE) * len(compared)
    lines.append(f"{differ} of {len(compared)} comparisons differ; {chance:.1f} would by chance alone")
    return "\n".join(lines)


SHOWN = [("here_percent", "here_interval_percent"), ("here_gain_percent", "here_gain_interval_percent")]


def _mean(of_seeds: Sequence[Mapping[str, Number]], name: str) -> float:
    return over_seeds([float(metrics[name]) for metrics in of_seeds]).mean
