"""The study `moving_digits` as a user runs it, at `scale: tiny`, cut to two sharings."""

from argparse import Namespace

import pytest
import torch
from by_path import ROOT, read_yaml, script
from checkout import Checkout, ran, rows_of
from PIL import Image

SHARINGS = [["digit"], ["digit", "position"]]


def two_sharings(content: dict) -> None:
    content |= {"scale": "tiny", "seeds": [0, 1]}
    content["training"]["sharings"] = SHARINGS


@pytest.mark.slow
def test_the_study_as_a_user_runs_it(tmp_path):
    checkout = Checkout(tmp_path / "annulus", "moving_digits")
    checkout.cut("moving_digits", two_sharings)
    assert ran(checkout.dvc("repro", study="moving_digits")) == ["settings", "images", "table"]
    folder = checkout.project("moving_digits") / "metrics"
    rows = rows_of(folder / "table.csv")
    assert [row["sharing"] for row in rows] == ["digit", "digit + position", "supervised", "untrained"]
    for row in rows:
        assert (row["seeds"], row["scale"]) == ("2", "tiny")
        assert 0 < float(row["digit_error_percent"]) <= 100
        assert 0 < float(row["position_error_pixels"]) < 8 * 2**0.5
        assert (row["bound_nats"] == "") == (row["sharing"] in ("supervised", "untrained"))
    (pair,) = rows_of(folder / "pairs.csv")
    difference = float(rows[1]["digit_error_percent"]) - float(rows[0]["digit_error_percent"])
    assert float(pair["digit_gain_percent"]) == pytest.approx(difference, abs=0.011)
    with Image.open(folder / "strips.png") as strips:
        assert strips.height == 4 * (2 * 16 + 4) + 4, "a video, target frames, and a row for each sharing"
    states = list(checkout.folder.glob(".annulus/checkpoints/*/*"))
    assert all((state / "let-go").exists() for state in states), "of the last stage"

    changed = checkout.changed_by("moving_digits", lambda content: content["training"].update({"temperature": 0.3}))
    assert changed == {"table"}, "the images are as they were"


def test_sharings_of_which_none_holds_another_have_no_pair_and_a_further_seed_or_sharing_changes_no_run(
    tmp_path, monkeypatch
):
    calls = []

    class Ran:
        def __init__(self, *_):
            self.done = lambda: None

        def run(self, tasks):
            calls.append(tasks)
            result = dict.fromkeys(("digit", "background", "position"), torch.ones(2)) | {"loss_nats": 1.0}
            return dict.fromkeys(tasks, result)

    stage = script("stages/moving_digits/table.py")
    monkeypatch.setattr(stage, "ResumableTasks", Ran)
    paths = Namespace(images=tmp_path / "images", table=tmp_path / "table.csv", pairs=tmp_path / "pairs.csv")
    paths.images.touch()
    training = read_yaml(ROOT / "stages/moving_digits/params.yaml")["training"]
    training |= {"sharings": [["digit"], ["position"]]}
    for seeds, first in ([0, 1], 1), ([0, 1], 0), ([0, 1, 2], 0):
        some = training | {"sharings": training["sharings"][first:]}
        stage.main({"world": {}, "training": some, "seeds": seeds, "scale": "tiny"}, paths)
    assert calls[0].items() < calls[1].items() < calls[2].items()
    assert [row["sharing"] for row in rows_of(paths.table)] == ["digit", "position", "supervised", "untrained"]
    assert rows_of(paths.pairs) == []
