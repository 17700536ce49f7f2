"""Restoring the checkout after a killed `dvc exp run`, without loss of the user's changes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from report_root import first_commit

from annulus.errors import InputError
from annulus_lab.pipeline.restore import main, restore

COMMITTED = {
    "params.yaml": "sampler: ring\n",
    "stages/cifar10/params.yaml": "scale: cpu\n",
    "dvc.lock": "schema: '2.0'\n",
    "metrics/main/knn.json": "{}\n",
    "src/annulus/negatives/ranks.py": "rank = 1\n",
    "data/README.md": "here\n",
}


def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Checkout after `kill -9` of a real `dvc exp run -S sampler=uniform`, with an edit of the code and a new file."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@localhost")
    for name, text in COMMITTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    head = first_commit(tmp_path)
    git(tmp_path, "checkout", "-qb", "mine")
    git(tmp_path, "checkout", "-q", "--detach", head)
    for name in ("EXEC_HEAD", "EXEC_BASELINE", "EXEC_MERGE"):
        git(tmp_path, "update-ref", f"refs/exps/exec/{name}", head)
    for name in ("params.yaml", "stages/cifar10/params.yaml", "dvc.lock", "src/annulus/negatives/ranks.py"):
        (tmp_path / name).write_text("changed\n")
    git(tmp_path, "add", "params.yaml", "dvc.lock")
    (tmp_path / "metrics/main/knn.json").unlink()
    (tmp_path / "src/annulus/new.py").write_text("new\n")
    return tmp_path


def test_what_a_run_writes_is_as_committed_and_what_it_does_not_write_stays(root):
    report = "\n".join(restore(root))
    own = {name: (root / name).read_text() for name in COMMITTED}
    assert own == COMMITTED | {"src/annulus/negatives/ranks.py": "changed\n"}
    assert (root / "src/annulus/new.py").exists()
    assert git(root, "branch", "--show-current") == "mine"
    assert "dvc.lock, metrics/main/knn.json, params.yaml, stages/cifar10/params.yaml" in report
    assert "had detached HEAD\n" in report, "nothing was committed since"
    assert restore(root) == ["parameters, locks and metrics are as committed already"]
    (root / ".dvc/tmp").mkdir(parents=True)
    (root / ".dvc/tmp/repro.dat").touch()
    git(root, "add", "-f", ".dvc/tmp/repro.dat")
    assert restore(root)[0] == ".dvc/tmp/repro.dat, DVC's note of the killed run, is out of git's index"
    assert ".dvc" not in git(root, "status", "--short")
    (root / ".dvc/tmp/repro.dat").touch()
    git(root, "add", "-f", ".dvc/tmp/repro.dat")
    (root / ".dvc/tmp/repro.dat").unlink()
    assert "is out of git's index" in restore(root)[0]
    git(root, "stash", "pop")
    assert (root / "params.yaml").read_text() == "changed\n"
    assert not (root / "metrics/main/knn.json").exists()


@pytest.mark.parametrize(("name", "text"), [("params.yaml", "sampler: cave\n"), ("metrics/main/knn.json", "[]\n")])
def test_a_change_of_as_many_letters_in_the_same_second_is_seen(name, text, root):
    """DVC checks files out and changes them within the second in git's index, so `git status` misses the changes."""
    git(root, "reset", "-q", "--hard")
    git(root, "config", "core.trustctime", "false")  # the test cannot set a file's ctime
    os.utime(root / name, (0, 1e9))
    git(root, "update-index", "--refresh")
    (root / name).write_text(text)
    os.utime(root / name, (0, 1e9 + 0.5))
    assert name not in git(root, "status", "--short")
    assert f"as committed again: {name}" in restore(root)[0]
    assert (root / name).read_text() == COMMITTED[name]


def test_documents_and_records_beside_the_metrics_stay_and_those_of_a_study_go_back(root):
    """The repository has these files in git."""
    texts = (
        "README.md",
        "RESULTS.md",
        "MAIN.md",
        "searches/a.csv",
        "comparisons/a.csv",
        "benchmarks/a.json",
        "figures/a.svg",
    )
    kept = [root / "metrics" / name for name in texts] + [root / "stages/cifar10/README.md"]
    made = [root / name for name in ("metrics/summary.csv", "metrics/summary.json", "stages/cifar10/metrics/table.csv")]
    for path in (*kept, *made):
        path.parent.mkdir(exist_ok=True)
        path.write_text("committed\n")
    git(root, "add", "metrics", "stages/cifar10/README.md", "stages/cifar10/metrics")
    git(root, "commit", "-qm", "numbers")
    for path in (*kept, *made):
        path.write_text("changed\n")
    restore(root)
    assert {path.read_text() for path in kept} == {"changed\n"}
    assert {path.read_text() for path in made} == {"committed\n"}


def test_commits_since_the_kill_are_the_branch_s(root):
    """`make repro` and README's `git commit` after a killed run make such commits."""
    git(root, "commit", "-qam", "my numbers")
    head = git(root, "rev-parse", "HEAD")
    steps = restore(root)
    assert "on branch mine again, from which a killed `dvc exp run` had detached HEAD, with the 1 that you" in steps[0]
    assert (git(root, "branch", "--show-current"), git(root, "rev-parse", "mine")) == ("mine", head)
    assert (root / "src/annulus/negatives/ranks.py").read_text() == "changed\n"


def test_a_commit_of_dvc_s_experiment_is_none_of_the_branch_s(root):
    before = git(root, "rev-parse", "mine")
    git(root, "commit", "-qam", "dvc: commit experiment 1234")
    restore(root)
    assert (git(root, "branch", "--show-current"), git(root, "rev-parse", "HEAD")) == ("mine", before)


def test_a_branch_that_has_moved_on_is_left_alone(root):
    git(root, "stash", "-q")
    git(root, "switch", "-q", "mine")
    git(root, "commit", "-q", "--allow-empty", "-m", "elsewhere")
    git(root, "checkout", "-q", "--detach", "HEAD~")
    git(root, "commit", "-q", "--allow-empty", "-m", "here")
    assert "HEAD is on no branch, and its branch has moved on: `git switch BRANCH`" in restore(root)
    assert git(root, "branch", "--show-current") == ""


def test_a_head_that_is_older_than_the_experiment_s_start_is_left_alone(root):
    git(root, "stash", "-q")
    git(root, "switch", "-q", "mine")
    git(root, "commit", "-q", "--allow-empty", "-m", "later")
    git(root, "update-ref", "refs/exps/exec/EXEC_HEAD", "mine")
    git(root, "checkout", "-q", "--detach", "HEAD~")
    restore(root)
    assert git(root, "branch", "--show-current") == ""


def test_a_head_that_the_user_may_have_detached_after_a_run_that_finished_stays_with_a_word(root):
    """A finished run leaves EXEC_HEAD. So does a run that finished after a killed one had detached HEAD."""
    for name in ("EXEC_BASELINE", "EXEC_MERGE"):
        git(root, "update-ref", "-d", f"refs/exps/exec/{name}")
    steps = restore(root)
    assert steps[1].startswith("HEAD is on no branch; if a killed `dvc exp run` left it so: git switch mine, then `git")
    assert git(root, "branch", "--show-current") == ""


def test_a_run_that_was_killed_before_its_marks_is_named(root):
    """DVC detaches HEAD for half a second while it writes the parameters into its own stash."""
    for name in ("EXEC_BASELINE", "EXEC_MERGE", "EXEC_HEAD"):
        git(root, "update-ref", "-d", f"refs/exps/exec/{name}")
    git(root, "stash", "-q")
    assert git(root, "stash", "list").startswith("stash@{0}: WIP on (no branch)")
    assert "left it so: git switch mine, then `git stash pop`" in restore(root)[0]


def test_locks_of_a_killed_dvc_are_removed_and_none_while_another_worktree_runs_one(root, tmp_path_factory):
    """A SIGKILL while dulwich writes leaves locks: each later `dvc exp run` ended with FileLocked."""
    locks = [root / ".git/objects/c1/782202.lock", root / ".git/refs/exps/exec/EXEC_MERGE.lock"]
    for lock in locks:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    other = tmp_path_factory.mktemp("worktree") / "other"
    git(root, "worktree", "add", "-q", str(other))
    (other / "dvc").write_text("input()")
    with subprocess.Popen([sys.executable, "dvc", "exp", "run"], cwd=other, stdin=subprocess.PIPE) as run:
        restore(root)
        assert all(lock.exists() for lock in locks)
        run.kill()
    step = restore(other)[0]
    assert step == "removed: 782202.lock, EXEC_MERGE.lock, left in git's folder by the killed run"
    assert not any(lock.exists() for lock in locks)


def test_a_list_of_locks_that_dvc_left_half_written_is_removed_and_a_whole_one_stays(root):
    places = [".dvc/tmp/rwlock", "stages/cifar10/.dvc/tmp/exps/rwlock", "stages/cifar10/.dvc/tmp/rwlock"]
    for place, text in zip(places, ["", '{"read": {', '{"read": {}, "write": {}}'], strict=True):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    report = "\n".join(restore(root))
    assert [place for place in places if (root / place).exists()] == places[2:]
    assert all(f"removed: {place}, DVC's list of locks" in report for place in places[:2])


def test_dvc_takes_head_for_head_again(root):
    """DVC reads EXEC_BASELINE as HEAD while it exists: `dvc params diff` compared with the killed run's start."""
    assert "DVC's HEAD is that of git again" in "\n".join(restore(root))
    assert git(root, "for-each-ref", "--format=%(refname)", "refs/exps") == "refs/exps/exec/EXEC_HEAD"


def test_a_merge_that_is_not_settled_is_named_with_the_ways_out_and_stays(root):
    git(root, "reset", "-q", "--hard")
    git(root, "switch", "-q", "mine")
    for branch, sampler in (("theirs", "ball"), ("ours", "cave")):
        git(root, "checkout", "-qb", branch, "mine")
        (root / "params.yaml").write_text(f"sampler: {sampler}\n")
        git(root, "commit", "-qam", sampler)
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "theirs")
    with pytest.raises(
        InputError, match=r"middle of a merge or rebase \(params.yaml\); settle it as Comparing.*--abort"
    ):
        restore(root)
    git(root, "checkout", "--theirs", "params.yaml")
    git(root, "add", "params.yaml")
    with pytest.raises(InputError, match="all settled, but not committed"):
        restore(root)
    assert (root / "params.yaml").read_text() == "sampler: ball\n"


def test_a_stage_that_runs_still_is_named_and_nothing_is_put_back(root, capsys):
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], cwd=root, env=os.environ | {"DVC_STAGE": "pretrain"}, stdin=subprocess.PIPE
    ) as left:
        with pytest.raises(InputError, match=rf"still running here: pretrain \(process {left.pid}\).*kill {left.pid}"):
            restore(root)
        assert (root / "params.yaml").read_text() == "changed\n"
        left.kill()
    main(["--root", str(root)])
    assert "on branch mine again" in capsys.readouterr().out


def test_a_stage_elsewhere_and_another_process_here_are_none_that_runs_still(root, tmp_path_factory):
    elsewhere, stage = tmp_path_factory.mktemp("elsewhere"), {"DVC_STAGE": "pretrain"}
    others = [(elsewhere, os.environ | stage), (root, {k: v for k, v in os.environ.items() if k != "DVC_STAGE"})]
    started = [subprocess.Popen(["cat"], cwd=cwd, env=env, stdin=subprocess.PIPE) for cwd, env in others]
    try:
        assert "on branch mine again" in "\n".join(restore(root))
    finally:
        for process in started:
            process.communicate()


def test_a_stage_with_a_variable_that_is_no_text_is_found_from_its_folder(root, monkeypatch):
    monkeypatch.chdir(root)
    environment = {name.encode(): value.encode() for name, value in os.environ.items()}
    environment |= {b"OTHER": b"\xff", b"DVC_STAGE": b"pretrain"}
    with subprocess.Popen(["cat"], cwd=root, env=environment, stdin=subprocess.PIPE) as left:
        with pytest.raises(InputError, match="still running here: pretrain"):
            main([])
        left.communicate()


def test_a_dvc_that_runs_between_two_stages_is_named_and_keeps_its_parameters(root):
    """Otherwise its run would continue with the committed parameters under the name of the changed ones."""
    script = root / "dvc"
    script.write_text("input()")
    for words, is_work in (
        (["exp", "run", "-S", "a=b"], True),
        (["repro"], True),
        (["exp", "run", "--run-all"], False),
    ):
        with subprocess.Popen([sys.executable, str(script), *words], cwd=root, stdin=subprocess.PIPE) as left:
            if is_work:
                with pytest.raises(InputError, match=rf"dvc {' '.join(words)} \(process {left.pid}\)"):
                    restore(root)
                assert (root / "params.yaml").read_text() == "changed\n"
            else:
                restore(root)
            left.kill()


def test_a_run_in_another_worktree_keeps_its_marks(root, tmp_path_factory):
    """All worktrees share DVC's refs in git, and DVC records an experiment under them."""
    other = tmp_path_factory.mktemp("worktree") / "other"
    git(root, "worktree", "add", "-q", str(other))
    (root / "dvc").write_text("input()")
    with subprocess.Popen([sys.executable, "dvc", "exp", "run"], cwd=root, stdin=subprocess.PIPE) as run:
        restore(other)
        assert "EXEC_BASELINE" in git(root, "for-each-ref", "refs/exps")
        run.kill()
    restore(other)
    assert "EXEC_BASELINE" not in git(root, "for-each-ref", "refs/exps")


def test_git_that_refuses_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"^cannot ask git in .*: it is not a git repository"):
        main(["--root", str(tmp_path)])
