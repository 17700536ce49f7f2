"""The table of distillation against gains that one can count by hand."""

import numpy as np
import pytest

from annulus.distillation.table import Students, differences, family, rows, teacher_row
from annulus.files.results import write_seeds
from annulus.files.right import write_right

PAIR = {"name": "small", "teacher": "resnet14", "student": "resnet8"}
# Which of four test images each seed's student is right of.
RIGHT = {
    "alone": {0: [1, 0, 0, 0], 1: [1, 1, 0, 0]},
    "crd": {0: [1, 1, 0, 0], 1: [1, 1, 1, 0]},
    "mlcpc-005": {0: [1, 1, 1, 0], 1: [1, 1, 1, 1]},
}
LOSSES = {"alone": {"alpha": None}, "crd": {"alpha": None}, "mlcpc-005": {"alpha": 0.05}, "kd": {"alpha": None}}


def written(folder, name, right):
    bits = {seed: np.array(one, dtype=bool) for seed, one in right.items()}
    write_right(folder / "right" / f"{name}.json", {"top1_percent": bits})
    write_seeds(folder / "rows" / f"{name}.json", {seed: {"epochs": 5} for seed in right})


@pytest.fixture
def folder(tmp_path):
    for loss, right in RIGHT.items():
        written(tmp_path, f"small.{loss}", right)
    written(tmp_path, "teacher-resnet14", {0: [1, 1, 1, 1]})
    return tmp_path


def test_gains_are_over_the_student_alone_and_over_crd_and_what_has_not_run_is_left_out(folder):
    students = Students("small", list(LOSSES), folder / "rows", folder / "right")
    table = {row["loss"]: row for row in rows(students, PAIR, LOSSES)}
    assert list(table) == ["alone", "crd", "mlcpc-005"]
    assert [row["here_percent"] for row in table.values()] == [37.5, 62.5, 87.5]
    assert [row["gain_percent"] for row in table.values()] == [0, 25, 50]
    assert [row["crd_gain_percent"] for row in table.values()] == [-25, 0, 25]
    assert (table["alone"]["gain_verdict"], table["crd"]["crd_gain_verdict"]) == ("base", "base")
    assert (table["mlcpc-005"]["method"], table["mlcpc-005"]["alpha"]) == ("alpha-ML-CPC", 0.05)
    found = differences(students, "small", {"mlcpc-005": ["crd", "kd"], "kd": ["crd"]})
    assert [(row["loss"], row["base"], row["gain_percent"]) for row in found] == [("mlcpc-005", "crd", 25)]


def test_the_teacher_s_row_has_the_students_columns(folder):
    students = Students("small", list(LOSSES), folder / "rows", folder / "right")
    row = teacher_row(PAIR, folder / "rows", folder / "right")
    assert (row["here_percent"], row["gain_percent"], row["method"]) == (100, "", "Teacher")
    assert set(row) == set(rows(students, PAIR, LOSSES)[0])


@pytest.mark.parametrize(("loss", "expected"), [("mlcpc-005-ring", "mlcpc-ring"), ("cpc-1", "cpc"), ("crd", "crd")])
def test_a_family_is_a_loss_without_its_alpha(loss, expected):
    assert family(loss) == expected
