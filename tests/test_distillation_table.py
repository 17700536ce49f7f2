"""The table of distillation against gains that are counted by hand."""

import numpy as np
import pytest

from annulus.errors import InputError
from annulus.files.results import write_seeds
from annulus.files.right import write_right
from annulus_lab.studies.distillation.distillation_tables import Students, differences, family, rows, teacher_row

PAIR = {"name": "small", "teacher": "resnet14", "student": "resnet8"}
# Right answers on four test images, by loss and seed of the student.
RIGHT = {
    "alone": {0: [1, 0, 0, 0], 1: [1, 1, 0, 0]},
    "crd": {0: [1, 1, 0, 0], 1: [1, 1, 1, 0]},
    "mlcpc-005": {0: [1, 1, 1, 0], 1: [1, 1, 1, 1]},
}
LOSSES = {"alone": {"alpha": None}, "crd": {"alpha": None}, "mlcpc-005": {"alpha": 0.05}, "kd": {"alpha": None}}


@pytest.fixture
def folder(tmp_path):
    for name, right in {
        "teacher-resnet14": {0: [1, 1, 1, 1]},
        **{f"small.{loss}": RIGHT[loss] for loss in RIGHT},
    }.items():
        bits = {seed: np.array(one, dtype=bool) for seed, one in right.items()}
        write_right(tmp_path / "right" / f"{name}.json", {"top1_percent": bits})
        write_seeds(tmp_path / "rows" / f"{name}.json", {seed: {"epochs": 5} for seed in right})
    return tmp_path


def test_gains_are_over_the_student_alone_and_over_crd_and_what_has_not_run_is_left_out(folder):
    students = Students("small", list(LOSSES), folder / "rows", folder / "right")
    table = {row["loss"]: row for row in rows(students, PAIR, LOSSES)}
    assert list(table) == ["alone", "crd", "mlcpc-005"]
    names = ("here_percent", "gain_percent", "crd_gain_percent")
    numbers = [[row[name] for name in names] for row in table.values()]
    assert numbers == [[37.5, 0, -25], [62.5, 25, 0], [87.5, 50, 25]]
    assert (table["alone"]["gain_verdict"], table["crd"]["crd_gain_verdict"]) == ("base", "base")
    assert (table["mlcpc-005"]["method"], table["mlcpc-005"]["alpha"]) == ("alpha-ML-CPC", 0.05)
    actual = differences(students, "small", {"mlcpc-005": ["crd", "kd"], "kd": ["crd"]})
    assert [(row["loss"], row["base"], row["gain_percent"]) for row in actual] == [("mlcpc-005", "crd", 25)]
    teacher = teacher_row(PAIR, folder / "rows", folder / "right")
    assert (teacher["here_percent"], teacher["gain_percent"], teacher["method"]) == (100, "", "Teacher")
    assert set(teacher) == {name for name in table["crd"] if "_seed" not in name}
    for row in table.values():
        for name in ("gain", "crd_gain"):
            assert (row[f"{name}_seed0_percent"] + row[f"{name}_seed1_percent"]) / 2 == row[f"{name}_percent"]


def test_losses_that_have_run_with_other_seeds_are_refused(folder):
    bits = dict.fromkeys((0, 1, 2), np.array([1, 0, 0, 0], dtype=bool))
    write_right(folder / "right/small.crd.json", {"top1_percent": bits})
    with pytest.raises(InputError, match=r"small\.crd has the seeds \[0, 1, 2\], small\.alone \[0, 1\]; a gain is of"):
        Students("small", list(LOSSES), folder / "rows", folder / "right")


@pytest.mark.parametrize(("loss", "expected"), [("mlcpc-005-ring", "mlcpc-ring"), ("cpc-1", "cpc"), ("crd", "crd")])
def test_a_family_is_a_loss_without_its_alpha(loss, expected):
    assert family(loss) == expected
