"""Python as it is where some packages are not installed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from by_path import ROOT


def run_without(packages: Sequence[str], arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` in which importing one of the packages fails; the folder takes a file that sees to that."""
    # Python imports sitecustomize before all else. None in sys.modules: neither imported nor found.
    absent = f"import sys; sys.modules.update(dict.fromkeys({list(packages)}))"
    (folder / "sitecustomize.py").write_text(absent)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
