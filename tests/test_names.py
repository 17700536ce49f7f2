"""Every name in the code is defined: ruff's F821, which the linter leaves out, as jaxtyping's shapes are strings."""

import json
import subprocess
import sys
from pathlib import Path

from declared import ROOT


def undefined(*places: Path) -> list[str]:
    """Names that are nowhere defined, outside of strings."""
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "json"]
    done = subprocess.run([*words, *places], capture_output=True, text=True)
    found = []
    for fault in json.loads(done.stdout):
        row, column = fault["location"]["row"], fault["location"]["column"]
        line = Path(fault["filename"]).read_text(encoding="utf-8").splitlines()[row - 1]
        if line[: column - 1].count('"') % 2 == 0:
            found.append(f"{fault['filename']}:{row}: {fault['message']}")
    return found


def test_every_name_is_defined(tmp_path):
    assert undefined(*(ROOT / folder for folder in ("src", "stages", "tests"))) == []
    (tmp_path / "wrong.py").write_text('def f(x: Float[Tensor, "b d"]) -> None:\n    return torch.zeros(1)\n')
    assert [fault.partition("Undefined ")[2] for fault in undefined(tmp_path)] == [
        f"name `{name}`" for name in ("Float", "Tensor", "torch")
    ]
