"""The results of studies: rows of the tables that agree with their locks, without points of curves."""

import os
from pathlib import Path

import pytest
from measured import POINTS, measure_study
from report_root import first_commit

from annulus_lab.pipeline.study_rows import study_rows


def test_a_row_of_a_table_is_a_result_and_a_point_of_a_curve_is_none(tmp_path):
    measure_study(tmp_path)
    measure_study(tmp_path, "toys2", POINTS * 2)  # the second heading is a row of text, the third row is the first
    commit = first_commit(tmp_path)
    studies, faults = study_rows(tmp_path)
    assert not faults
    ring, uniform = studies["toys"]
    assert (ring.name, ring.commit) == ("points ring 0.5", commit)
    assert ring.params == {"file": "stages/toys/metrics/points.csv", "series": "ring", "value": "0.5"}
    numbers = {"seeds": 3.0, "top1_percent": 40.0, "top1_interval_percent": 1.5}
    assert ring.numbers == numbers | {"top1_verdict": "better", "scale": "demo"}
    assert (uniform.name, "top1_interval_percent" in uniform.numbers) == ("points uniform", False), "no empty cell"
    assert [row.name for row in studies["toys2"]] == ["points ring 0.5", "points series value"], "each once"


def test_a_row_of_known_information_is_named_by_it_and_one_that_is_told_it_afterwards_is_not(tmp_path):
    measure_study(tmp_path, "toys", "method,information_nats,pairs,estimate_nats\nEqCo,2.0,64,1.9\nEqCo,4.0,64,3.7\n")
    measure_study(tmp_path, "late", "method,estimate_nats,information_nats\nEqCo,1.9,2.0\n")
    first_commit(tmp_path)
    studies, _ = study_rows(tmp_path)
    assert [row.name for row in studies["toys"]] == ["points EqCo 2.0 64", "points EqCo 4.0 64"]
    assert studies["toys"][1].params["information_nats"] == "4.0"
    assert studies["toys"][1].numbers == {"estimate_nats": 3.7}
    (late,) = studies["late"]
    assert (late.name, late.numbers) == ("points EqCo", {"estimate_nats": 1.9, "information_nats": 2.0})


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        (
            "stages/toys/metrics/points.csv",
            POINTS,
            "study toys: stages/toys/metrics/points.csv differs from dvc.lock, as after a run that did not "
            "finish; run `make study STUDY=toys`",
        ),
        ("stages/toys/metrics/points.csv", None, "study toys: stages/toys/metrics/points.csv is missing, as"),
        ("stages/toys/metrics/points.csv", "a pipe", "study toys: stages/toys/metrics/points.csv is missing, as"),
        ("stages/toys/dvc.lock", "stages: [", "stages/toys/dvc.lock: not this version's (ParserError: "),
        ("stages/toys/dvc.lock", "stages: {a: {outs: [{}]}}", "stages/toys/dvc.lock: not this version's (KeyError: "),
        ("stages/toys/dvc.lock", "a pipe", "stages/toys/dvc.lock: not this version's (LookupError: "),
    ],
)
def test_a_table_that_the_lock_does_not_vouch_for_is_left_out_and_named(tmp_path, name, content, fault):
    measure_study(tmp_path)
    measure_study(tmp_path, "other")
    path = Path(tmp_path, name)
    path.unlink()
    if content == "a pipe":
        os.mkfifo(path)
    elif content:
        path.write_text(content, encoding="utf-8")
    studies, (message,) = study_rows(tmp_path)
    assert list(studies) == ["other"]
    assert message.startswith(fault)


@pytest.mark.parametrize("row", ["ring,0.5,3,nan,1.5,better,demo", "ring,0.5,3,40.0,1.5,better,demo,more"])
def test_a_table_with_a_row_of_another_kind_is_named(tmp_path, row):
    measure_study(tmp_path, points=f"{POINTS}{row}\n")
    studies, (message,) = study_rows(tmp_path)
    assert not studies
    assert message.startswith("study toys: stages/toys/metrics/points.csv: not this version's (")
