"""Imports of a Python file and a digest of its statements, by the file's content; kept for the next process.

Parsing the hundred files of a training takes a second, which a user would wait for at the start of each stage.
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

MOST = 5_000  # contents; more are those of many edits


class ParsedFile(NamedTuple):
    """A file's content. Imports in blocks for type checkers are left out: they never run."""

    statements: str  # SHA-256 without comments, docstrings and blank lines; empty where that is nothing
    imports: list[str]  # `module` of `import module`, `module.name` of `from module import name`
    relative: str  # the first import that is relative to the file's folder, with its line


class Sources:
    """Sources by the SHA-256 of their content, in a file."""

    def __init__(self, file: Path) -> None:
        self.file, self.new = file, False
        self.known: dict[str, ParsedFile] = {}
        with suppress(OSError, ValueError, TypeError, AttributeError):  # none yet, or another version's
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["reader"] == _reader() and len(kept["sources"]) < MOST:
                self.known = {key: ParsedFile(*fields) for key, fields in kept["sources"].items()}

    def read(self, content: bytes) -> ParsedFile:
        """The source of a file's content.

        Raises:
            SyntaxError: when it is no Python.
        """
        key = hashlib.sha256(content).hexdigest()
        if key not in self.known:
            self.known[key], self.new = read_source(content), True
        return self.known[key]

    def keep(self) -> None:
        """Write what was read anew; where that cannot be written, the next process reads it again."""
        if self.new:
            with suppress(InputError):
                write_text(self.file, json.dumps({"reader": _reader(), "sources": self.known}))
            self.new = False


@functools.cache
def sources_of(file: Path) -> Sources:
    """The sources that a file keeps, once in a process."""
    return Sources(file)


@functools.cache
def _reader() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def read_source(content: bytes) -> ParsedFile:
    """The source of a Python file.

    Raises:
        SyntaxError: when it is no Python.
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
    blank = set()  # lines between statements and in brackets; strings keep theirs
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
    """Every statement within a block that may run, and no expression: these are most of a tree, and none imports."""
    typing_only = isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
    for name in ("orelse",) if typing_only else ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(block, name, []):
            yield inner
            yield from _statements(inner)
