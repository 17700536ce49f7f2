"""Output folders of stages in any revision: the workspace's own, or links into DVC's cache."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus_lab.compare.sides import side_files
from annulus_lab.pipeline.revision import WORKSPACE, RevisionFiles
from annulus_lab.pipeline.stale import is_locked
from annulus_lab.pipeline.variants import WRONG, lock_stages


@contextmanager
def outputs(root: Path, name: str) -> Iterator[Path]:
    """Folder with `images` and `features` of the main line on one side of a comparison.

    The workspace's folder is data/main. Another side's folder holds links into DVC's cache.

    Raises:
        InputError: when the side does not exist, the cache lacks its files, or the workspace's features differ from its
            dvc.lock.
    """
    if name == WORKSPACE:
        if not is_locked(root, "embed", "data/main/features"):
            raise InputError("data/main/features differs from dvc.lock; `dvc repro` brings or makes it")
        yield root / "data/main"
        return
    files = side_files(root, name)
    cache = _cache_folder(root)
    with TemporaryDirectory(prefix="annulus-") as folder:
        for stage, output in (("prepare", "images"), ("embed", "features")):
            for path, stored in _cached_files(cache, files, stage, f"data/main/{output}"):
                link = Path(folder, output, path)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(stored)
        yield Path(folder)


def _cached_files(cache: Path, files: RevisionFiles, stage: str, output: str) -> list[tuple[str, Path]]:
    """Files of a stage's output folder: their paths in it, and the cache's files with their content."""
    try:
        outs = lock_stages(files.content("dvc.lock"))[stage]["outs"]
        digest = next(out["md5"] for out in outs if out["path"] == output)
        entries = [
            (entry["relpath"], _cache_file(cache, entry["md5"]))
            for entry in json.loads(read_text(_cache_file(cache, digest)))
        ]
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


def _cache_file(cache: Path, digest: str) -> Path:
    return cache / "files" / "md5" / digest[:2] / digest[2:]


def _cache_folder(root: Path) -> Path:
    """DVC's cache folder, from `dvc cache dir`, since a setting may have moved it."""
    try:
        process = subprocess.run(
            [sys.executable, "-m", "dvc", "cache", "dir"], cwd=root, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"cannot ask DVC for its cache in {root}: {error}") from error
    if process.returncode:
        raise InputError(f"cannot ask DVC for its cache in {root}: {' '.join(process.stderr.split())[:300]}")
    return Path(root, process.stdout.strip())
