"""The reference: a page for each public module, whose entries mkdocstrings makes of the docstrings."""

from annulus_lab.report.public_page import public


def pages() -> dict[str, str]:
    """The pages by path."""
    return {f"reference/{module.rpartition('.')[2]}.md": _page(module, found) for module, found in public().items()}


def _page(module: str, found: dict[str, object]) -> str:
    entries = [f"::: {one.__module__}.{one.__qualname__}\n" for one in found.values() if hasattr(one, "__qualname__")]
    listed = [
        f"`{module}.{name}`: {', '.join(f'`{key}`' for key in one)}\n"
        for name, one in found.items()
        if not hasattr(one, "__qualname__")
    ]
    return "\n".join([f"# {module}\n", *listed, *entries])
