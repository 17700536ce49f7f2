"""Parameters of one run: a tree of params.yaml's form, with only the chosen sections.

A study writes one such file for each row, and the row's stage depends on the file. So an edit of params.yaml reruns
only the rows whose settings it changes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus.training.run import TrainingRun
from annulus.views.learned import LearnedSplit
from annulus.views.splits import parse_split
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.params import filled, kinds, misfit, plain

SELECTORS = ["dataset", "method", "split", "bound", "sampler", "anneal", "neighbours"]
SELECTORS += ["views", "backbone", "schedule", "scale"]
FIELDS = {  # fields of a TrainingRun and their names in dvc.yaml; the seed is separate
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
CHOICES = [FIELDS[field] for field in ("method", "bound", "sampler", "neighbours", "annealing")]  # a class each
RUN = [*PRETRAIN, "knn", "linear", "scales.${scale}.linear"]  # with both probes
IMAGES = ["seeds", "dataset", "datasets.${dataset}", "scales.${scale}.prepare"]


def build_run(params: Mapping[str, Any], seed: int, learned: LearnedSplit | None = None) -> TrainingRun:
    """Builds a run from values under the names of `PRETRAIN`; a learned split replaces the settings' split."""
    run_fields = {field: params[name] for field, name in FIELDS.items()}
    return TrainingRun(seed=seed, **run_fields | {"split": learned or parse_split(run_fields["split"].described)})


def chosen_classes(settings: Any) -> set[type]:
    """Classes of method, bound, sampler, neighbours and annealing in the settings' runs, at any depth."""
    inner = settings.values() if isinstance(settings, dict) else settings if isinstance(settings, list) else ()
    classes = set().union(*map(chosen_classes, inner))
    if isinstance(settings, dict):
        sections = {name.split(".")[0]: name for name in CHOICES}
        if sections.keys() <= settings.keys() or settings.keys() == {"samplers"}:
            names = [name for section, name in sections.items() if section in settings]
            classes |= {type(value) for value in values(settings, names).values()}
    return classes


def resolved(params: AllParams, names: Iterable[str]) -> dict[str, Any]:
    """Tree of the values under dvc.yaml's names: `samplers.${sampler}` becomes {"samplers": {"ring": {...}}}."""
    tree: dict[str, Any] = {}
    for name in names:
        *parents, last = re.sub(r"\$\{(\w+)\}", lambda match: getattr(params, match[1]), name).split(".")
        place, value = tree, params.get(name)
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = plain(value)
    return tree


def values(tree: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Checked values of a resolved tree, under dvc.yaml's names.

    Raises:
        InputError: when the tree lacks a name, or a model refuses a value.
    """
    try:
        kinds_and_values = {name: _kind_and_value(tree, name) for name in names}
    except (KeyError, TypeError, ValueError) as error:
        raise misfit(error) from error
    return {name: filled(kind, value) for name, (kind, value) in kinds_and_values.items()}


def read_settings(path: Path) -> dict[str, Any]:
    """Reads a file of settings.

    Raises:
        InputError: when it is missing or malformed.
    """
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is missing or not a settings file ({error}); run `dvc repro`") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a settings file: it holds {type(content).__name__}; run `dvc repro`")
    return content


def _kind_and_value(tree: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Kind and value under a name; the tree holds only the chosen section of a choice."""
    value, kind = tree, AllParams
    for part in name.split("."):
        if part.startswith("${"):
            (part,) = value
        value, kind = value[part], _kind(kind, part)
    return kind, value


def _kind(model: Any, key: str) -> Any:
    """Type of a key of a section."""
    return kinds(model)[key] if isinstance(model, type) else get_args(model)[1]  # a dict's values
