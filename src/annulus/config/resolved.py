"""The parameters of one run: a tree like that of params.yaml, with only the chosen sections.

A study writes these as files, one for each row, and a row depends on its file: an edit of params.yaml reruns only the
rows whose settings it changes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from annulus.config.all_params import AllParams
from annulus.config.params import filled, kinds, misfit, plain
from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus.training.run import Run
from annulus.views.learned import LearnedSplit
from annulus.views.splits import split_of

SELECTORS = ["dataset", "method", "split", "bound", "sampler", "anneal", "neighbours"]
SELECTORS += ["views", "backbone", "schedule", "scale"]
FIELDS = {  # of a pretraining's Run, under dvc.yaml's names; its seed comes beside these
    "view_size": "datasets.${dataset}.view_size",
    "method": "methods.${method}",
    "split": "splits.${split}",
    "bound": "bounds.${bound}",
    "sampler": "samplers.${sampler}",
    "annealing": "anneals.${anneal}",
    "neighbours": "neighbour_sets.${neighbours}",
    "views": "view_sets.${views}",
    "backbone": "backbones.${backbone}",
    "optimizer": "optimizer",
    "schedule": "schedules.${schedule}",
    "budget": "scales.${scale}.pretrain",
}
PRETRAIN = list(FIELDS.values())
RUN = [*PRETRAIN, "knn", "linear", "scales.${scale}.linear"]  # with both probes
IMAGES = ["seeds", "dataset", "datasets.${dataset}", "scales.${scale}.prepare"]


def run_of(params: Mapping[str, Any], seed: int, learned: LearnedSplit | None = None) -> Run:
    """The run of these values, under the names of `PRETRAIN`; a learned split replaces the settings' split."""
    chosen = {field: params[name] for field, name in FIELDS.items()}
    return Run(seed=seed, **chosen | {"split": learned or split_of(chosen["split"].described)})


def resolved(params: AllParams, names: Iterable[str]) -> dict[str, Any]:
    """The values under dvc.yaml's names as a tree: `samplers.${sampler}` is {"samplers": {"ring": {...}}}."""
    tree: dict[str, Any] = {}
    for name in names:
        *parents, last = re.sub(r"\$\{(\w+)\}", lambda match: getattr(params, match[1]), name).split(".")
        place, value = tree, params.get(name)
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = plain(value)
    return tree


def values(tree: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Checked values of such a tree, under dvc.yaml's names.

    Raises:
        InputError: when the tree lacks one of them, or holds what its model refuses.
    """
    try:
        found = {name: _found(tree, name) for name in names}
    except (KeyError, TypeError, ValueError) as error:
        raise misfit(error) from error
    return {name: filled(kind, value) for name, (kind, value) in found.items()}


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


def _found(tree: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Kind and value under a name; of a section that is a choice the tree has only the chosen one."""
    value, kind = tree, AllParams
    for part in name.split("."):
        if part.startswith("${"):
            (part,) = value
        value, kind = value[part], _kind(kind, part)
    return kind, value


def _kind(model: Any, key: str) -> Any:
    """Type of a key of a section."""
    return kinds(model)[key] if isinstance(model, type) else get_args(model)[1]  # of a dict
