"""Restores the checkout after a `dvc exp run`, also a killed one (DVC's issues 8450 and 9260): `make restore`.

The run leaves the changed parameters staged, half of the metrics and, after a SIGKILL or SIGTERM, a detached HEAD. The
next `dvc repro` would then compute the changed variant over metrics/. Removed changes go into git's stash.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from annulus.errors import InputError
from annulus_lab.pipeline.revision import RUN_OUTPUTS, compared_again, git

DVCS_NOTES = ":(glob)**/.dvc/tmp/repro.dat"
RUNS = re.compile(r"\S*dvc( .*)? (repro|exp\w* run)( |$)")
DVCS_COMMIT = "dvc: commit experiment"
# Refs in refs/exps/exec during a run. If the first one exists, DVC reads it as HEAD.
RUN_REFS = ("EXEC_BASELINE", "EXEC_MERGE", "EXEC_BRANCH")
EXPERIMENT_HEAD = "refs/exps/exec/EXEC_HEAD"  # the commit at which DVC detached HEAD; the ref stays


def main(argv: Sequence[str] | None = None) -> None:
    """Restores the checkout and prints each step."""
    parser = argparse.ArgumentParser(prog="annulus restore", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    root = parser.parse_args(argv).root
    print("\n".join(restore(root)))


def restore(root: Path) -> list[str]:
    """Restores the committed parameters, locks and metrics, and HEAD's branch; returns the steps as sentences.

    Raises:
        InputError: while a stage or DVC still runs, in the middle of a merge, or when git refuses.
    """
    if running := _stages(root) or _pipelines(root):
        names = " and ".join(f"{stage} (process {process})" for process, stage in running.items())
        raise InputError(
            f"still running here: {names}; end that first: kill {' '.join(map(str, running))}, or wait for it"
        )
    git(root, "rev-parse", "--verify", "HEAD")  # raises InputError outside of a repository
    _refuse_in_a_merge(root)
    steps = []
    if locks := _dead_locks(root):
        for lock in locks:
            lock.unlink()
        steps.append(f"removed: {', '.join(lock.name for lock in locks)}, left in git's folder by the killed run")
    for lock in _invalid_lock_lists(root):
        lock.unlink()
        steps.append(f"removed: {lock.relative_to(root)}, DVC's list of locks, which the killed run left half written")
    for path in git(root, "ls-files", "-z").decode().split("\0")[:-1]:
        if RUN_OUTPUTS.fullmatch(path):
            compared_again(root / path)
    changed = git(root, "diff", "--relative", "--name-only", "-z", "HEAD").decode().split("\0")[:-1]
    if outputs := [path for path in changed if RUN_OUTPUTS.fullmatch(path)]:
        git(root, "stash", "push", "--quiet", "--message", "make restore", "--", *outputs)
        steps.append(f"as committed again: {', '.join(outputs)} (`git stash pop` brings their content back)")
    marks = _run_marks(root)
    if branch := _original_branch(root):
        own = _own_commits(root, branch)
        words = ["switch", *(["-C"] if own else []), branch]
        if marks:
            git(root, *words, "--quiet")
            commits_text = f", with the {len(own)} that you have committed since" if own else ""
            steps.append(f"on branch {branch} again, from which a killed `dvc exp run` had detached HEAD{commits_text}")
        else:  # the run was killed before its marks, with uncommitted changes in the stash; or the user detached HEAD
            steps.append(
                f"HEAD is on no branch; if a killed `dvc exp run` left it so: git {' '.join(words)}, then `git stash "
                f"pop` if the first line of `git stash list` is 'WIP on {branch}'"
            )
    elif marks and _detached(root):
        steps.append("HEAD is on no branch, and its branch has moved on: `git switch BRANCH`")
    for name in marks:
        git(root, "update-ref", "--no-deref", "-d", name)
    if marks:
        steps.append("DVC's HEAD is that of git again, and not the commit from which the killed `dvc exp run` started")
    for note in git(root, "ls-files", "--", DVCS_NOTES).decode().split():  # DVC would warn of it in each run
        git(root, "rm", "--quiet", "--cached", "--", note)
        (root / note).unlink(missing_ok=True)
        steps.append(f"{note}, DVC's note of the killed run, is out of git's index")
    if not steps:
        return ["parameters, locks and metrics are as committed already"]
    return [*steps, "`dvc repro` now takes data/ from DVC's cache; it runs what this checkout has never made"]


def _stages(root: Path) -> dict[int, str]:
    """Stages of this checkout that still run, by process; a killed DVC does not end them."""
    stages = {}
    for number, folder, variables in _processes("environ"):
        own = dict(variable.partition("=")[::2] for variable in variables)
        if "DVC_STAGE" in own and folder.is_relative_to(root.resolve()) and ".dvc" not in folder.parts:
            stages[number] = own["DVC_STAGE"]
    return stages


def _pipelines(root: Path) -> dict[int, str]:
    """Processes `dvc repro` and `dvc exp run` of this checkout, also between two stages, except a queue's."""
    pipelines = {}
    for number, folder, words in _processes("cmdline"):
        command = " ".join(words[next((at for at, word in enumerate(words[:3]) if Path(word).name == "dvc"), 3) :])
        if RUNS.match(command) and "--run-all" not in words and folder.is_relative_to(root.resolve()):
            pipelines[number] = command
    return pipelines


def _processes(file: str) -> Iterator[tuple[int, Path, list[str]]]:
    """Number and folder of each readable process, and the words of its `file` in /proc."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / file).read_bytes().decode(errors="replace").split("\0")[:-1]
            yield int(process.name), (process / "cwd").resolve(strict=True), words


def _run_marks(root: Path) -> list[str]:
    """Refs of a killed run; empty while another worktree runs one, since worktrees share the refs."""
    if _runs_elsewhere(root):
        return []
    marks = git(root, "for-each-ref", "--format=%(refname)", *(f"refs/exps/exec/{name}" for name in RUN_REFS))
    return marks.decode().split()


def _runs_elsewhere(root: Path) -> bool:
    """Returns True if DVC runs in a worktree of this repository."""
    lines = git(root, "worktree", "list", "--porcelain").decode().splitlines()
    worktrees = [Path(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")]
    return any(_pipelines(worktree) for worktree in worktrees)


def _refuse_in_a_merge(root: Path) -> None:
    """Raises InputError in the middle of a merge: its result would go into the stash."""
    conflicts = git(root, "diff", "--relative", "--name-only", "-z", "--diff-filter=U").decode().split("\0")[:-1]
    with suppress(InputError):
        git(root, "rev-parse", "-q", "--verify", "MERGE_HEAD")
        conflicts = conflicts or ["all settled, but not committed"]
    if conflicts:
        raise InputError(
            f"git is in the middle of a merge or rebase ({', '.join(conflicts)}); settle it as Comparing in "
            "stages/README.md says, or go back with `git merge --abort` or `git rebase --abort`"
        )


def _detached(root: Path) -> bool:
    with suppress(InputError):
        git(root, "symbolic-ref", "-q", "HEAD")
        return False
    return True


def _original_branch(root: Path) -> str | None:
    """Branch that DVC left, if it is still at the commit at which DVC detached HEAD."""
    if not _detached(root):
        return None
    with suppress(InputError):
        branch = git(root, "rev-parse", "--abbrev-ref", "@{-1}").decode().strip()
        end = git(root, "rev-parse", "--verify", f"refs/heads/{branch}")
        if end == git(root, "rev-parse", "HEAD"):
            return branch
        git(root, "merge-base", "--is-ancestor", EXPERIMENT_HEAD, "HEAD")
        return branch if end == git(root, "rev-parse", "--verify", EXPERIMENT_HEAD) else None
    return None


def _own_commits(root: Path, branch: str) -> list[str]:
    """The user's commits on the detached HEAD; empty if one of them is DVC's commit of an experiment."""
    subjects = git(root, "log", "--format=%s", f"refs/heads/{branch}..HEAD").decode().splitlines()
    return [] if any(subject.startswith(DVCS_COMMIT) for subject in subjects) else subjects


def _dead_locks(root: Path) -> list[Path]:
    """Lock files of a killed DVC in git's folder; with them each later `dvc exp run` ends with FileLocked.

    Git itself locks no object and no ref of an experiment. The list is empty while another worktree runs DVC.
    """
    if _runs_elsewhere(root):
        return []
    folder = root / git(root, "rev-parse", "--git-common-dir").decode().strip()
    return [*folder.glob("objects/??/*.lock"), *folder.glob("refs/exps/**/*.lock")]


def _invalid_lock_lists(root: Path) -> list[Path]:
    """Files rwlock, DVC's lists of locks, without valid JSON. DVC writes them in place, and refuses each run then."""
    invalid = []
    places = [f"{folder}.dvc/tmp/{below}rwlock" for folder in ("", "stages/*/") for below in ("", "exps/")]
    for lock in (path for place in places for path in sorted(root.glob(place))):
        try:
            json.loads(lock.read_bytes())
        except ValueError:
            invalid.append(lock)
    return invalid
