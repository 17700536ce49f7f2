"""Python as it is where some packages are not installed."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import warm
from by_path import ROOT


def run_without(
    packages: Sequence[str], arguments: Sequence[str], folder: Path, python: str | Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` in which importing one of the packages fails; the folder takes a file that sees to that.

    The Python is that of warm.py, or another.
    """
    # Python imports sitecustomize before all else. None in sys.modules: neither imported nor found. Some are loaded.
    loaded = f"[name for name in sys.modules if name.partition('.')[0] in {list(packages)}]"
    absent = f"import sys; sys.modules.update(dict.fromkeys([*{list(packages)}, *{loaded}]))"
    (folder / "sitecustomize.py").write_text(absent)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.run(
        [python or warm.folder() / "python", *arguments], capture_output=True, text=True, env=environment
    )
