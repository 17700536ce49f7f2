"""Scripts of study folders, which have modules of the same names."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def script(path: str) -> ModuleType:
    """A script of this repository as a module of its own, without its `__main__` part."""
    name = f"script_{path.removesuffix('.py').replace('/', '_')}"
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
