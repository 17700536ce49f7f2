"""The rooms of the library that a stage script reaches by its imports, for comparing with what dvc.yaml declares.

A room is a folder of src/annulus, or a module beside the folders; of studies/ each study's own folder and each shared
module, so that an edit of one study reruns no other. What can change no number is no dependency
(`annulus.running.code`). A `settings` stage writes what config/ makes of the parameters, and depends on config/.
"""

from functools import cache
from pathlib import Path
from unittest.mock import patch

from by_path import ROOT

from annulus.running import code  # Thirty scripts share one library: each of its files is parsed once.

PARSED = {name: cache(getattr(code, name)) for name in ("_imported_by", "computes", "is_docstring")}
STUDIES = ROOT / "src/annulus/studies"


@cache
def rooms(script: Path) -> set[str]:
    """The rooms that a script reaches and that can change its numbers."""
    with patch.multiple(code, **PARSED):
        files = {file for file in code.imported_files(script) if file.is_relative_to(ROOT / "src/annulus")}
        config = {file for file in files if file.is_relative_to(code.CONFIG) and not code.is_docstring(file)}
        counting = {file for file in files if code.computes(file)}
    counting |= config if script.stem.endswith("settings") else set()
    return {"/".join(file.relative_to(ROOT).parts[: 4 if file.is_relative_to(STUDIES) else 3]) for file in counting}


def script_of(stage: dict) -> str:
    """The script of a stage's command, `python stages NAME ...`."""
    python, folder, name = stage["cmd"].split()[:3]
    assert (python, folder) == ("python", "stages")
    return f"stages/{name}.py"


def missing_and_spare(stage: dict) -> tuple[list[str], list[str]]:
    """Code that a stage reaches but does not declare, and declares but does not reach."""
    script = script_of(stage)
    reached = rooms(ROOT / script) | {script}
    declared = {dep for dep in stage["deps"] if dep.startswith(("src/", "stages/")) and not dep.endswith(".yaml")}
    return sorted(reached - declared), sorted(declared - reached)
