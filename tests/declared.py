"""The rooms of the library that a stage script reaches by its imports, for comparing with what dvc.yaml declares.

A room is a folder of src/annulus, or a module beside the folders. What can change no number is no dependency: what
params.yaml may hold (its values are `params:`), what stands around a stage, errors, extras.py, waits.py, which copies
and refuses numbers, and files with a docstring only. A `settings` stage writes what config/ makes of the parameters,
and depends on config/.
"""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = "src/annulus/"
INTERFACE, CONFIG = f"{LIBRARY}__init__.py", f"{LIBRARY}config/"
ENTERS_NO_NUMBER = (INTERFACE, *(f"{LIBRARY}{name}" for name in ("errors.py", "extras.py", "pipeline/", "waits.py")))


def imported_files(script: Path) -> set[str]:
    """Every file of this repository that a script imports, directly or through another one, itself included.

    Importing a module runs its packages' __init__.py too, so they count. What config/ imports checks values only, and
    is not followed; nor is the public interface, which imports nothing until it is asked.
    """
    seen: set[Path] = set()
    waiting = [script.resolve()]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        if not _relative(file).startswith((INTERFACE, CONFIG)):
            waiting += _imported_by(file)
    return {_relative(file) for file in seen}


@functools.cache
def _imported_by(file: Path) -> list[Path]:
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write absolute imports"
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [path for name in found for path in _files_of(name)]


def rooms(script: Path) -> set[str]:
    """The rooms that a script reaches and that can change its numbers."""
    files = {file for file in imported_files(script) if file.startswith(LIBRARY)}
    apart = ENTERS_NO_NUMBER if script.stem == "settings" else (*ENTERS_NO_NUMBER, CONFIG)
    counting = {file for file in files if not file.startswith(apart) and not _is_docstring(ROOT / file)}
    return {"/".join(file.split("/")[:3]) for file in counting}


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


def _relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


def _is_docstring(file: Path) -> bool:
    body = ast.parse(file.read_text()).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def _files_of(module: str) -> list[Path]:
    """The files of the library that importing a module runs; none for a module from elsewhere."""
    parts = module.split(".")
    found = []
    for length in range(1, len(parts) + 1):
        path = (ROOT / "src").joinpath(*parts[:length])
        found += [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    return found
