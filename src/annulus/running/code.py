"""Finds the source files that a computation depends on; all processes of a computation find the same."""

import functools
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from annulus.errors import InputError
from annulus.running.checkout import main_checkout
from annulus.running.sources import ParsedFile, Sources, sources_of

LIBRARY = Path(__file__).resolve().parents[1]
LABORATORY = LIBRARY.with_name("annulus_lab")  # beside it in a checkout; the library alone has none
OURS = (LIBRARY, LABORATORY)
INTERFACE, CONFIG = LIBRARY / "__init__.py", LABORATORY / "config"

# Files that change no number: the interface, errors, threads, copies to a GPU, the checks of params.yaml (its values
# are in the key), and the surroundings of a stage or a run.
NAMES = ("errors", "late", "settings", "device/threads", "device/copies")
BESIDE = [LIBRARY / f"{name}.py" for name in NAMES]
COMPILED = (".c", ".cpp", ".cu", ".h")
ENTERS_NO_NUMBER = (INTERFACE, *BESIDE, LIBRARY / "running", CONFIG, LABORATORY / "pipeline")


def imported_files(*modules: Path, chosen: bool = False) -> set[Path]:
    """The Python files themselves and every file of ours that they import, directly or indirectly.

    Our own code imports a name from the file that defines it. If a file imports a package of ours, as `import annulus`
    or `from annulus.negatives import Ring`, all public names of the package count, with their files. The __init__.py of
    the packages of an imported file run too, so they count. With `chosen` they do not, since they only list the
    choices. Imports of config/, which only checks values, and imports for type checkers, which never run, are not
    followed.

    Raises:
        InputError: if a file cannot be read, or has an import relative to its folder.
    """
    seen: set[Path] = set()
    waiting = [module.resolve() for module in modules]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += [] if file.is_relative_to(CONFIG) else _imported_by(file, chosen)
    return seen


def hash_code(module: Path, chosen: Iterable[type] | None = None) -> dict[str, str]:
    """SHA-256 of the source code of a computation: a Python file, and the files of ours that it imports.

    `chosen`: the classes that its settings choose. Then an edit of another bound, method or sampler, in its own file,
    does not change the result.

    Comments, docstrings and blank lines do not count. A file in C, C++ or CUDA of the same name counts as a part of the
    Python file beside it. Keys are paths within src/, since checkouts have different paths. Files that only read, write
    and report are left out: an edit there must not cost hours of training.

    Raises:
        InputError: if a file cannot be read.
    """
    return {
        _key(file): hashlib.sha256(
            b"".join([_source(file).statements.encode(), *map(_read, _compiled(file))])
        ).hexdigest()
        for file in sorted(_files(module, chosen))
        if computes(file)
    }


def digest(module: Path, chosen: Iterable[type] | None = None) -> str:
    """One digest of the result of `hash_code`. The parsed sources are kept for the next process."""
    value = hashlib.md5(json.dumps(hash_code(module, chosen), sort_keys=True).encode()).hexdigest()
    _known().keep()
    return value


def _key(file: Path) -> str:
    return file.relative_to(LIBRARY.parent).as_posix() if any(map(file.is_relative_to, OURS)) else "script"


def _files(module: Path, chosen: Iterable[type] | None) -> set[Path]:
    if chosen is None:
        return imported_files(module)
    return imported_files(module, *(Path(sys.modules[one.__module__].__file__) for one in chosen), chosen=True)


def _compiled(file: Path) -> list[Path]:
    return [part for part in map(file.with_suffix, COMPILED) if part.is_file()]


def computes(file: Path) -> bool:
    """Returns True if a file of ours can change a number."""
    return not (any(file.is_relative_to(apart) for apart in ENTERS_NO_NUMBER) or is_docstring(file))


def is_docstring(file: Path) -> bool:
    """Returns True if a Python file holds only a docstring."""
    return not _source(file).statements


def _imported_by(file: Path, chosen: bool = False) -> list[Path]:
    source = _source(file)
    if source.relative:
        raise InputError(
            f"{file}, {source.relative} is relative to its folder; write the whole name, "
            "such as from annulus.negatives.samplers import Sampler"
        )
    files = [_files_of(name) for name in source.imports]
    return [path for paths in files for path in (paths[-1:] if chosen else paths)] + [
        public for paths in files for last in paths[-1:] if (public := last.with_suffix(".pyi")).is_file()
    ]


@functools.cache
def _files_of(name: str) -> list[Path]:
    """Our files that run on the import of a module, or of a name in it; the module's own file is last."""
    parts = name.split(".")
    if parts[0] not in (LIBRARY.name, LABORATORY.name):
        return []
    paths = [LIBRARY.parent.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
    return [file for path in paths for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]


def _source(file: Path) -> ParsedFile:
    return _known().read(_read(file))


def _known() -> Sources:
    return sources_of(main_checkout() / ".annulus" / "sources.json")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; get the repository's own version again") from error
