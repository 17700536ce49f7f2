"""Trials against the same runs one by one; pairs of a seed; continuation after a kill."""

import dataclasses
import json
import logging
import os
import re
import shutil
import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import faiss
import pytest
import torch
from settings import CPU, SMALL, Killed, load, stripes
from test_studies_outcomes import outcome

from annulus.errors import InputError
from annulus.evals import linear
from annulus.evals.linear import probe_views
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint
from annulus.training import loop as training_module
from annulus.training.loop import Training
from annulus.training.setup import build_training
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared import runs as module
from annulus_lab.studies.shared.closeness import closeness
from annulus_lab.studies.shared.information import held_out
from annulus_lab.studies.shared.measured import CLOSENESS, Outcome
from annulus_lab.studies.shared.outcomes import ACCURACIES
from annulus_lab.studies.shared.runs import Splits, Trial, Trials, build_trial, probe

SHORT = {"scales.tiny.pretrain.epochs": 1}


@pytest.fixture(autouse=True)
def on_a_cpu(empty_checkout, monkeypatch):
    monkeypatch.setattr(module, "pick_device", lambda: CPU)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Splits(stripes(70, 0), stripes(10, 1), stripes(30, 2), {"train": "made by hand"})


@contextmanager
def on_one_thread():
    """Sets one thread for torch and faiss, as each trial has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)


@pytest.fixture
def one_thread():
    with on_one_thread():
        yield


def variant(seed: int, changes: dict | None = None) -> Trial:
    """A run from resolved settings, as in a study's stage."""
    params = load(SMALL | {"knn.k": 5, "sampler": "uniform", "anneal": "none"} | (changes or {}))
    return build_trial(resolved(params, RUN), seed)


def diverging(trial: Trial) -> Trial:
    """The trial at a learning rate of 1e30, which no section accepts."""
    budget = replace(trial.run.budget)
    object.__setattr__(budget, "learning_rate", 1e30)
    return replace(trial, run=replace(trial.run, budget=budget))


def test_more_held_out_pairs_than_test_images_are_refused_before_anything_is_trained(splits, monkeypatch):
    monkeypatch.setattr(Trials, "training", None)
    with pytest.raises(InputError, match="held_out_pairs: 31 is more than the 30 test images; take fewer pairs"):
        Trials(splits).run({0: variant(0), 1: replace(variant(1), held_out_pairs=31)})


def cores(monkeypatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))


def states() -> list[Path]:
    return list(Path(".annulus/checkpoints").glob("*/*/*.pt"))


def forget() -> None:
    shutil.rmtree(".annulus/outcomes")


def trained() -> list[str]:
    """Seeds of the runs that workers began, in order, as `record_starts` writes them."""
    return Path("begun").read_text(encoding="utf-8").split() if Path("begun").exists() else []


def record_starts(monkeypatch) -> None:
    build = Trials.training

    def training(self, trial):
        with Path("begun").open("a", encoding="utf-8") as file:  # workers are other processes
            file.write(f"{trial.run.seed}\n")
        return build(self, trial)

    monkeypatch.setattr(Trials, "training", training)


@pytest.fixture(scope="module")
def alone(splits):
    """Trials of different length, which end in another order than they begin, and the outcome of each."""
    variants = {
        "long": variant(0),
        ("short", 1): variant(1, SHORT),
        ("moco", 0): variant(0, {"method": "moco"} | SHORT),
    }
    outcomes = {}
    with on_one_thread():
        for key, trial in variants.items():
            training = build_training(trial.run, splits.train, splits.validation, CPU)
            history = training.run()
            accuracies, right = probe(training, splits, trial)
            outcomes[key] = Outcome(training.metrics | accuracies, history, right)
    return variants, outcomes


@pytest.mark.parametrize("count", [1, 2])
def test_any_number_of_workers_gives_the_numbers_of_runs_alone(splits, monkeypatch, one_thread, alone, count):
    variants, expected = alone
    cores(monkeypatch, count)
    outcomes = Trials(splits).run(variants)
    assert list(outcomes) == list(variants)
    assert outcomes == expected
    assert [len(outcome.history) for outcome in outcomes.values()] == [3, 1, 1]


def test_the_probes_see_the_test_images_and_learn_from_the_training_images(splits, one_thread, monkeypatch):
    """With swapped test labels each right image is wrong."""
    seeds, fit = [], module.probe_features
    spied = lambda *given, seed, **settings: seeds.append(seed) or fit(*given, seed=seed, **settings)  # noqa: E731
    monkeypatch.setattr(module, "probe_features", spied)
    training = Trials(splits).training(variant(0))
    training.run()
    right, bits = probe(training, splits, variant(3))
    swapped = dataclasses.replace(splits.test, labels=1 - splits.test.labels)
    wrong, swapped_bits = probe(training, dataclasses.replace(splits, test=swapped), variant(3))
    assert seeds == [3, 3]
    assert right.pop("linear_top5_percent") == 100, "of two classes"
    assert right.keys() == bits.keys() == set(ACCURACIES)
    assert right["nn1_top1_percent"] > 60
    for name, value in right.items():
        assert wrong[name] == pytest.approx(100 - value)
        assert swapped_bits[name] == [not one for one in bits[name]]
        assert value == pytest.approx(100 * sum(bits[name]) / len(splits.test))


def test_both_probes_learn_from_the_training_images_and_from_no_validation_images(splits, one_thread):
    training = Trials(splits).training(variant(0))
    training.run()
    learned, validated = (
        dataclasses.replace(images, labels=1 - images.labels) for images in (splits.train, splits.validation)
    )
    accuracies, other, same = (
        probe(training, dataclasses.replace(splits, **changed), variant(0))[0]
        for changed in ({}, {"train": learned}, {"validation": validated})
    )
    assert same == accuracies
    assert {name: other[name] for name in ACCURACIES} == {
        name: pytest.approx(100 - accuracies[name]) for name in ACCURACIES
    }


@pytest.mark.parametrize(
    "changes", [{"knn.layer": "embedding"}, {"linear.layer": "map"}, {"linear.patience": 1, "linear.drops": 1}]
)
def test_every_probe_of_params_yaml_has_the_features_that_it_reads(splits, one_thread, monkeypatch, changes):
    """A plateau is read on the validation images, not on the test images."""
    seen, fit = [], module.probe_features

    def spied(*given, validation, **settings):
        seen.append(validation)
        return fit(*given, validation=validation, **settings)

    monkeypatch.setattr(module, "probe_features", spied)
    trial = variant(0, changes)
    labels = torch.arange(len(splits.validation)) % 2
    training, marked = Trials(splits).training(trial), dataclasses.replace(splits.validation, labels=labels)
    accuracies, _ = probe(training, dataclasses.replace(splits, validation=marked), trial)
    assert accuracies.keys() == {*ACCURACIES, "linear_top5_percent"}
    assert torch.equal(seen[0].labels.cpu(), labels)


def test_a_run_measures_what_its_trial_asks_for(splits, one_thread):
    trial = variant(1, SHORT)
    measuring = replace(trial, held_out_pairs=10, closeness_views=8)
    outcomes = Trials(splits).run({"plain": trial, "measuring": measuring})
    training = Trials(splits).training(trial)
    training.run()
    more = held_out(training, splits.test, 10, 1) | closeness(training, 8, 1)
    assert more.keys() > set(CLOSENESS)
    assert outcomes["measuring"].metrics == outcomes["plain"].metrics | more


def test_a_linear_probe_of_views_is_that_of_the_main_line(splits, one_thread, monkeypatch):
    monkeypatch.setattr(module, "probe_features", None)
    training = Trials(splits).training(variant(0))
    trial = variant(3, {"linear.inputs": "views", "linear.layer": "map"})
    accuracies, right = probe(training, splits, trial)
    settings = trial.linear, trial.linear_budget, trial.run.views, trial.run.seed, CPU
    alone = probe_views(training.method.encoder, splits.train, splits.validation, splits.test, *settings)
    assert accuracies["linear_top1_percent"] == alone.metrics["top1_percent"]
    assert accuracies["linear_top5_percent"] == alone.metrics["top5_percent"]
    assert right["linear_top1_percent"] == alone.right["top1_percent"].tolist()


def test_a_linear_probe_of_views_sees_those_of_pretraining_which_of_a_colour_split_keep_their_colour(
    splits, one_thread, monkeypatch
):
    """arXiv:2005.13149, Appendix C.2: augmentations as in pretraining."""
    seen = []

    def watched(*arguments, views, **settings):
        seen.append(views)
        return probe_views(*arguments, views=views, **settings)

    monkeypatch.setattr(module, "probe_views", watched)
    for split in ("none", "lab"):
        changes = {"split": split, "linear.inputs": "views"}
        probe(Trials(splits).training(variant(0, changes)), splits, variant(0, changes))
    assert [views.grayscale for views in seen] == [0.2, 0.0]


def test_runs_of_one_seed_share_weights_order_and_views(splits, monkeypatch):
    """Runs of two seeds share none of them."""
    seen: dict[object, list] = {}
    draw_views, step = training_module.draw_views, Training.step
    now: list = []

    def watched_views(*arguments):
        views = draw_views(*arguments)
        now.extend(view.clone() for view in views)
        return views

    def watched_step(self, order):
        now.append(order[self.batch].clone())
        step(self, order)

    monkeypatch.setattr(training_module, "draw_views", watched_views)
    monkeypatch.setattr(Training, "step", watched_step)
    variants = {
        "uniform": variant(0),
        "ring": variant(0, {"sampler": "ring"}),
        "cave, neighbours": variant(0, {"sampler": "cave", "neighbours": "k"}),
        "other seed": variant(1),
    }
    losses = {}
    for key, params in variants.items():
        run = Trials(splits).training(params)
        now = [parameter.detach().clone() for parameter in run.method.parameters()]
        losses[key] = run.run()[-1]["loss_nats"]
        seen[key] = now

    def same(key: str, other: str) -> list[bool]:
        return [torch.equal(one, another) for one, another in zip(seen[key], seen[other], strict=True)]

    assert len(seen["uniform"]) > 3 * 4 * 2  # three epochs of four steps, each with its order and a view
    assert all(same("uniform", "ring"))
    assert all(same("uniform", "cave, neighbours"))
    assert losses["uniform"] != losses["ring"] != losses["cave, neighbours"]
    assert not any(same("uniform", "other seed")[-24:])


@pytest.mark.slow
def test_a_killed_stage_goes_on_and_runs_no_finished_trial_again(splits, monkeypatch):
    """The second trial is killed in its second epoch, after the first one's outcome and its own checkpoint."""
    cores(monkeypatch, 1)
    variants = {seed: variant(seed) for seed in (0, 1, 2)}
    whole = Trials(splits).run(variants)
    forget()

    record_starts(monkeypatch)
    monkeypatch.setattr(Checkpoint, "due", True)  # a checkpoint after every step
    step, resumed = Training.step, Path("resumed")

    def killed(self, order):
        if self.settings.seed == 1 and self.epoch == 1 and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if Path("killed").exists() and not resumed.exists():
            resumed.write_text(f"{self.settings.seed} {self.epoch} {self.batch}", encoding="utf-8")
        step(self, order)

    monkeypatch.setattr(Training, "step", killed)
    with pytest.raises(InputError, match="a process that computed was killed"):
        Trials(splits).run(variants)
    assert trained() == ["0", "1"]

    Path("begun").unlink()
    assert Trials(splits).run(variants) == whole
    assert trained() == ["1", "2"]
    assert resumed.read_text(encoding="utf-8") == "1 1 0", "from the last checkpoint, not from the beginning"

    Path("begun").unlink()
    assert Trials(splits).run(variants) == whole
    assert trained() == []


def test_a_run_killed_in_its_probe_of_views_trains_no_more_and_goes_on_with_the_probe(splits, one_thread, monkeypatch):
    trial = variant(0, {"linear.inputs": "views", "scales.tiny.linear.epochs": 4})
    whole = Trials(splits).run({0: trial})
    forget()

    save, views_of, epochs = Checkpoint.save, linear.view_batches, []

    def saving(checkpoint, state):
        save(checkpoint, state)
        if len(state["history"]) == 2 and "probe" in state and "method" not in state:
            raise Killed

    def watched(*arguments):
        batches = views_of(*arguments)
        return lambda epoch: epochs.append(epoch) or batches(epoch)

    monkeypatch.setattr(Checkpoint, "due", property(lambda state: state.state.stem.endswith("-linear")))
    monkeypatch.setattr(Checkpoint, "save", saving)
    monkeypatch.setattr(linear, "view_batches", watched)
    trials = Trials(splits)
    with pytest.raises(Killed):
        trials.train(trial, trials.cached(trial))
    monkeypatch.setattr(Checkpoint, "save", save)
    monkeypatch.setattr(Training, "step", None)
    assert trials.train(trial, trials.cached(trial)) == whole[0]
    assert epochs == [0, 1, 2, 3]
    assert states() == []


def test_a_run_that_another_process_trains_is_waited_for_and_not_trained_again(splits, monkeypatch, caplog):
    record_starts(monkeypatch)
    step, going = Training.step, get_context("fork").Event()

    def slow(self, order):
        Path("training").touch()
        going.wait()
        step(self, order)

    monkeypatch.setattr(Training, "step", slow)
    monkeypatch.setattr(progress, "say", lambda line: (Path("said").write_text(line, encoding="utf-8"), going.set()))
    variants = {0: variant(0, SHORT)}
    first = get_context("fork").Process(target=lambda: Trials(splits).run(variants))
    first.start()
    while not Path("training").exists():
        assert first.is_alive()
        time.sleep(0.01)
    outcomes = Trials(splits).run(variants)
    first.join()
    assert trained() == ["0"]
    assert re.fullmatch(
        r"trials: process \d+ is already computing .* \(this process waits\)", Path("said").read_text(encoding="utf-8")
    )
    assert outcomes == Trials(splits).run(variants)


def test_a_finished_run_is_kept_as_json_and_trains_once_whoever_asks_for_it(splits, monkeypatch, caplog):
    """Equal variants train once. A run with a damaged outcome trains again."""
    record_starts(monkeypatch)
    variants = {"a": variant(0, SHORT), "b": variant(0, SHORT | {"samplers.ring.outer": 0.9})}  # uniform reads no ring
    outcomes = Trials(splits).run(variants)
    assert trained() == ["0"]
    assert outcomes["a"] == outcomes["b"]
    assert states() == []
    (file,) = Path(".annulus/outcomes").iterdir()
    content = json.loads(file.read_text())
    assert content["metrics"] == outcomes["a"].metrics
    assert content["history"] == outcomes["a"].history
    assert content["images"] == 30
    assert file.stat().st_size < 3000
    monkeypatch.setattr(module, "pick_device", lambda: torch.device("meta"))  # a machine with another device
    assert Trials(splits).run(variants) == outcomes
    assert trained() == ["0"]
    monkeypatch.setattr(module, "pick_device", lambda: CPU)
    for damage in ("", "[]", "{}", file.read_text().replace('"images": 30', '"images": 300')):
        file.write_text(damage)
        assert Trials(splits).run({"a": variants["a"]}) == {"a": outcomes["a"]}
        assert "is damaged" in caplog.text
        caplog.clear()
    assert trained() == ["0"] * 5


def test_a_state_serves_the_same_settings_and_images_alone(splits, monkeypatch):
    trained = []

    def made_up(self, trial, cached):
        trained.append(trial)
        cached.write(outcome([True]))
        return outcome([True])

    monkeypatch.setattr(Trials, "train", made_up)
    monkeypatch.setattr(module, "map_processes", lambda compute, trials, **_: map(compute, trials))
    Trials(splits).run({0: variant(0)})
    Trials(splits).run({0: variant(0, {"methods.moco.momentum": 0.5, "samplers.ring.outer": 0.9})})  # it reads neither
    assert len(trained) == 1
    Trials(dataclasses.replace(splits, hashes={"train": "others"})).run({0: variant(0)})
    assert len(trained) == 2
    read = [{"sampler": "ball"}, {"methods.ir.temperature": 0.1}, {"knn.k": 7}, {"scales.tiny.linear.epochs": 3}]
    Trials(splits).run({number: variant(0, changes) for number, changes in enumerate(read)})
    assert len(trained) == 6
    monkeypatch.setattr(module, "hash_code", lambda *_: {"bounds/la.py": "edited"})
    Trials(splits).run({0: variant(0)})
    assert len(trained) == 7


def test_progress_calls_a_run_by_its_number_its_point_and_its_seed(splits, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="annulus")
    run_names = []

    def made_up(compute, items, *, names, device):
        run_names.extend(names)
        return [outcome([True])] * len(items)

    monkeypatch.setattr(module, "map_processes", made_up)
    keys = [3, (("IR", 0.5), 1), (("ball", None), 0)]
    Trials(splits).run({key: variant(seed) for seed, key in enumerate(keys)})
    assert run_names == ["run 1 of 3, seed 3", "run 2 of 3, IR, 0.5, seed 1", "run 3 of 3, ball, seed 0"]
    assert "runs have their outcome" not in caplog.text
    run_names.clear()
    Trials(splits).cached(variant(0)).write(outcome([True]))
    Trials(splits).run({seed: variant(seed) for seed in (0, 1)})
    assert run_names == ["run 1 of 1, seed 1"]
    assert "1 of 2 runs have their outcome in .annulus/outcomes and train no more" in caplog.text


def test_a_mistake_in_a_worker_reaches_the_caller_as_its_sentence(splits, monkeypatch):
    """A diverging run raises its own error, and the other runs' outcomes are kept."""
    cores(monkeypatch, 1)
    variants = {0: variant(0, SHORT), "diverges": diverging(variant(0, SHORT))}
    with pytest.raises(InputError, match=r"lower scales\.SCALE\.pretrain\.learning_rate"):
        Trials(splits).run(variants)
    assert len(list(Path(".annulus/outcomes").iterdir())) == 1
