"""Python without some of the installed packages."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import warm
from by_path import ROOT


def run_without(
    packages: Sequence[str], arguments: Sequence[str], folder: Path, python: str | Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `python ARGUMENTS` with failing imports of some packages, by a file in the folder.

    The Python is warm.py's, or another.
    """
    # Python imports sitecustomize first. None in sys.modules fails an import and find_spec. Some packages are loaded.
    loaded = f"[name for name in sys.modules if name.partition('.')[0] in {list(packages)}]"
    absent = f"import sys; sys.modules.update(dict.fromkeys([*{list(packages)}, *{loaded}]))"
    (folder / "sitecustomize.py").write_text(absent)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.run(
        [python or warm.folder() / "python", *arguments], capture_output=True, text=True, env=environment
    )
