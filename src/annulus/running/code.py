"""Finds the source files that a computation depends on; all processes of a computation find the same."""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import annulus
from annulus.errors import InputError

LIBRARY = Path(annulus.__file__).resolve().parent
INTERFACE, CONFIG = LIBRARY / "__init__.py", LIBRARY / "config"

# Files that change no number: the interface, errors, threads, copies to a GPU, the checks of params.yaml (its values
# are in the key), and the surroundings of a stage or a run.
NAMES = ("errors", "late", "settings", "device/threads", "device/copies")
BESIDE = [LIBRARY / f"{name}.py" for name in NAMES]
ENTERS_NO_NUMBER = (INTERFACE, *BESIDE, CONFIG, LIBRARY / "pipeline", LIBRARY / "running")


def imported_files(module: Path) -> set[Path]:
    """Every file of annulus that a Python file imports, directly or through another one, itself included.

    Importing a module runs its packages' __init__.py too, so they count. Imports of config/ only check values, and
    are not followed; nor are imports for type checkers, which never run: public names are imported when asked for.

    Raises:
        InputError: when a file cannot be read.
    """
    seen: set[Path] = set()
    waiting = [module.resolve()]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        if not file.is_relative_to(CONFIG):
            waiting += _imported_by(file)
    return seen


def hash_code(module: Path) -> dict[str, str]:
    """SHA-256 of the source code of a computation: a Python file, and the files of annulus that it imports.

    A file that stands beside another in C, by the same name, counts as a part of it.
    Keys are paths within annulus, since checkouts differ in theirs. Files that only read, write and report are left
    out, and so are those with only a docstring: an edit there must not cost hours of training.

    Raises:
        InputError: when a file cannot be read.
    """
    return {
        file.relative_to(LIBRARY).as_posix() if file.is_relative_to(LIBRARY) else "script": hashlib.sha256(
            b"".join(_read(part) for part in (file, file.with_suffix(".c")) if part == file or part.is_file())
        ).hexdigest()
        for file in sorted(imported_files(module))
        if computes(file)
    }


def computes(file: Path) -> bool:
    """Returns True if a file of annulus can change a number."""
    return not (any(file.is_relative_to(apart) for apart in ENTERS_NO_NUMBER) or is_docstring(file))


def is_docstring(file: Path) -> bool:
    """Returns True if a Python file holds only a docstring."""
    tree = _parsed(_read(file))
    return len(tree.body) == (ast.get_docstring(tree) is not None)


def _imported_by(file: Path) -> list[Path]:
    names: list[str] = []
    for node in _statements(_parsed(_read(file))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write absolute imports"
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [path for name in names if name.split(".")[0] == "annulus" for path in _files_of(name)]


def _statements(block: ast.AST) -> Iterator[ast.stmt]:
    """Every statement within a block that may run, and no expression: these are most of a tree, and none imports."""
    typing_only = isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
    for name in ("orelse",) if typing_only else ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(block, name, []):
            yield inner
            yield from _statements(inner)


@functools.lru_cache(maxsize=1000)  # by content: an edit between two runs of one process is seen
def _parsed(source: bytes) -> ast.Module:
    return ast.parse(source)


@functools.cache
def _files_of(module: str) -> list[Path]:
    """The files of the library that importing a module runs; none for a module from elsewhere."""
    parts = module.split(".")
    files = []
    for length in range(1, len(parts) + 1):
        path = LIBRARY.parent.joinpath(*parts[:length])
        files += [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    return files


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; get the repository's own version again") from error
