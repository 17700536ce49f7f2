"""Text from elsewhere inside Markdown: shown as it is, never as markup."""

import re


def safe(text: object) -> str:
    """Text as Markdown shows it and nothing more: no markup, no HTML, no second cell, no second line."""
    return _escaped(" ".join(str(text).split()))


def _escaped(line: str) -> str:
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"([\\`*_\[\]|~#$!])", r"\\\1", line)
    # A bare address would become a link, a name after @ a message to somebody.
    return line.replace("://", ":&#8203;//").replace("@", "@&#8203;").replace("www.", "www&#8203;.")


def code(text: object) -> str:
    """Text as code. Backticks in it would end it, and so would a `|` end its cell: then it is plain text."""
    plain = " ".join(str(text).split())
    return safe(plain) if set(plain) & set("`|") or not plain else f"`{plain}`"


def ticks(text: str) -> str:
    """A sentence with what stands between backticks as code."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:
        return safe(text)
    return "".join(code(part) if place % 2 else _escaped(part) for place, part in enumerate(parts))
