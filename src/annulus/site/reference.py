"""The reference: a page for each public module, whose entries mkdocstrings makes of the docstrings."""

import inspect

import annulus
from annulus.report.public_page import ROOMS


def pages() -> dict[str, str]:
    """The pages by path: names of `annulus` first, then of each room those that are not among them."""
    top = {name: found for name in annulus.__all__ if not inspect.ismodule(found := getattr(annulus, name))}
    made = {"reference/annulus.md": _page("annulus", top)}
    for room in ROOMS:
        module = getattr(annulus, room)
        rest = {name: getattr(module, name) for name in module.__all__ if name not in top}
        if rest:
            made[f"reference/{room}.md"] = _page(f"annulus.{room}", rest)
    return made


def _page(module: str, found: dict[str, object]) -> str:
    entries = [f"::: {one.__module__}.{one.__qualname__}\n" for one in found.values() if hasattr(one, "__qualname__")]
    listed = [
        f"`{module}.{name}`: {', '.join(f'`{key}`' for key in one)}\n"
        for name, one in found.items()
        if not hasattr(one, "__qualname__")
    ]
    return "\n".join([f"# {module}\n", *listed, *entries])
