"""The study `transfer` as a user runs it, at `scale: tiny`, with two targets."""

import pytest
from checkout import Checkout, ran, rows_of
from PIL import Image

from annulus.encoders.saved import load_encoder

TARGETS = ["digits", "hues"]


def two_targets(content: dict) -> None:
    ball = {"name": "BALL+anneal", "base": "uniform", "trained": True, "changes": {"sampler": "ball"}}
    content |= {"scale": "tiny", "targets": TARGETS, "seeds": [0, 1], "encoders": [ball]}


@pytest.mark.slow
def test_the_study_as_a_user_runs_it(tmp_path):
    checkout = Checkout(tmp_path / "annulus", "transfer")
    checkout.cut("transfer", two_targets)
    target_stages = {f"{stage}@{target}" for stage in ("images", "target") for target in TARGETS}
    variant_stages = {f"encoders@{variant}" for variant in ("main", "uniform", "untrained")}
    further_stages = {"further_encoders@encoder0", "further@encoder0"}
    stages = ran(checkout.dvc("repro", study="transfer"))
    assert set(stages) == {"settings", "training", "table"} | target_stages | variant_stages | further_stages

    folder = checkout.project("transfer") / "metrics"
    *rows, ball, _ = rows_of(folder / "table.csv")
    assert (ball["target"], ball["variant"], ball["algorithm"]) == (TARGETS[0], "BALL+anneal", "BALL+anneal")
    names = ["main", "uniform", "untrained"]
    assert [(row["target"], row["variant"]) for row in rows] == [(one, name) for one in TARGETS for name in names]
    assert {(row["seeds"], row["scale"]) for row in rows} == {("2", "tiny")}
    for row in rows:
        assert 0 < float(row["linear_top1_percent"]) < 100
        assert 20 < float(row["few_shot_top1_percent"]) < 100, "above chance"
    *gains, over, _ = rows_of(folder / "gains.csv")
    uniform = next(row for row in rows if row["variant"] == "uniform")
    assert (over["target"], over["over"]) == (TARGETS[0], "uniform, by BALL+anneal")
    for number in ("linear", "few_shot"):
        ours, theirs = (float(row[f"{number}_top1_percent"]) for row in (ball, uniform))
        assert float(over[f"{number}_gain_percent"]) == pytest.approx(ours - theirs, abs=0.011)
    for place, target in enumerate(TARGETS):
        own = rows[3 * place : 3 * place + 3]
        for row, base in zip(gains[2 * place : 2 * place + 2], own[1:], strict=True):
            assert (row["target"], row["over"]) == (target, base["variant"])
            for number in ("linear", "few_shot"):
                ours, theirs = (float(each[f"{number}_top1_percent"]) for each in (own[0], base))
                assert float(row[f"{number}_gain_percent"]) == pytest.approx(ours - theirs, abs=0.011)
    with Image.open(folder / "targets.png") as sheet:
        assert sheet.height == len(TARGETS) * 52 + 4
    untrained = load_encoder(checkout.project("transfer") / "data/encoders/untrained/1.safetensors")
    trained = load_encoder(checkout.project("transfer") / "data/encoders/main/1.safetensors")
    assert untrained.config == trained.config
    assert not list(checkout.folder.glob(".annulus/checkpoints/*/*"))

    checkout.edit("params.yaml", "cave: {outer: 0.1,", "cave: {outer: 0.2,")  # no encoder here has a cave
    changed = checkout.changed_by("transfer", lambda content: content["few_shot"].update({"ways": 3}))
    assert changed == {f"target@{target}" for target in TARGETS} | {"further@encoder0"}
