"""Every name in the code is defined: ruff's F821, which the linter leaves out, as jaxtyping's shapes are strings.

And each room imports only from those that are listed above it.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from declared import ROOT

HOUSES = ROOT / "src/annulus", ROOT / "src/annulus_lab"


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


def rooms_of(house: Path) -> list[str]:
    """Rooms in the order of the package's docstring."""
    return re.findall(r"^    (\w+) {2,}", ast.get_docstring(ast.parse((house / "__init__.py").read_text())), re.M)


def imported_by(path: Path) -> set[str]:
    """Modules that a file imports, at its top or in a function."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return names | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("house", HOUSES, ids=lambda house: house.name)
def test_each_room_imports_only_from_those_above_it_in_both_lists(house):
    rooms = rooms_of(house)
    places = {path.stem for path in house.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {*rooms} == places - {"__init__", "__main__"}
    table = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (house / "README.md").read_text(), re.M)
    listed = [name for row in table for name in re.findall(r"\w+", row) if name in rooms]
    assert sorted(listed) == sorted(rooms)
    for path in house.rglob("*.py"):
        room = path.relative_to(house).parts[0].removesuffix(".py")
        for name in {module.split(".")[1] for module in imported_by(path) if module.startswith(f"{house.name}.")}:
            for order in (rooms, listed):
                assert room in ("__init__", "__main__") or order.index(name) <= order.index(room), (path, name)


def test_the_library_imports_nothing_of_the_laboratory(tmp_path):
    library, laboratory = HOUSES
    for path in library.rglob("*.py"):
        assert not {name for name in imported_by(path) if name.split(".")[0] == laboratory.name}, path
    crossing = tmp_path / "late.py"
    crossing.write_text("def f():\n    from annulus_lab.config import file\n    import annulus_lab.report\n")
    assert imported_by(crossing) == {"annulus_lab.config", "annulus_lab.report"}
