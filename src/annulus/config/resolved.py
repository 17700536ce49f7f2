"""What one run reads of its parameters: a tree like that of params.yaml, but with the chosen sections only.

A study writes these as files, one for each row, and a row depends on its file: an edit of params.yaml reruns those rows
whose own settings it changes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from annulus.config import AllParams
from annulus.config.params import Params
from annulus.errors import InputError
from annulus.files.regular import read_text

SELECTORS = ["dataset", "method", "split", "bound", "sampler", "anneal", "neighbours"]
SELECTORS += ["views", "backbone", "schedule", "scale"]
PRETRAIN = [  # a run's seed comes beside these
    "datasets.${dataset}.view_size",
    "methods.${method}",
    "splits.${split}",
    "bounds.${bound}",
    "samplers.${sampler}",
    "anneals.${anneal}",
    "neighbour_sets.${neighbours}",
    "view_sets.${views}",
    "backbones.${backbone}",
    "optimizer",
    "schedules.${schedule}",
    "scales.${scale}.pretrain",
]
RUN = [*PRETRAIN, "knn", "linear", "scales.${scale}.linear"]  # with both probes
IMAGES = ["seeds", "dataset", "datasets.${dataset}", "scales.${scale}.prepare"]


def resolved(params: AllParams, names: Iterable[str]) -> dict[str, Any]:
    """The values under dvc.yaml's names as a tree: `samplers.${sampler}` is {"samplers": {"ring": {...}}}."""
    tree: dict[str, Any] = {}
    for name in names:
        *parents, last = re.sub(r"\$\{(\w+)\}", lambda match: getattr(params, match[1]), name).split(".")
        place, value = tree, params.get(name)
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value.model_dump(mode="json", by_alias=True) if isinstance(value, Params) else value
    return tree


def values(tree: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The checked values of such a tree, under dvc.yaml's names.

    Raises:
        InputError: when the tree lacks one of them, or holds what its model refuses.
    """
    try:
        return {name: _value(tree, name) for name in names}
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"the settings do not fit this version of the code ({reason}); run `dvc repro`") from error


def read_settings(path: Path) -> dict[str, Any]:
    """A file of settings.

    Raises:
        InputError: when it cannot be read.
    """
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is missing or no settings file ({error}); run `dvc repro`") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is no settings file: it holds {type(content).__name__}; run `dvc repro`")
    return content


def _value(tree: Mapping[str, Any], name: str) -> Any:
    """The value under a name; of a section that is a choice the tree has only the chosen one."""
    value, kind = tree, AllParams
    for part in name.split("."):
        if part.startswith("${"):
            (part,) = value
        value, kind = value[part], _kind(kind, part)
    return TypeAdapter(kind).validate_python(value)


def _kind(model: Any, key: str) -> Any:
    """The type of what stands under a key of a section."""
    if not (isinstance(model, type) and issubclass(model, Params)):
        return get_args(model)[1]  # of a dict
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}[key]
