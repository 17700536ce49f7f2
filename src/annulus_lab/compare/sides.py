"""Side of a comparison: the main line's numbers in a git revision, a DVC experiment, or the workspace."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from annulus.errors import InputError
from annulus.evals.headlines import HeadlineNumber, headline_numbers
from annulus.files.right import parse_right
from annulus.files.strict import finite, parse_json, parse_numbers
from annulus_lab.pipeline.revision import WORKSPACE, RevisionFiles, revision, workspace
from annulus_lab.pipeline.stale import READ, flat, read_yaml, stale

STAGES = ("pretrain", "knn", "linear", "diagnostics")
RIGHT = ("knn", "linear")
Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Side:
    """Variant's parameters by dotted key, headline numbers by seed, processor, and learning curves.

    `stale` holds the reasons why the numbers do not belong to the parameters, as clauses; it is empty if they do.
    """

    name: str
    params: Mapping[str, Any]
    headlines: Mapping[str, HeadlineNumber]
    processors: tuple[str, ...]
    test_digest: str
    classes: float
    curves: Sequence[Mapping[str, float]]
    stale: Sequence[str]

    @property
    def seeds(self) -> list[int]:
        return sorted(next(iter(self.headlines.values())).values)


def repository(folder: Path) -> Path:
    """Repository of a folder: the folder itself or the nearest one above that has .dvc.

    Raises:
        InputError: when no such folder exists.
    """
    for place in (folder.resolve(), *folder.resolve().parents):
        if (place / ".dvc").is_dir():
            return place
    raise InputError(f"{folder.resolve()} is in no checkout of annulus (no .dvc there or above); give --root")


def side_files(root: Path, name: str) -> RevisionFiles:
    """Files of a side that a comparison reads.

    Raises:
        InputError: when the revision or experiment does not exist.
    """
    return workspace(root) if name == WORKSPACE else revision(root, name, READ)


def read_side(root: Path, name: str) -> Side:
    """Reads a side of the repository at `root`.

    Raises:
        InputError: when the revision or experiment does not exist, or lacks the main line's numbers by seed.
    """
    files = side_files(root, name)
    try:
        params = flat(read_yaml(files, "params.yaml"))
        stages = {stage: _read(files, f"{stage}.json", _parse_by_seed) for stage in STAGES}
        right = {stage: _read(files, f"{stage}_right.json", parse_right) for stage in RIGHT}
        processors = _read(files, "pretrain.json", _parse_processors)
        digest, classes = _read(files, "prepare.json", _parse_prepared)
        curves = _read(files, "pretrain_history.csv", _parse_curves)
        reasons = stale(files)
    except LookupError as error:
        raise InputError(
            f"{files.name} has no numbers of the main line by seed ({error.args[0]}); run `dvc repro` there"
        ) from error
    seeds = sorted({int(seed) for by_seed in stages.values() for seed in by_seed})
    try:
        return Side(
            files.name, params, headline_numbers(stages, right, seeds), processors, digest, classes, curves, reasons
        )
    except InputError as error:
        raise InputError(f"{files.name}: {error}") from error


def read_curves(files: RevisionFiles) -> list[dict[str, float]]:
    """Rows of pretraining's learning curves, each with its seed and epoch.

    Raises:
        InputError: when the file is missing, or holds no curves.
    """
    try:
        return _read(files, "pretrain_history.csv", _parse_curves)
    except LookupError as error:
        raise InputError(f"{files.name} has no learning curve ({error.args[0]}); run `dvc repro` there") from error


def _read(files: RevisionFiles, name: str, parse: Callable[[str], Parsed]) -> Parsed:
    """Parsed content of a metrics file."""
    text = files.text(f"metrics/main/{name}")
    try:
        return parse(text)
    except ValueError as error:
        short = " ".join(str(error).split())[:300]
        raise InputError(
            f"{files.name}: metrics/main/{name} is not a file of this version ({short}); run `dvc repro` there"
        ) from error


def _parse_by_seed(text: str) -> dict[str, dict[str, Any]]:
    content = parse_json(text)
    if not (isinstance(content, dict) and content and all(isinstance(numbers, dict) for numbers in content.values())):
        raise ValueError('no numbers by seed, as {"0": {...}}')
    if strange := [seed for seed in content if not re.fullmatch("0|[1-9][0-9]{0,18}", seed)]:
        raise ValueError(f"{strange[0][:40]!r} is not a seed")
    return content


def _parse_processors(text: str) -> tuple[str, ...]:
    return tuple(sorted({_text(numbers, "processor") for numbers in _parse_by_seed(text).values()}))


def _parse_prepared(text: str) -> tuple[str, float]:
    content = parse_json(text)
    return _text(content, "test_digest"), finite(content.get("classes"), "classes")


def _text(content: Any, name: str) -> str:
    value = content.get(name) if isinstance(content, dict) else None
    if not (isinstance(value, str) and len(value) <= 300 and value.isprintable()):
        raise ValueError(f"no {name} in a line of text")
    return value


def _parse_curves(text: str) -> list[dict[str, float]]:
    rows = parse_numbers(text)
    if not all({"seed", "epoch"} <= row.keys() for row in rows):
        raise ValueError("a row has no seed or no epoch")
    return rows
