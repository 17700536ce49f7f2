"""Variants in a checkout: each that agrees with dvc.lock, once."""

import os
import subprocess

import pytest
from measured import measure
from report_root import first_commit

from annulus_lab.pipeline.variants import variants

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]


def git(root, *words):
    return subprocess.run([*GIT, *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path):
    measure(tmp_path)
    first_commit(tmp_path)
    git(tmp_path, "branch", "-M", "main")
    return tmp_path


def names(root):
    entries, faults = variants(root)
    assert not faults
    return [one.name for one in entries]


def test_a_variant_holds_what_the_lock_says_and_what_the_metrics_hold(root):
    ((one,), faults), commit = variants(root), git(root, "rev-parse", "HEAD")
    assert not faults
    assert list(one.params.items()) == [
        *(("dataset", "shapes"), ("sampler", "ring"), ("knn.k", "20"), ("optimizer.momentum", "0.9")),
        *(("samplers.inner", "0.01"), ("samplers.outer", "0.1"), ("seeds", "[0, 1]")),
    ]
    headline = {"knn_top1_percent": 40.0, "knn_top1_interval_percent": 0.5}
    assert one.numbers == headline | {"prepare/classes": 3, "prepare/test_digest": "abc", "pretrain/processor": "a CPU"}
    assert one.seeds["1"] == {"pretrain/loss_nats": 12.0, "pretrain/processor": "a CPU", "knn/top1_percent": 41.0}
    assert one.seed_curves["1"] == {"pretrain/loss_nats": [(1, 11.0), (2, 12.0)]}
    assert one.curves == {"pretrain/loss_nats": [(1, 6.0), (2, 7.0)]}, "the mean over seeds"
    assert (one.name, one.commit, one.experiment) == (f"main {commit[:7]}", commit, None)
    assert one.modified == int(git(root, "show", "-s", "--format=%ct"))


def test_experiments_branches_and_the_workspace_are_each_told_once(root):
    first = git(root, "rev-parse", "HEAD")
    measure(root, "uniform", knn=38.0)
    assert names(root) == [f"main {first[:7]}", "workspace sampler=uniform"]
    git(root, "commit", "-qam", "an experiment")
    commit = git(root, "rev-parse", "HEAD")
    git(root, "update-ref", f"refs/exps/{first[:2]}/{first[2:]}/noisy-coho", commit)
    git(root, "update-ref", "refs/exps/exec/EXEC_HEAD", commit)  # DVC's own
    git(root, "reset", "-q", "--hard", first)
    measure(root, "uniform", knn=38.0)  # as `dvc exp run` leaves it
    entries, _ = variants(root)
    expected = [("noisy-coho sampler=uniform", "noisy-coho", commit), (f"main {first[:7]}", None, first)]
    assert [(one.name, one.experiment, one.commit) for one in entries] == expected
    git(root, "checkout", "-qf", "--detach")
    git(root, "branch", "-q", "-D", "main")
    measure(root, inner=0.02)
    assert names(root)[1:] == [first[:7], "workspace samplers.inner=0.02"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("metrics/main/knn.json", "{}", "metrics/main/knn.json differs from dvc.lock, as after a run that"),
        ("metrics/main/knn.json", None, "metrics/main/knn.json is missing, as after a run that did not finish; run"),
        ("metrics/main/knn.json", "a pipe", "metrics/main/knn.json is missing"),
        ("dvc.lock", None, "dvc.lock is missing; run `dvc repro`"),
        ("dvc.lock", "stages: [", "not this version's (ParserError: "),
        ("dvc.lock", "<<<<<<< ours: [", "dvc.lock has git's conflict marks in line 1; settle the merge first"),
        ("dvc.lock", "stages: {knn: {outs: [3]}}", "not this version's (TypeError: "),
        ("metrics/summary.json", "NaN", "not this version's (ValueError: knn_top1_percent is nan"),
    ],
)
def test_numbers_that_the_lock_does_not_vouch_for_are_left_out_and_named(root, name, content, reason):
    if content == "NaN":
        measure(root, knn=float("nan"))
    else:
        (root / name).unlink()
        if content == "a pipe":
            os.mkfifo(root / name)
        elif content is not None:
            (root / name).write_text(content)
    entries, (fault,) = variants(root)
    assert len(entries) == 1, "the commit's"
    assert fault.startswith(f"workspace: {reason}"), fault


def test_a_checkout_that_has_run_nothing_or_has_no_git_holds_none_or_the_workspace(tmp_path):
    assert variants(tmp_path) == ([], [])
    measure(tmp_path)
    assert names(tmp_path) == ["workspace"]
    first_commit(tmp_path)
    git(tmp_path, "rm", "-q", "--cached", "metrics/summary.json")
    git(tmp_path, "commit", "-q", "-m", "none")
    assert names(tmp_path) == ["workspace"], "a branch without numbers is none"


def test_a_folder_in_place_of_a_file_of_a_commit_is_a_missing_file(root):
    (root / "metrics/main/knn.json").unlink()
    (root / "metrics/main/knn.json").mkdir()
    (root / "metrics/main/knn.json/file").touch()
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a folder")
    entries, (commit, workspace) = variants(root)
    assert not entries
    assert commit.startswith("main ")
    assert workspace.startswith("workspace: ")
    assert all("metrics/main/knn.json is missing" in fault for fault in (commit, workspace))
