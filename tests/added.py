"""Blocks of docs/add.md by recipe and file, and a text with a block in its place."""

import re
from dataclasses import dataclass

from by_path import ROOT

PAGE = (ROOT / "docs/add.md").read_text()
BLOCK = re.compile(
    r"^`(?P<path>[\w./-]+)`(?:, above `(?P<above>\w+)`)?[^\n`]*:\n\n(?:<!-- not run: [^\n]+ -->\n)?"
    r"```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
DOCSTRING = re.compile(r'^ *""".*"""$')


@dataclass(frozen=True)
class Block:
    """A file of the page, or lines for an existing file."""

    path: str
    above: str | None
    language: str
    code: str

    @property
    def lines(self) -> int:
        """Lines of code, without blank lines, docstrings and a diff's context."""
        rows = [row for row in self.code.splitlines() if row and not DOCSTRING.match(row)]
        return sum(row.startswith("+") for row in rows) if self.language == "diff" else len(rows)

    def into(self, text: str) -> str:
        """The file's text with the block: alone, above a line, or where its context lines stand."""
        if self.language == "diff":
            for hunk in self.code.split("@@\n"):
                rows = hunk.splitlines()
                before = "\n".join(row[1:] for row in rows if row.startswith(" "))
                assert f"\n{text}".count(f"\n{before}\n") == 1, f"{self.path}: {before}"
                text = text.replace(f"{before}\n", "".join(f"{row[1:]}\n" for row in rows), 1)
            return text
        if self.above:
            before, place, after = text.partition(f"\n{self.above}")
            assert place, f"{self.path}: no {self.above}"
            return f"{before}\n{self.code}\n{place}{after}"
        assert not text, f"{self.path} exists"
        return self.code


def recipe_of(name: str) -> str:
    """A recipe's part of the page, below its heading."""
    (recipe,) = re.findall(rf"^##+ An? {name}\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    return recipe


def blocks_of(name: str) -> list[Block]:
    """The blocks of a recipe that stand below the path of a file."""
    return [Block(**block.groupdict()) for block in BLOCK.finditer(recipe_of(name))]


def files() -> list[str]:
    """Paths of all blocks of the page."""
    return [block["path"] for block in BLOCK.finditer(PAGE)]


def own_study(name: str) -> str:
    """params.yaml of the page's study, under another name."""
    (params,) = (block for block in blocks_of("study") if block.path.endswith("params.yaml"))
    return params.code.replace("temperatures", name)
