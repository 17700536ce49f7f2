"""Every name in the code is defined (ruff's F821), and each room imports only from rooms listed above it.

The linter leaves F821 out, because jaxtyping's shapes are strings.
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


def undefined_names(*places: Path) -> list[str]:
    """Messages about undefined names outside strings."""
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "json"]
    done = subprocess.run([*words, *places], capture_output=True, text=True)
    messages = []
    for fault in json.loads(done.stdout):
        row, column = fault["location"]["row"], fault["location"]["column"]
        line = Path(fault["filename"]).read_text(encoding="utf-8").splitlines()[row - 1]
        if line[: column - 1].count('"') % 2 == 0:
            messages.append(f"{fault['filename']}:{row}: {fault['message']}")
    return messages


def test_every_name_is_defined(tmp_path):
    assert undefined_names(*(ROOT / folder for folder in ("src", "stages", "tests"))) == []
    (tmp_path / "wrong.py").write_text('def f(x: Float[Tensor, "b d"]) -> None:\n    return torch.zeros(1)\n')
    assert [fault.partition("Undefined ")[2] for fault in undefined_names(tmp_path)] == [
        f"name `{name}`" for name in ("Float", "Tensor", "torch")
    ]


def read_rooms(house: Path) -> list[str]:
    """Returns the rooms in the order of the package's docstring."""
    return re.findall(r"^    (\w+) {2,}", ast.get_docstring(ast.parse((house / "__init__.py").read_text())), re.M)


def imported_modules(path: Path) -> set[str]:
    """Modules that a file imports, at its top or in a function."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return names | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("house", HOUSES, ids=lambda house: house.name)
def test_each_room_imports_only_from_those_above_it_in_both_lists(house):
    rooms = read_rooms(house)
    places = {path.stem for path in house.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {*rooms} == places - {"__init__", "__main__"}
    table = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (house / "README.md").read_text(), re.M)
    listed = [name for row in table for name in re.findall(r"\w+", row) if name in rooms]
    assert sorted(listed) == sorted(rooms)
    for path in house.rglob("*.py"):
        room = path.relative_to(house).parts[0].removesuffix(".py")
        for name in {module.split(".")[1] for module in imported_modules(path) if module.startswith(f"{house.name}.")}:
            for order in (rooms, listed):
                assert room in ("__init__", "__main__") or order.index(name) <= order.index(room), (path, name)


def test_the_library_imports_nothing_of_the_laboratory(tmp_path):
    library, laboratory = HOUSES
    for path in library.rglob("*.py"):
        assert not {name for name in imported_modules(path) if name.split(".")[0] == laboratory.name}, path
    crossing = tmp_path / "late.py"
    crossing.write_text("def f():\n    from annulus_lab.config import file\n    import annulus_lab.report\n")
    assert imported_modules(crossing) == {"annulus_lab.config", "annulus_lab.report"}
