"""Finds the source files that a computation depends on; all processes of a computation find the same."""

import ast
import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import annulus
from annulus.errors import InputError

LIBRARY = Path(annulus.__file__).resolve().parent
INTERFACE, CONFIG = LIBRARY / "__init__.py", LIBRARY / "config"

# Files that change no number: the interface, errors, threads, copies to a GPU, the checks of params.yaml (its values
# are in the key), and the surroundings of a stage or a run.
NAMES = ("errors", "late", "settings", "device/threads", "device/copies")
BESIDE = [LIBRARY / f"{name}.py" for name in NAMES]
# Packages whose __init__ only names what is chosen from, in params.yaml and by users.
CHOICES = {f"annulus.{room}": LIBRARY / room / "__init__.py" for room in ("bounds", "methods", "negatives")}
COMPILED = (".c", ".cpp", ".cu", ".h")
ENTERS_NO_NUMBER = (INTERFACE, *BESIDE, CONFIG, LIBRARY / "pipeline", LIBRARY / "running")


def imported_files(*modules: Path, chosen: bool = False) -> set[Path]:
    """Every file of annulus that Python files import, directly or through another one, themselves included.

    Importing a module runs its packages' __init__.py too, so they count, but with `chosen` not those of `CHOICES`. A
    name that comes through a package, also one that is imported when asked for or taken by dots (annulus.Selection),
    is that of its own file. Imports of config/ only check values, and are not followed; nor are imports for type
    checkers, which never run.

    Raises:
        InputError: when a file cannot be read, or has an import relative to its folder.
    """
    seen: set[Path] = set()
    waiting = [module.resolve() for module in modules]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        if not file.is_relative_to(CONFIG):
            waiting += _imported_by(file, chosen)
    return seen


def hash_code(module: Path, chosen: Iterable[type] | None = None) -> dict[str, str]:
    """SHA-256 of the source code of a computation: a Python file, and the files of annulus that it imports.

    `chosen`: the classes that it takes of `CHOICES`. Another bound, method or sampler in a file of its own then leaves
    it as it is.

    A file that stands beside another in C, C++ or CUDA, by the same name, counts as a part of it.
    Keys are paths within annulus, since checkouts differ in theirs. Files that only read, write and report are left
    out, and so are those with only a docstring: an edit there must not cost hours of training.

    Raises:
        InputError: when a file cannot be read.
    """
    return {
        file.relative_to(LIBRARY).as_posix() if file.is_relative_to(LIBRARY) else "script": hashlib.sha256(
            b"".join(_read(part) for part in (file, *map(file.with_suffix, COMPILED)) if part == file or part.is_file())
        ).hexdigest()
        for file in sorted(_files(module, chosen))
        if computes(file)
    }


def _files(module: Path, chosen: Iterable[type] | None) -> set[Path]:
    if chosen is None:
        return imported_files(module)
    return imported_files(module, *(Path(sys.modules[one.__module__].__file__) for one in chosen), chosen=True)


def computes(file: Path) -> bool:
    """Returns True if a file of annulus can change a number."""
    return not (any(file.is_relative_to(apart) for apart in ENTERS_NO_NUMBER) or is_docstring(file))


def is_docstring(file: Path) -> bool:
    """Returns True if a Python file holds only a docstring."""
    tree = _parsed(_read(file))
    return len(tree.body) == (ast.get_docstring(tree) is not None)


def _imported_by(file: Path, chosen: bool = False) -> list[Path]:
    names: list[str] = []
    roots: set[str] = set()  # what `import annulus` is called in the file
    tree = _parsed(_read(file))
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
            here = [alias for alias in node.names if alias.name.split(".")[0] == "annulus"]
            roots |= {alias.asname or "annulus" for alias in here if alias.name == "annulus" or not alias.asname}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise InputError(
                    f"{file}, line {node.lineno}: {ast.unparse(node)} is relative to its folder; write the whole name, "
                    "such as from annulus.negatives.samplers import Sampler"
                )
            for alias in node.names:
                names += _named(node.module, alias.name, chosen)
    for parts in _taken(tree, roots):
        names += _attribute(parts, chosen)
    files = [(name, path) for name in names if name.split(".")[0] == "annulus" for path in _files_of(name)]
    return [path for name, path in files if not (chosen and path in CHOICES.values()) or name in CHOICES]


def _named(module: str, name: str, chosen: bool) -> list[str]:
    """The modules behind `from module import name`: a name that a package only passes on has its own module."""
    found = [f"{module}.{name}", *_origins(module, name)]
    passed_on = len(found) > 1 or (LIBRARY.parent / f"{module}.{name}".replace(".", "/")).with_suffix(".py").is_file()
    return found if chosen and module in CHOICES and passed_on else [module, *found]


def _origins(package: str, name: str) -> list[str]:
    """The modules that a package's __init__.py has a name from, at once or when it is asked for (`late`)."""
    file = LIBRARY.parent / package.replace(".", "/") / "__init__.py"
    if package.split(".")[0] != "annulus" or not file.is_file():
        return []
    imports = [node for node in ast.walk(_parsed(_read(file))) if isinstance(node, ast.ImportFrom)]
    return [node.module for node in imports if name in (alias.asname or alias.name for alias in node.names)]


def _taken(tree: ast.Module, roots: set[str]) -> Iterator[list[str]]:
    """The names that a file takes from the package by dots: [negatives, ring] for annulus.negatives.ring."""
    inner: set[ast.AST] = set()
    for node in ast.walk(tree) if roots else ():  # a walk over all expressions, which few files need
        if node in inner:
            continue
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
            inner.add(node)
        if parts and isinstance(node, ast.Name) and node.id in roots:
            yield parts


def _attribute(parts: list[str], chosen: bool) -> list[str]:
    """The modules behind `annulus.negatives.ring`; a package that is taken as a whole counts as a whole."""
    package = LIBRARY
    for part in parts:
        if not (package / part).is_dir():
            return _named(".".join(package.relative_to(LIBRARY.parent).parts), part, chosen)
        package /= part
    return [".".join(package.relative_to(LIBRARY.parent).parts)]


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
