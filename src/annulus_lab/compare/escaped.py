"""Escapes text from elsewhere for Markdown: it stays text and never becomes markup."""

import re


def safe(text: object) -> str:
    """Escapes text for one line of one cell: without markup and HTML."""
    return _escape(" ".join(str(text).split()))


def _escape(line: str) -> str:
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"([\\`*_\[\]|~#$!])", r"\\\1", line)
    # A bare address would become a link, a name after @ a message to somebody.
    return line.replace("://", ":&#8203;//").replace("@", "@&#8203;").replace("www.", "www&#8203;.")


def code(text: object) -> str:
    """Text as code; plain text if it has a backtick, which ends the code, or a `|`, which ends the cell."""
    plain = " ".join(str(text).split())
    return safe(plain) if set(plain) & set("`|") or not plain else f"`{plain}`"


def ticks(text: str) -> str:
    """Sentence whose parts between backticks become code."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:
        return safe(text)
    return "".join(code(part) if place % 2 else _escape(part) for place, part in enumerate(parts))
