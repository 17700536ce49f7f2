"""What a stage script reaches by its imports, for comparing with what dvc.yaml declares."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def imported_files(script: Path) -> set[str]:
    """Every file of this repository that a script imports, directly or through another one, itself included.

    Importing a module runs its packages' __init__.py too, so they count.
    """
    seen: set[Path] = set()
    waiting = [script.resolve()]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: write absolute imports"
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            waiting += [found for name in names for found in _files_of(name, file.parent)]
    return {str(file.relative_to(ROOT)) for file in seen}


def _files_of(module: str, folder: Path) -> list[Path]:
    """The files that importing a module from a script in this folder runs; none for a module from elsewhere."""
    parts = module.split(".")
    found = []
    for length in range(1, len(parts) + 1):
        path = (ROOT / "src").joinpath(*parts[:length])
        beside = folder / f"{parts[0]}.py" if "stages" in folder.parts else path
        found += [file for file in (path / "__init__.py", path.with_suffix(".py"), beside) if file.is_file()]
    return found


def missing_and_spare(stage: dict) -> tuple[list[str], list[str]]:
    """Code that a stage reaches but does not declare, and declares but does not reach."""
    script = stage["cmd"].split()[1]
    reached = imported_files(ROOT / script)
    declared = {dep for dep in stage["deps"] if dep.endswith(".py")}
    return sorted(reached - declared), sorted(declared - reached)
