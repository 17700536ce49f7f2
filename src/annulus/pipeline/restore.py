"""Restore the checkout after a `dvc exp run` that was killed: `make restore`.

The run leaves the changed parameters staged, half of the metrics and, after a SIGKILL or SIGTERM, a detached HEAD; the
next `dvc repro` would compute the changed variant over metrics/. Removed changes go into git's stash.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from annulus.errors import InputError
from annulus.pipeline.revision import compared_again, git

# What a run writes in git. Other files are the user's own and stay as they are.
WRITTEN = re.compile(r"(stages/\w+/)?(params\.yaml|dvc\.lock)|metrics/(main/.*|summary\.(json|csv))")
OF_STUDY = re.compile(r"metrics/(\w+)/.*")
DVCS_NOTE = ".dvc/tmp/repro.dat"
RUNS = re.compile(r"\S*dvc( .*)? (repro|exp\w* run)( |$)")
DVCS_COMMIT = "dvc: commit experiment"
# Of refs/exps/exec, while a run lasts; DVC takes the first for HEAD where it is.
OF_A_RUN = ("EXEC_BASELINE", "EXEC_MERGE", "EXEC_BRANCH")
EXPERIMENT_HEAD = "refs/exps/exec/EXEC_HEAD"  # where DVC detached HEAD; it stays


def main(argv: Sequence[str] | None = None) -> None:
    """Restore, and print each step."""
    parser = argparse.ArgumentParser(prog="annulus restore", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    root = parser.parse_args(argv).root
    print("\n".join(restore(root)))


def restore(root: Path) -> list[str]:
    """Give parameters, locks and metrics their committed content, and HEAD its branch; returns the steps as sentences.

    Raises:
        InputError: while a stage or DVC still runs, in the middle of a merge, or when git refuses.
    """
    if running := _stages(root) or _pipelines(root):
        names = " and ".join(f"{stage} (process {process})" for process, stage in running.items())
        raise InputError(
            f"still running here: {names}; end that first: kill {' '.join(map(str, running))}, or wait for it"
        )
    git(root, "rev-parse", "--verify", "HEAD")  # refuses in a sentence where there is no repository
    _refuse_in_a_merge(root)
    done = []
    for path in (root / "params.yaml", *root.glob("stages/*/params.yaml")):
        compared_again(path)
    changed = git(root, "diff", "--relative", "--name-only", "-z", "HEAD").decode().split("\0")[:-1]
    if written := [path for path in changed if _is_written(root, path)]:
        git(root, "stash", "push", "--quiet", "--message", "make restore", "--", *written)
        done.append(f"as committed again: {', '.join(written)} (`git stash pop` brings back what they were)")
    left = _left_marks(root)
    if branch := _left_branch(root):
        own = _own_commits(root)
        words = ["switch", *(["-C"] if own else []), branch]
        if left:
            git(root, *words, "--quiet")
            taken = f", with the {len(own)} that you have committed since" if own else ""
            done.append(f"on branch {branch} again, from which a killed `dvc exp run` had detached HEAD{taken}")
        else:  # a run since then has finished, or the user detached it
            done.append(f"HEAD is on no branch; if a killed `dvc exp run` left it so: git {' '.join(words)}")
    elif left and _detached(root):
        done.append("HEAD is on no branch, and its branch has moved on: `git switch BRANCH`")
    for name in left:
        git(root, "update-ref", "--no-deref", "-d", name)
    if left:
        done.append("DVC's HEAD is that of git again, and not the commit from which the killed `dvc exp run` started")
    if git(root, "ls-files", "--", DVCS_NOTE):  # a killed DVC leaves it in git's index, and warns of it ever after
        git(root, "rm", "--quiet", "--cached", "--", DVCS_NOTE)
        (root / DVCS_NOTE).unlink(missing_ok=True)
        done.append(f"{DVCS_NOTE}, DVC's note of the killed run, is out of git's index")
    if not done:
        return ["parameters, locks and metrics are as committed already"]
    return [*done, "`dvc repro` now takes data/ from DVC's cache; it runs what this checkout has never made"]


def _is_written(root: Path, path: str) -> bool:
    of_study = OF_STUDY.fullmatch(path)
    is_study = of_study is not None and (root / "stages" / of_study[1] / "dvc.yaml").exists()
    return is_study or WRITTEN.fullmatch(path) is not None


def _stages(root: Path) -> dict[int, str]:
    """The stages that DVC has started here and that run still, by process: a killed DVC does not end them."""
    stages = {}
    for number, folder, variables in _processes("environ"):
        own = dict(variable.partition("=")[::2] for variable in variables)
        if "DVC_STAGE" in own and folder == root.resolve():
            stages[number] = own["DVC_STAGE"]
    return stages


def _pipelines(root: Path) -> dict[int, str]:
    """The `dvc repro` and `dvc exp run` that work on this checkout, also between two stages; not those of a queue."""
    pipelines = {}
    for number, folder, words in _processes("cmdline"):
        command = " ".join(words[next((at for at, word in enumerate(words[:3]) if Path(word).name == "dvc"), 3) :])
        if RUNS.match(command) and "--run-all" not in words and folder.is_relative_to(root.resolve()):
            pipelines[number] = command
    return pipelines


def _processes(file: str) -> Iterator[tuple[int, Path, list[str]]]:
    """The number and folder of each process that one may look at, and the words of its `file` in /proc."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / file).read_bytes().decode(errors="replace").split("\0")[:-1]
            yield int(process.name), (process / "cwd").resolve(strict=True), words


def _left_marks(root: Path) -> list[str]:
    """The refs of a run that was killed; none while one runs in another worktree, which has the same refs."""
    listed = git(root, "worktree", "list", "--porcelain").decode().splitlines()
    worktrees = [Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")]
    if any(_pipelines(worktree) for worktree in worktrees):
        return []
    marks = git(root, "for-each-ref", "--format=%(refname)", *(f"refs/exps/exec/{name}" for name in OF_A_RUN))
    return marks.decode().split()


def _refuse_in_a_merge(root: Path) -> None:
    """Raises InputError where git waits for a merge to be settled: its result would go into the stash."""
    unsettled = git(root, "diff", "--relative", "--name-only", "-z", "--diff-filter=U").decode().split("\0")[:-1]
    with suppress(InputError):
        git(root, "rev-parse", "-q", "--verify", "MERGE_HEAD")
        unsettled = unsettled or ["all settled, but not committed"]
    if unsettled:
        raise InputError(
            f"git is in the middle of a merge or rebase ({', '.join(unsettled)}); settle it as Comparing in "
            "stages/README.md says, or go back with `git merge --abort` or `git rebase --abort`"
        )


def _detached(root: Path) -> bool:
    with suppress(InputError):
        git(root, "symbolic-ref", "-q", "HEAD")
        return False
    return True


def _left_branch(root: Path) -> str | None:
    """The branch that DVC left: it is at the commit of an experiment's start still, at which HEAD was detached."""
    if not _detached(root):
        return None
    with suppress(InputError):
        branch = git(root, "rev-parse", "--abbrev-ref", "@{-1}").decode().strip()
        start, end = (git(root, "rev-parse", "--verify", place) for place in (EXPERIMENT_HEAD, f"refs/heads/{branch}"))
        git(root, "merge-base", "--is-ancestor", EXPERIMENT_HEAD, "HEAD")
        return branch if start == end else None
    return None


def _own_commits(root: Path) -> list[str]:
    """The user's commits on the detached HEAD; none where DVC was killed after its own, which stays an experiment's."""
    subjects = git(root, "log", "--format=%s", f"{EXPERIMENT_HEAD}..HEAD").decode().splitlines()
    return [] if any(subject.startswith(DVCS_COMMIT) for subject in subjects) else subjects
