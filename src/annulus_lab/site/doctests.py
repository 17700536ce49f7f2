"""Examples of docstrings as blocks of code: an extension of griffe, which mkdocs.yml names."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^(?!\n).+\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Marks each paragraph that starts with >>> as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(
                lambda lines: f"```pycon\n{lines[0].rstrip()}\n```\n", obj.docstring.value
            )
