"""Accuracies of the students -> a table, further differences, and a picture of correlations."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.errors import InputError
from annulus.files.results import write_table
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.distillation.correlation import differences as from_teacher
from annulus_lab.studies.distillation.correlation import save_picture
from annulus_lab.studies.distillation.distillation_tables import Students, differences, rows, teacher_row

PATHS = ["images", "teachers", "students", "rows", "right", "table", "pairs", "correlations"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    setting = {"scale": settings["scale"], "dataset": settings["dataset"]}
    table, pairs, losses = [], [], settings["losses"]
    for pair in settings["pairs"]:
        students = Students(pair["name"], list(losses), paths.rows, paths.right)
        if not students.right:
            continue
        teacher = teacher_row(pair, paths.rows, paths.right)
        table += [row | setting for row in [teacher, *rows(students, pair, losses)]]
        pairs += [row | setting for row in differences(students, pair["name"], settings["comparisons"])]
    if not table:
        raise InputError(f"{paths.rows}: nothing to compare has run yet; run `student@pair0-LOSS` of a loss")
    picture = settings["shown"]
    students = {
        loss: paths.students / f"{picture['name']}.{loss}" / f"{picture['seed']}.safetensors"
        for loss in picture["losses"]
    }
    teacher = paths.teachers / f"{picture['teacher']}.safetensors"
    save_picture(from_teacher(paths.images / "test.safetensors", teacher, students), paths.correlations)
    write_table(paths.table, table)
    write_table(paths.pairs, pairs, columns=["pair", "loss", "base"])
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
