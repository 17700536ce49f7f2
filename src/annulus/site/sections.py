"""Pages put together of the repository's Markdown, so that each sentence is written once.

A page of docs/ is Markdown that GitHub shows as it is. A link below the comment `<!-- include -->` is replaced on the
site by what it leads to: a section, a whole file without the sections that other pages include, or a program's text
below the link's words as its heading.
`<!-- include text -->` leaves the section's heading out. A link to a section leads to the page that includes it.
"""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from annulus.errors import InputError, nearest

INCLUDE = re.compile(r"^<!-- include(?P<text> text)? -->\n\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
PICTURE = re.compile(r'<img src="([^"]+)" width="(\d+)" alt="([^"]*)">')
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
WITHIN = re.compile(r" (?=± )|(?<= ±) |(?<=\d) (?=%)")  # a space within a number, where no line may end
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".ipynb": "json"}
COPIED = {".svg", ".png", ".csv"}

Home = tuple[str, str]  # a page and a heading of it


@dataclass(frozen=True)
class Section:
    """A heading with the text up to the next heading; level 1 is the file's beginning."""

    level: int
    title: str
    anchor: str
    text: str


@dataclass(frozen=True)
class Piece:
    """Part of a page, from a file: its links are relative to that file."""

    file: str
    text: str


def anchor_of(title: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def sections_of(text: str) -> list[Section]:
    """A file cut at its headings; those in blocks of code are no headings."""
    hidden = FENCE.sub(lambda block: " " * len(block[0]), text)
    heads = list(HEADING.finditer(hidden))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [
        Section(len(head[1]), head[2], "" if head[1] == "#" else anchor_of(head[2]), text[head.end() : end].strip("\n"))
        for head, end in zip(heads, ends, strict=True)
    ]


def outside_code(text: str, change: re.Pattern[str], by: object) -> str:
    """A text with replacements everywhere but in blocks of code."""
    parts, place = [], 0
    for block in FENCE.finditer(text):
        parts += [change.sub(by, text[place : block.start()]), block[0]]
        place = block.end()
    return "".join([*parts, change.sub(by, text[place:])])


@dataclass
class Book:
    """Pages of the site by path, put together of files under `root`."""

    root: Path
    pages: dict[str, list[Piece]] = field(default_factory=dict)
    homes: dict[tuple[str, str], Home] = field(default_factory=dict)  # (file, anchor): where it is on the site
    files: set[str] = field(default_factory=set)  # pictures and tables that pages show or link
    made: set[str] = field(default_factory=set)  # those that no file of the repository holds

    def add(self, files: Mapping[str, str]) -> None:
        """Add a page for each file; what pages include is settled over all of them.

        Raises:
            InputError: when an included file or heading does not exist, or is included twice.
        """
        whole: list[tuple[str, int, str]] = []
        for page, file in files.items():
            text, pieces, place = self._read(file), [], 0
            self.homes[file, ""] = page, ""
            for one in INCLUDE.finditer(text):
                pieces.append(Piece(file, text[place : one.start()]))
                target, anchor = self._target(file, one["target"])
                if anchor:
                    pieces.append(self._section(page, target, anchor, headed=not one["text"]))
                elif target.endswith(".md"):
                    whole.append((page, len(pieces), target))
                    pieces.append(Piece(target, ""))
                else:
                    pieces.append(Piece(target, f"## {one['words']}\n\n`{target}`:\n\n{self._program(target)}"))
                    self._settle(target, "", page, anchor_of(one["words"]))
                place = one.end()
            self.pages[page] = [*pieces, Piece(file, text[place:])]
            for section in sections_of(text):
                self._settle(file, section.anchor, page, section.anchor)
        for page, place, target in whole:
            rest = [each for each in sections_of(self._read(target)) if (target, each.anchor) not in self.homes]
            for section in rest:
                self._settle(target, section.anchor, page, section.anchor)
            texts = [_headed(section, headed=section.level > 1) for section in rest]
            self.pages[page][place] = Piece(target, "\n\n".join(texts) + "\n")

    def write(self, folder: Path, pictures: Mapping[str, bytes]) -> None:
        """Write all pages, the pictures that they show, and a page for each program that they link.

        `pictures`: those that no file of the repository holds, by path.

        Raises:
            InputError: when a link leads nowhere.
        """
        self.made = set(pictures)
        contents: dict[str, bytes] = dict(pictures)
        for page, pieces in self.pages.items():
            contents[page] = "".join(self._linked(page, piece) for piece in pieces).encode()
        for (file, _), (page, _) in self.homes.items():
            if page.startswith("code/"):
                contents[page] = f"# `{file}`\n\n{self._program(file)}\n".encode()
        contents |= {name: (self.root / name).read_bytes() for name in self.files}
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _section(self, page: str, file: str, anchor: str, headed: bool) -> Piece:
        sections = sections_of(self._read(file))
        known = [section.anchor for section in sections]
        if anchor not in known:
            raise InputError(f"{page} includes {file}#{anchor}, which has no such heading{nearest(anchor, known)}")
        start = known.index(anchor)
        level = sections[start].level
        end = next((i for i in range(start + 1, len(sections)) if sections[i].level <= level), len(sections))
        texts = []
        for i in range(start, end):
            first = i == start
            self._settle(file, known[i], page, "" if first and not headed else known[i])
            texts.append(_headed(sections[i], headed=headed or not first))
        return Piece(file, "\n\n".join(texts) + "\n")

    def _settle(self, file: str, anchor: str, page: str, at: str) -> None:
        there = self.homes.get((file, anchor))
        if anchor and there and there[0] != page:
            raise InputError(f"{page} and {there[0]} both include {file}#{anchor}; link it in one of them")
        if not there or not there[1]:
            self.homes[file, anchor] = page, at

    def _linked(self, page: str, piece: Piece) -> str:
        text = outside_code(piece.text, PICTURE, r"![\3](\1){ width=\2 }")
        text = outside_code(text, COMMENT, "")
        text = _nested(text)
        text = outside_code(text, HEADING, lambda head: f"{head[0]} {{ #{anchor_of(head[2])} }}")
        text = outside_code(text, LINK, lambda link: self._link(page, piece.file, link[0]))
        return outside_code(text, WITHIN, "\N{NO-BREAK SPACE}")

    def _link(self, page: str, file: str, link: str) -> str:
        if link.startswith("https://"):
            return link
        if posixpath.join(posixpath.dirname(page), link) in self.made:
            return link
        target, anchor = self._target(file, link)
        path = self.root / target
        if path.suffix in COPIED and path.is_file():
            self.files.add(target)
            return _relative(page, target)
        if (target, anchor) not in self.homes and not anchor and path.suffix in LANGUAGES and path.is_file():
            self.homes[target, ""] = f"code/{target}.md", ""
        if (target, anchor) not in self.homes:
            raise InputError(f"{file} links {link}, which is on no page of the site; include it in a page of docs/")
        home, at = self.homes[target, anchor]
        return (_relative(page, home) if home != page else "" if at else posixpath.basename(page)) + (at and f"#{at}")

    def _target(self, file: str, link: str) -> tuple[str, str]:
        path, _, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), path)) if path else file
        return target, anchor

    def _read(self, file: str) -> str:
        try:
            return (self.root / file).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot read {file}, of which the site is made: {error.strerror}") from error

    def _program(self, file: str) -> str:
        return f"```{LANGUAGES.get(Path(file).suffix, '')}\n{self._read(file).rstrip()}\n```"


def _nested(text: str) -> str:
    """Lists as MkDocs reads them, not as GitHub does: parts of items by four spaces, an empty line before a list."""
    lines: list[str] = []
    deeper = None  # of the block of code that the line is in
    for line in text.split("\n"):
        fence = re.match(r"( *)```", line)
        if deeper is not None:
            lines.append(f"{deeper}{line}")
            deeper = None if fence else deeper
            continue
        if fence:
            deeper = fence[1]
            lines.append(f"{deeper}{line}")
            continue
        if line.startswith("- ") and lines and lines[-1] and not lines[-1].lstrip().startswith("- "):
            lines.append("")
        lines.append(f"  {line}" if re.match(r" {2}\S", line) else line)
    return "\n".join(lines)


def _headed(section: Section, headed: bool) -> str:
    return f"{'#' * section.level} {section.title}\n\n{section.text}" if headed else section.text


def _relative(page: str, target: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")
