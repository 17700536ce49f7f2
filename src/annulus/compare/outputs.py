"""Folders that stages wrote, of any revision: the workspace's own, or DVC's cache of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from annulus.compare.sides import files_of
from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus.pipeline.revision import WORKSPACE, Files
from annulus.pipeline.stale import is_locked
from annulus.pipeline.variants import WRONG, stages_of


@contextmanager
def outputs(root: Path, name: str) -> Iterator[Path]:
    """A folder with `images` and `features` of the main line, as a side of a comparison has them.

    Of the workspace it is data/main, else links into DVC's cache.

    Raises:
        InputError: when there is no such side, the cache lacks its files, or the workspace has other features than its
            dvc.lock names.
    """
    if name == WORKSPACE:
        if not is_locked(root, "embed", "data/main/features"):
            raise InputError("data/main/features is not what dvc.lock names; `dvc repro` brings or makes it")
        yield root / "data/main"
        return
    files = files_of(root, name)
    cache = _cache(root)
    with TemporaryDirectory(prefix="annulus-") as folder:
        for stage, output in (("prepare", "images"), ("embed", "features")):
            for path, stored in _listed(cache, files, stage, f"data/main/{output}"):
                link = Path(folder, output, path)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(stored)
        yield Path(folder)


def _listed(cache: Path, files: Files, stage: str, output: str) -> list[tuple[str, Path]]:
    """The files of a folder that a stage wrote: their paths in it, and where the cache has their content."""
    try:
        outs = stages_of(files.content("dvc.lock"))[stage]["outs"]
        digest = next(out["md5"] for out in outs if out["path"] == output)
        entries = [(entry["relpath"], _at(cache, entry["md5"])) for entry in json.loads(read_text(_at(cache, digest)))]
        if any(Path(path).is_absolute() or ".." in Path(path).parts for path, _ in entries):
            raise ValueError("a path leads out of the folder")
    except FileNotFoundError:
        entries = []
    except (*WRONG, StopIteration, OSError) as error:
        raise InputError(f"{files.name}: dvc.lock or DVC's cache says nothing of {output} ({error})") from error
    if not entries or not all(stored.is_file() for _, stored in entries):
        raise InputError(
            f"{files.name}: {output} is not in DVC's cache ({cache}); `dvc fetch` brings it where a remote has it, "
            "else run that variant again"
        )
    return entries


def _at(cache: Path, digest: str) -> Path:
    return cache / "files" / "md5" / digest[:2] / digest[2:]


def _cache(root: Path) -> Path:
    """DVC's cache, as it says itself: a setting may have moved it."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dvc", "cache", "dir"], cwd=root, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"cannot ask DVC for its cache in {root}: {error}") from error
    if done.returncode:
        raise InputError(f"cannot ask DVC for its cache in {root}: {' '.join(done.stderr.split())[:300]}")
    return Path(root, done.stdout.strip())
