"""Loads scripts of study folders, whose modules share names, and YAML files."""

import copy
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]


def script(path: str) -> ModuleType:
    """A script of this repository as a module of its own, without its `__main__` part."""
    name = f"script_{path.removesuffix('.py').replace('/', '_')}"
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def read_yaml(path: Path) -> Any:
    """The content of a YAML file."""
    return parse_yaml(path.read_text(encoding="utf-8"))


def parse_yaml(text: str) -> Any:
    """Content of YAML text as a fresh copy; the parse is cached, since several test files read the same texts."""
    return copy.deepcopy(_parse(text))


@cache
def _parse(text: str) -> Any:
    # libyaml, where PyYAML has it, takes a tenth of the time.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def pipeline(path: Path) -> dict:
    """A dvc.yaml; where studies of one form share it, with the names filled in."""
    text, params = path.read_text(encoding="utf-8"), read_yaml(path.parent / "params.yaml")
    for key in ("study", "of"):
        text = text.replace(f"${{{key}}}", str(params.get(key)))
    return parse_yaml(text)


def settings_script(study: str) -> str:
    """The script that makes a study's settings: its own, or the shared one of its form."""
    name = pipeline(ROOT / "stages" / study / "dvc.yaml")["stages"]["settings"]["cmd"].split()[2]
    return f"stages/{name}.py"
