"""Writes PUBLIC.md, the public names with the first sentence of each docstring: `make tables`."""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import annulus
from annulus.files.results import write_text

PAGE = Path(annulus.__file__).with_name("PUBLIC.md")
ROOMS = ("bounds", "encoders", "evals", "methods", "negatives", "views")
HEAD = """# Public names

`make tables` writes this list from `__all__` and the docstrings. `help(annulus.MoCo)` shows shapes,
units, errors, source and an example. All examples begin with these lines:

```python
import torch
from torch import nn
import annulus
```

"""


def page() -> str:
    """Returns the page: a table for each module."""
    return HEAD + "\n".join(_table(module, members) for module, members in public().items())


def public() -> dict[str, dict[str, Any]]:
    """Returns the public names of each module: all of `annulus`, then the other names of each room."""
    by_module = {
        "annulus": {name: one for name in annulus.__all__ if not inspect.ismodule(one := getattr(annulus, name))}
    }
    for room in ROOMS:
        module = getattr(annulus, room)
        rest = {name: getattr(module, name) for name in module.__all__ if name not in by_module["annulus"]}
        if rest:
            by_module[f"annulus.{room}"] = rest
    return by_module


def _table(module: str, members: dict[str, object]) -> str:
    rows = [f"| `{name}{_call(one)}` | {_first_sentence(one)} |\n" for name, one in members.items()]
    return f"## {module}\n\n| name | what it is |\n|---|---|\n{''.join(rows)}"


def _call(value: Any) -> str:
    """Returns the arguments, without types and defaults; for a method the arguments of `create`."""
    if value is annulus.InputError or isinstance(value, Mapping):
        return ""
    function, name = (value.create, ".create") if hasattr(value, "create") else (value, "")
    return f"{name}({', '.join(inspect.signature(function).parameters)})"


def _first_sentence(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(value)
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[^\d])\.(?: |$)", paragraph)[0].replace("|", "\\|")


if __name__ == "__main__":
    write_text(PAGE, page())
