"""Imports of a Python file and a digest of its statements, by the file's content, in a cache for the next process.

Parsing the hundred files of a training takes a second. Without the cache, each stage would start a second later.
"""

import ast
import functools
import hashlib
import io
import json
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from annulus.errors import InputError
from annulus.files.results import write_text

MOST = 5_000  # contents in the cache; more come from many edits, and then it starts empty


class ParsedFile(NamedTuple):
    """Digest and imports of a file. Imports in blocks for type checkers are left out: they never run."""

    statements: str  # SHA-256 without comments, docstrings and blank lines; "" if nothing else is there
    imports: list[str]  # `module` of `import module`, `module.name` of `from module import name`
    relative: str  # the first import that is relative to the file's folder, with its line


class Sources:
    """Cache of parsed files, by the SHA-256 of their content, in a file."""

    def __init__(self, file: Path) -> None:
        self.file, self.new = file, False
        self.known: dict[str, ParsedFile] = {}
        with suppress(OSError, ValueError, TypeError, AttributeError):  # missing, or of another version
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["reader"] == _reader() and len(kept["sources"]) < MOST:
                self.known = {key: ParsedFile(*fields) for key, fields in kept["sources"].items()}

    def read(self, content: bytes) -> ParsedFile:
        """Returns the digest and the imports of a file's content.

        Raises:
            SyntaxError: when the content is not Python.
        """
        key = hashlib.sha256(content).hexdigest()
        if key not in self.known:
            self.known[key], self.new = read_source(content), True
        return self.known[key]

    def keep(self) -> None:
        """Writes the cache if it has new entries. If that fails, the next process parses them again."""
        if self.new:
            with suppress(InputError):
                write_text(self.file, json.dumps({"reader": _reader(), "sources": self.known}))
            self.new = False


@functools.cache
def sources_of(file: Path) -> Sources:
    """The cache in a file, loaded once in a process."""
    return Sources(file)


@functools.cache
def _reader() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def read_source(content: bytes) -> ParsedFile:
    """Parses a Python file.

    Raises:
        SyntaxError: when the content is not Python.
    """
    tree = ast.parse(content)
    imports: list[str] = []
    relative = ""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import annulus.bounds` also gives the name annulus, from which a file may take any public name.
                imports += [alias.name] if alias.asname else [alias.name, alias.name.split(".")[0]]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                relative = relative or f"line {node.lineno}: {ast.unparse(node)}"
            imports += [f"{node.module}.{alias.name}" for alias in node.names]
    statements = _without_comments(content, tree)
    return ParsedFile(hashlib.sha256(statements).hexdigest() if statements else "", imports, relative)


def _without_comments(content: bytes, tree: ast.Module) -> bytes:
    """Source code without comments, docstrings and blank lines."""
    lines = content.decode().split("\n")
    blank = set()  # blank lines between statements and in brackets, not in strings
    for token in tokenize.tokenize(io.BytesIO(content).readline):
        row = token.start[0] - 1
        if token.type == tokenize.COMMENT:
            lines[row] = lines[row][: token.start[1]].rstrip()
        elif token.type == tokenize.NL:
            blank.add(row)
    for block in (tree, *_statements(tree)):
        if isinstance(block, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = block.body[0] if block.body else None
            alone = isinstance(first, ast.Expr) and (block is tree or first.lineno > block.lineno)
            if alone and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                rows = range(first.lineno - 1, first.end_lineno)
                blank |= set(rows)
                for row in rows:
                    lines[row] = ""
    return "\n".join(line for row, line in enumerate(lines) if line or row not in blank).strip().encode()


def _statements(block: ast.AST) -> Iterator[ast.stmt]:
    """All statements of a block that may run. Expressions, most of a tree, hold no imports and are not visited."""
    typing_only = isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
    for name in ("orelse",) if typing_only else ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(block, name, []):
            yield inner
            yield from _statements(inner)
