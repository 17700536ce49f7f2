"""Checks the dvc.lock files after an edit: `make check-locks`. With KEEP=yes it keeps the numbers of an edit of code.

It runs the first stage of every project, which writes settings and digests of code anew. Then it names the stages that
DVC would run again. It needs no data: a missing file counts as the lock has it. A stage without a lock has not run.
"""

import argparse
import hashlib
import logging
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from dvc.dependency import ParamsDependency
from dvc.repo import Repo
from dvc.stage import Stage
from dvc.utils.serialize import load_yaml, parse_yaml

from annulus_lab.pipeline.projects import study_names
from annulus_lab.pipeline.revision import git
from annulus_lab.pipeline.stale import flat

MOST_NAMED = 4


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a line for each project; exits with status 1 if DVC would run a stage again."""
    parser = argparse.ArgumentParser(prog="python -m annulus_lab.pipeline.locks", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the numbers: the edit was shown to change none")
    keep, again = parser.parse_args(argv).keep, False
    logging.getLogger("dvc").setLevel(logging.WARNING)  # without a line for each stage that is kept
    for folder in [Path(), *(Path("stages", name) for name in study_names(Path()))]:
        first = "settings" if folder.name else "check"
        if keep and (edited := _edited_parameters(folder, first)):
            raise SystemExit(f"ERROR: {', '.join(edited)} was edited too; KEEP=yes is for an edit of code alone")
        if subprocess.run([sys.executable, "-m", "dvc", "repro", "-q", first], cwd=folder).returncode:
            raise SystemExit(f"ERROR: {folder / 'dvc.yaml'}: {first} fails; mend what it says above")
        if not (folder / "dvc.lock").is_file():
            continue
        with chdir(folder), Repo() as repo, repo.lock:
            stages = [stage for name in load_yaml("dvc.lock")["stages"] for stage in repo.stage.collect(name)]
            changed = [stage for stage in stages if stage.changed(allow_missing=True)]
            if keep:
                for stage in changed:
                    _keep(stage)
                for stage in changed:  # all; none if one is refused
                    stage.dump(update_pipeline=False)
        print(f"{folder / 'dvc.lock'}: {len(stages)} stages, {_describe(changed, keep)}", flush=True)
        again = again or bool(changed and not keep)
    if again:
        raise SystemExit(
            "ERROR: `make repro`, for a study `make study STUDY=NAME`, runs them; where an edit of code was shown to "
            "keep every number, `make check-locks KEEP=yes` keeps them"
        )


def _describe(changed: Sequence[Stage], keep: bool) -> str:
    if not changed:
        return "as the code, the parameters and metrics/"
    more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
    names = ", ".join(stage.name for stage in changed[:MOST_NAMED])
    return f"{'kept' if keep else 'would run again'}: {names}{more}"


def _edited_parameters(folder: Path, first: str) -> list[str]:
    """Files params.yaml of a project's first stage whose values differ from the last commit's lock.

    Additional keys do not count as an edit: no run chose the section of a new sampler.
    """
    place = f"{folder.as_posix()}/dvc.lock"
    if not git(Path(), "ls-tree", "HEAD", "--", place):
        return []
    lock = parse_yaml(git(Path(), "show", f"HEAD:{place.removeprefix('./')}").decode(), place)
    digests = {dep["path"]: dep["md5"] for dep in lock["stages"][first]["deps"] if dep["path"].endswith("params.yaml")}
    return [str(folder / path) for path, digest in digests.items() if not _has_committed_values(folder / path, digest)]


def _has_committed_values(path: Path, digest: str) -> bool:
    """Returns True if the file has each value that its committed version with this MD5 had."""
    if hashlib.md5(path.read_bytes()).hexdigest() == digest:
        return True
    place = path.resolve().relative_to(Path.cwd()).as_posix()
    for commit in git(Path(), "log", "--format=%H", "--", place).decode().split():
        content = git(Path(), "show", f"{commit}:{place}")
        if hashlib.md5(content).hexdigest() == digest:
            before, now = (flat(parse_yaml(text.decode(), place)) for text in (content, path.read_bytes()))
            return all(key in now and now[key] == value for key, value in before.items())
    return False


def _keep(stage: Stage) -> None:
    """Writes the present command, code and settings into a stage's lock; its outputs and missing inputs stay."""
    before = {out.def_path: out.hash_info for out in stage.outs}
    edits = [str(dep) for dep in stage.deps if isinstance(dep, ParamsDependency) and dep.status()]
    stage.save(allow_missing=True, run_cache=False)
    edits += [out.def_path for out in stage.outs if out.hash_info != before[out.def_path]]
    if edits:
        raise SystemExit(f"ERROR: {stage.addressing}: {', '.join(edits)} was edited too; KEEP=yes is for code alone")


if __name__ == "__main__":
    main()
