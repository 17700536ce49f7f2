"""Tables of the study: each student beside the student without a teacher, and beside CRD."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.errors import InputError, abridge
from annulus.files.results import Number, read_metrics
from annulus.files.right import read_right
from annulus_lab.studies.shared.outcomes import BySeed, accuracy, by_seed, gain, verdict_text, with_interval

ALONE, CRD, TEACHER = "alone", "crd", "teacher"
# The paper's names of its losses; the other losses are this study's own.
METHODS = {ALONE: "Student", "kd": "KD", CRD: "CRD", "cpc": "alpha-CPC", "mlcpc": "alpha-ML-CPC", TEACHER: "Teacher"}
ACCURACY = "top1_percent"


class Students:
    """Students of one pair: right test images by loss and seed. A loss that has not run is absent."""

    def __init__(self, pair: str, losses: Sequence[str], metrics: Path, right: Path) -> None:
        """Reads the files of the losses that have run.

        Raises:
            InputError: when losses have run with different seeds.
        """
        names = {loss: f"{pair}.{loss}.json" for loss in losses if (metrics / f"{pair}.{loss}.json").exists()}
        self.right: dict[str, BySeed] = {loss: read_right(right / name)[ACCURACY] for loss, name in names.items()}
        first = next(iter(self.right), None)
        for loss in self.right:
            if self.right[loss].keys() != self.right[first].keys():
                own, others = (abridge(sorted(self.right[name])) for name in (loss, first))
                raise InputError(
                    f"{pair}.{loss} has the seeds {own}, {pair}.{first} {others}; a gain is of the same seeds: run the "
                    "older ones again"
                )
        self.epochs = {
            loss: next(iter(read_metrics(metrics / name).values()))["epochs"] for loss, name in names.items()
        }


def rows(students: Students, pair: Mapping[str, Any], losses: Mapping[str, Any]) -> list[dict[str, Number]]:
    """Row for each loss that has run: its accuracy, and its gains over the student alone and over CRD.

    Gains compare pairs of a seed and a test image: students of one seed share first weights, order and views.
    """
    table = []
    for loss, right in students.right.items():
        row: dict[str, Number] = {"pair": pair["name"], "teacher": pair["teacher"], "student": pair["student"]}
        name, alpha = family(loss), losses[loss]["alpha"]
        row |= {"loss": loss, "method": METHODS.get(name, name), "alpha": "" if alpha is None else alpha}
        row |= with_interval("here_percent", accuracy(right))
        seeds: dict[str, Number] = {}
        for name, base in (("gain", ALONE), ("crd_gain", CRD)):
            if base not in students.right:
                row |= {f"{name}_percent": "", f"{name}_interval_percent": "", f"{name}_verdict": ""}
                continue
            above = gain(right, students.right[base])
            row |= with_interval(f"{name}_percent", above)
            row[f"{name}_verdict"] = "base" if loss == base else verdict_text(above)
            below = students.right[base]
            seeds |= by_seed(
                f"{name}_percent", {seed: 100 * float(bits.mean() - below[seed].mean()) for seed, bits in right.items()}
            )
        table.append(row | {"epochs": students.epochs[loss], "seeds": len(right)} | seeds)
    return table


def teacher_row(pair: Mapping[str, Any], metrics: Path, right: Path) -> dict[str, Number]:
    """Row of the teacher's own accuracy, with the students' columns; the gains are empty."""
    name = f"teacher-{pair['teacher']}.json"
    (numbers,) = read_metrics(metrics / name).values()
    row: dict[str, Number] = {"pair": pair["name"], "teacher": pair["teacher"], "student": pair["student"]}
    row |= {"loss": TEACHER, "method": METHODS[TEACHER], "alpha": ""}
    row |= with_interval("here_percent", accuracy(read_right(right / name)[ACCURACY]))
    for name in ("gain", "crd_gain"):
        row |= {f"{name}_percent": "", f"{name}_interval_percent": "", f"{name}_verdict": ""}
    return row | {"epochs": numbers["epochs"], "seeds": 1}


def family(loss: str) -> str:
    """Name of a loss without its alpha: `mlcpc-ring` for mlcpc-005-ring, `crd` for crd."""
    return "-".join(part for part in loss.split("-") if not part.replace(".", "").isdigit())


def differences(students: Students, pair: str, comparisons: Mapping[str, Sequence[str]]) -> list[dict[str, Number]]:
    """Rows of further gains of one loss over another, if both have run."""
    table = []
    for loss, bases in comparisons.items():
        for base in bases:
            if {loss, base} <= set(students.right):
                above = gain(students.right[loss], students.right[base])
                numbers = with_interval("gain_percent", above) | {"verdict": verdict_text(above)}
                table.append(
                    {"pair": pair, "loss": loss, "base": base} | numbers | {"seeds": len(students.right[loss])}
                )
    return table
