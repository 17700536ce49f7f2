"""Every name in the code is defined: ruff's F821, which the linter leaves out, as jaxtyping's shapes are strings.

And each room imports only from those that are listed above it.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

from declared import ROOT

LIBRARY = ROOT / "src/annulus"


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


def test_each_room_imports_only_from_those_above_it_in_both_lists():
    rooms = re.findall(r"^    (\w+) {2,}", ast.get_docstring(ast.parse((LIBRARY / "__init__.py").read_text())), re.M)
    places = {path.stem for path in LIBRARY.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {*rooms} == places - {"__init__", "__main__"}
    table = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (LIBRARY / "README.md").read_text(), re.M)
    listed = [name for row in table for name in re.findall(r"\w+", row) if name in rooms]
    assert sorted(listed) == sorted(rooms)
    for path in LIBRARY.rglob("*.py"):
        room = path.relative_to(LIBRARY).parts[0].removesuffix(".py")
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        for name in {node.module.split(".")[1] for node in imports if (node.module or "").startswith("annulus.")}:
            for order in (rooms, listed):
                assert room in ("__init__", "__main__") or order.index(name) <= order.index(room), (path, name)
