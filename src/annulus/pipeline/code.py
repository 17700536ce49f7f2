"""Which code a computation depends on, found in the source: every process that computes the same finds the same."""

import functools
import hashlib
import re
from pathlib import Path

import annulus
from annulus.errors import InputError

LIBRARY = Path(annulus.__file__).resolve().parent
INTERFACE, CONFIG = LIBRARY / "__init__.py", LIBRARY / "config"

# What can change no number: the interface, errors, threads, copies to a GPU and what refuses numbers, what params.yaml
# may hold (its values are in the key), what stands around a stage.
BESIDE = [LIBRARY / f"{name}.py" for name in ("errors", "extras", "pool", "waits")]
ENTERS_NO_NUMBER = (INTERFACE, *BESIDE, CONFIG, LIBRARY / "pipeline")

# Statements as ruff leaves them, a line each or in parentheses: a syntax tree of each file takes ten times as
# long, in every stage.
IMPORT = re.compile(
    rb"^[ \t]*(?:from[ ]+(annulus[\w.]*)[ ]+import[ ]+(\((?:[^)#]|#.*)*\)|.*)|import[ ]+(.*\bannulus\b.*))",
    re.MULTILINE,
)
RELATIVE = re.compile(rb"^[ \t]*from[ ]+\.", re.MULTILINE)
DOCSTRING = re.compile(rb'\s*(?:"""(?:[^"\\]|\\.|"(?!""))*"""\s*)?', re.DOTALL)


def imported_files(module: Path) -> set[Path]:
    """Every file of annulus that a Python file imports, directly or through another one, itself included.

    Importing a module runs its packages' __init__.py too, so they count. What config/ imports checks values only, and
    is not followed; nor is the public interface, which imports nothing until it is asked.

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
        if file != INTERFACE and not file.is_relative_to(CONFIG):
            waiting += _imported_by(file)
    return seen


def hash_code(module: Path) -> dict[str, str]:
    """SHA-256 of the source of what computes: a Python file, and the files of annulus that it imports.

    By place in annulus, since checkouts differ in theirs. Files that only read, write and report are left out, and so
    are those with a docstring only: an edit there must not cost hours of training.

    Raises:
        InputError: when a file cannot be read.
    """
    return {
        file.relative_to(LIBRARY).as_posix() if file.is_relative_to(LIBRARY) else "script": hashlib.sha256(
            _read(file)
        ).hexdigest()
        for file in sorted(imported_files(module))
        if computes(file)
    }


def computes(file: Path) -> bool:
    """Whether a file of annulus can change a number."""
    return not (any(file.is_relative_to(apart) for apart in ENTERS_NO_NUMBER) or is_docstring(file))


def is_docstring(file: Path) -> bool:
    """Whether a Python file has a docstring only."""
    return DOCSTRING.fullmatch(_read(file)) is not None


def _imported_by(file: Path) -> list[Path]:
    source = _read(file)
    assert RELATIVE.search(source) is None, f"{file}: write absolute imports"
    found = []
    for module, names, plain in IMPORT.findall(source):
        # Without comments and parentheses; `name as other` is name.
        listed = re.sub(rb"#.*|[()]", b"", names or plain).decode().split(",")
        each = [name.split()[0] for name in listed if name.strip()]
        found += [module.decode(), *(f"{module.decode()}.{name}" for name in each)] if module else each
    return [path for name in found for path in _files_of(name)]


@functools.cache
def _files_of(module: str) -> list[Path]:
    """The files of the library that importing a module runs; none for a module from elsewhere."""
    parts = module.split(".")
    found = []
    for length in range(1, len(parts) + 1):
        path = LIBRARY.parent.joinpath(*parts[:length])
        found += [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; get the repository's own version again") from error
