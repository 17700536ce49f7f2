"""Notebooks, run from a fresh kernel, as Markdown with their outputs."""

import os
from pathlib import Path
from subprocess import DEVNULL

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import MarkdownExporter

from annulus.errors import InputError

SECONDS = 120  # of one cell, and of the kernel's start


def run(path: Path, root: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a run in its own folder.

    Raises:
        InputError: with the error of a cell that failed.
    """
    notebook = nbformat.read(path, as_version=4)
    paths = os.pathsep.join(filter(None, [str(root.resolve() / "src"), os.environ.get("PYTHONPATH", "")]))
    client = NotebookClient(
        notebook, timeout=SECONDS, startup_timeout=SECONDS, resources={"metadata": {"path": path.parent}}
    )
    # One thread: a kernel that shares its cores would wait for its own threads.
    try:
        client.execute(env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, stderr=DEVNULL)
    except CellExecutionError as error:
        raise InputError(f"{path} stopped at {error}") from error
    return notebook


def markdown(notebook: nbformat.NotebookNode, name: str) -> tuple[str, dict[str, bytes]]:
    """The notebook as Markdown, and its pictures by file name."""
    text, resources = MarkdownExporter().from_notebook_node(notebook, {"unique_key": name})
    return text.replace("![png](", "![Drawn by the lines above]("), resources["outputs"]
