"""Reference: a page for each public module. mkdocstrings makes its entries from the docstrings."""

from annulus_lab.report.public_page import public


def pages() -> dict[str, str]:
    """Pages by path."""
    return {f"reference/{module.rpartition('.')[2]}.md": _page(module, members) for module, members in public().items()}


def _page(module: str, members: dict[str, object]) -> str:
    entries = [f"::: {one.__module__}.{one.__qualname__}\n" for one in members.values() if hasattr(one, "__qualname__")]
    lines = [
        f"`{module}.{name}`: {', '.join(f'`{key}`' for key in one)}\n"
        for name, one in members.items()
        if not hasattr(one, "__qualname__")
    ]
    return "\n".join([f"# {module}\n", *lines, *entries])
