"""Rooms of the library that a pipeline's scripts reach by their imports, to compare with those declared in dvc.yaml.

A room is a folder of src/annulus or src/annulus_lab, or a module beside the folders. In studies/ the rooms are `shared`
and each study's own folder, so that an edit of one study reruns no other. Code that cannot change a number is not a
dependency (`annulus.running.code`). The first stage of a pipeline writes digests of the code and depends on all rooms.
The first stage of a study also writes the parameters as config/ reads them, and depends on config/.
"""

import os
from functools import cache
from pathlib import Path
from unittest.mock import patch

from by_path import ROOT

from annulus.running import code  # Thirty scripts share one library: each of its files is parsed once.

PARSED = {name: cache(getattr(code, name)) for name in ("_imported_by", "computes", "is_docstring")}
STUDIES = ROOT / "src/annulus_lab/studies"


@cache
def rooms(script: Path) -> set[str]:
    """The rooms that a script reaches and that can change its numbers."""
    with patch.multiple(code, **PARSED):
        files = {file for file in code.imported_files(script) if file.is_relative_to(ROOT / "src")}
        config = {file for file in files if file.is_relative_to(code.CONFIG) and not code.is_docstring(file)}
        counting = {file for file in files if code.computes(file)}
    counting |= config if script.stem.endswith("settings") else set()
    return {"/".join(file.relative_to(ROOT).parts[: 4 if file.is_relative_to(STUDIES) else 3]) for file in counting}


def script_of(stage: dict) -> str:
    """The script of a stage's command, `python stages NAME ...` or `python .. NAME ...`."""
    python, folder, name = stage["cmd"].split()[:3]
    assert (python, folder) in (("python", "stages"), ("python", ".."))
    return f"stages/{name}.py"


def missing_and_spare(stages: dict, folder: Path = ROOT) -> tuple[list[str], list[str]]:
    """Code that a pipeline's scripts reach and its first stage does not declare, and the reverse."""
    scripts = {script_of(stage) for stage in stages.values()}
    reached = scripts | {"src/annulus/running/code.py"} | {room for name in scripts for room in rooms(ROOT / name)}
    paths = {dep: os.path.relpath((folder / dep).resolve(), ROOT) for dep in next(iter(stages.values()))["deps"]}
    declared = {path for path in paths.values() if not path.endswith(".yaml")}
    return sorted(reached - declared), sorted(declared - reached)
