"""params.yaml with the values that tests rely on; values that a user has set there do not matter."""

import copy
import io
from functools import cache
from pathlib import Path
from typing import Any

from by_path import ROOT, read_yaml
from ruamel.yaml import YAML

MISSING = object()
STATED = {
    "seeds": [50, 51, 52, 53, 54],  # as studies of the main line have
    **{"scale": "demo", "dataset": "shapes", "method": "ir", "split": "none", "bound": "infonce", "sampler": "ring"},
    **{"anneal": "linear", "neighbours": "none", "views": "gentle", "backbone": "convnet", "schedule": "cosine"},
    **{"datasets.shapes.image_size": 20, "datasets.shapes.view_size": 20, "datasets.shapes.validation_fraction": 0.1},
    **{"methods.ir.temperature": 0.2, "methods.ir.bank_rate": 0.5},
    **{"samplers.ball.outer": 0.1, "samplers.ring.outer": 0.1, "samplers.ring.inner": 0.01},
    **{"samplers.cave.outer": 0.1, "samplers.cave.clusters": 300},
    **{"anneals.linear.until": 0.5, "neighbour_sets.s.until": 0.5, "view_sets.patches.patches.offset": 0},
}


def replaced(tree: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A tree with the values at some keys replaced or removed."""
    tree = copy.deepcopy(tree)
    for key, value in changes.items():
        *sections, last = key.split(".")
        section = tree
        for name in sections:
            section = section[name]
        if value is MISSING:
            del section[last]
        else:
            section[last] = copy.deepcopy(value)
    return tree


TREE = replaced(read_yaml(ROOT / "params.yaml"), STATED)


@cache
def stated_text() -> str:
    """Text of the stated params.yaml, with its comments."""
    form, text = YAML(), io.StringIO()
    form.dump(replaced(form.load(ROOT / "params.yaml"), STATED), text)
    return text.getvalue()


def stated_params(path: Path) -> Path:
    """Writes the stated params.yaml to a file."""
    path.write_text(stated_text(), encoding="utf-8")
    return path
