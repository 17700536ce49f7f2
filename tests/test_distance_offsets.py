"""A run that trains on one set and is probed on others, against the same steps by hand."""

import itertools
from argparse import Namespace

import pytest
from by_path import script
from settings import CPU, SMALL, load, stripes

from annulus.files.images import save_images
from annulus.training.setup import build_training
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.distance import offsets
from annulus_lab.studies.distance.offsets import OffsetInputs, evaluate_offset, training_state
from annulus_lab.studies.shared.information import held_out
from annulus_lab.studies.shared.measured import Outcome
from annulus_lab.studies.shared.outcomes import metrics_row
from annulus_lab.studies.shared.runs import build_trial, load_splits, probe

PATCHES = {
    "method": "simclr",
    "views": "patches",
    "view_sets.patches.patches": {"offset": 4},
    "datasets.shapes.view_size": 12,
    "sampler": "uniform",
    "anneal": "none",
    "knn.k": 5,
}


@pytest.fixture
def folders(tmp_path, empty_checkout):
    """Three sets of different sizes."""
    for number, (name, test) in enumerate({"large": 40, "one": 30, "two": 24}.items()):
        (tmp_path / name).mkdir()
        for split, count in (("train", 70), ("validation", 10), ("test", test)):
            save_images(tmp_path / name / f"{split}.safetensors", stripes(count, 10 * number + count))
    return {name: tmp_path / name for name in ("large", "one", "two")}


@pytest.mark.parametrize("inputs", ["features", "views"])
def test_each_set_is_probed_with_the_encoder_that_saw_patches_of_the_large_images(folders, inputs):
    """A probe of views keeps a state for each set."""
    tree = resolved(load(SMALL | PATCHES | {"linear.inputs": inputs}), RUN)
    probes = {name: folders[name] for name in ("one", "two")}
    sets = OffsetInputs(large=folders["large"], probes=probes, held_out_pairs=32)
    shared = {"sets": sets, "hashes": sets.hashes, "run": tree}
    outcomes, again, other = (evaluate_offset(shared, (4, seed)) for seed in (0, 0, 1))
    assert outcomes == again
    states = {state.stem.rpartition("-")[2] for state in training_state(shared, (4, 0)).folder.glob("*.pt")}
    assert {"one", "two"} <= states if inputs == "views" else not {"one", "two"} & states
    assert outcomes["one"]["history"] != other["one"]["history"]

    large, trial = load_splits(folders["large"]), build_trial(tree, 0)
    training = build_training(trial.run, large.train, large.validation, CPU)
    history = training.run()
    shared_nats = held_out(training, large.test, 32, 0)
    for name, folder in probes.items():
        splits = load_splits(folder)
        accuracies, right = probe(training, splits, trial)
        assert outcomes[name]["metrics"] == training.metrics | shared_nats | accuracies
        assert outcomes[name]["right"] == right
        assert {len(bits) for bits in right.values()} == {len(splits.test)}
        assert outcomes[name]["history"] == history

    runs = {0: Outcome(**outcomes["two"]), 1: Outcome(**other["two"])}
    row = metrics_row(("two", 4), runs, runs)
    assert row["held_out_nats"] == pytest.approx(
        (outcomes["two"]["metrics"]["held_out_nats"] + other["two"]["metrics"]["held_out_nats"]) / 2
    )
    assert row["linear_verdict"] == "base"


def test_an_edit_while_runs_wait_for_a_worker_changes_no_state(tmp_path, monkeypatch):
    edits = itertools.count()
    monkeypatch.setattr(offsets, "hash_trial", lambda: {"edited": str(next(edits))})
    sets = OffsetInputs(large=tmp_path, probes={}, held_out_pairs=32)
    shared = {"sets": sets, "hashes": {}, "run": resolved(load(SMALL | PATCHES), RUN)}
    assert training_state(shared, (4, 0)).folder == training_state(shared, (4, 0)).folder


def test_a_further_offset_changes_no_run_of_the_others(folders, monkeypatch):
    stage, calls = script("stages/distance/offsets.py"), []
    monkeypatch.setattr(stage.ResumableTasks, "run", lambda _, tasks: calls.append(tasks) or 1 / 0)
    paths = Namespace(large=folders["large"], first=folders["one"], offsets=None)
    for distances in ([4], [4, 8]):
        points = [{"offset": offset, "run": {"views": f"patches at {offset}"}} for offset in distances]
        with pytest.raises(ZeroDivisionError):
            stage.main({"sets": {"first": "one"}, "held_out_pairs": 8, "points": points, "seeds": [0, 1]}, paths)
    assert calls[0].items() < calls[1].items()


def test_other_images_have_other_hashes(folders):
    sets = OffsetInputs(large=folders["large"], probes={"one": folders["one"]}, held_out_pairs=8)
    before = sets.hashes
    save_images(folders["one"] / "test.safetensors", stripes(30, 99))
    assert before != sets.hashes
    assert before[str(folders["large"])] == sets.hashes[str(folders["large"])]
