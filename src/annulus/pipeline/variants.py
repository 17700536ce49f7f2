"""The main line's variants that this checkout holds: in the workspace, in DVC's experiments, in its branches.

The record is metrics/, and dvc.lock says which parameters made it. A file that is not the one of the lock belongs to a
run that did not finish, or was put there by hand: such a variant is not told of, since its parameters are unknown.
"""

import csv
import hashlib
import io
import json
import math
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from annulus.config import SECTION_OF
from annulus.errors import InputError
from annulus.files.regular import check_regular
from annulus.files.results import Number
from annulus.pipeline.checkout import git

LOCK, SUMMARY = "dvc.lock", "metrics/summary.json"
STAGES = ("prepare", "pretrain", "knn", "linear", "diagnostics")
NUMBERS = {stage: f"metrics/main/{stage}.json" for stage in STAGES}
CURVES = {stage: f"metrics/main/{stage}_history.csv" for stage in STAGES}
FILES = (LOCK, SUMMARY, *NUMBERS.values(), *CURVES.values())
MOST_SHOWN = 4  # differences in a name

_Yaml = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a lock has hundreds of lines

Curve = list[tuple[int, float]]  # epochs and values


@dataclass(frozen=True)
class Variant:
    """What a variant measured. Names of a stage's numbers and curves begin with the stage: `knn/top1_percent`.

    `numbers` holds the headline numbers with their intervals, `seeds` each seed's, and so do the curves: `curves` are
    means over seeds. `made` is in seconds since 1970.
    """

    params: dict[str, str]
    numbers: dict[str, Number]
    curves: dict[str, Curve]
    seeds: dict[str, dict[str, Number]]
    curves_of: dict[str, dict[str, Curve]]
    name: str
    commit: str | None
    experiment: str | None
    made: float

    @property
    def digest(self) -> str:
        """The same for the same parameters and numbers, wherever they are found."""
        content = [self.params, self.numbers, self.curves, self.seeds, self.curves_of]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def variants(root: Path) -> tuple[list[Variant], list[str]]:
    """Each variant once, DVC's experiments first, and a sentence for each that cannot be told of.

    A branch or experiment without a summary is none.
    """
    found: dict[str, Variant] = {}
    faults, head, base = [], git("rev-parse", "--verify", "-q", "HEAD", folder=root), None
    if head is not None and (files := _of_commit(root, head)).keys() >= {LOCK, SUMMARY}:
        base = _params(files)
    for name, commit, experiment, files in _places(root, head):
        if SUMMARY not in files:
            continue
        try:
            params = _params(files)
            words = [name, *_differences(params, base)]
            made = _made(root, None if name == "workspace" else commit)
            one = Variant(params, *_measured(files), " ".join(words), commit, experiment, made)
            found.setdefault(one.digest, one)
        except InputError as error:
            faults.append(f"{name}: {error}")
    return list(found.values()), faults


def _places(root: Path, head: str | None) -> Iterator[tuple[str, str | None, str | None, Mapping[str, bytes]]]:
    """Where variants may be: a name, the commit, an experiment's name, the files."""
    listed = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps", "refs/heads", folder=root) or ""
    for line in listed.splitlines():
        reference, commit = line.rsplit(" ", 1)
        kind, name = reference.split("/", 3)[1], reference.rsplit("/", 1)[1]
        if kind == "heads":
            name = f"{reference.removeprefix('refs/heads/')} {commit[:7]}"
        elif len(reference.split("/")) != 5:  # DVC's own: refs/exps/exec/EXEC_HEAD, stashes of its queue
            continue
        yield name, commit, name if kind == "exps" else None, _of_commit(root, commit)
    if head is not None:
        yield head[:7], head, None, _of_commit(root, head)
    yield "workspace", head, None, {name: content for name in FILES if (content := _content(root / name)) is not None}


def _content(path: Path) -> bytes | None:
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError:
        return None


def _of_commit(root: Path, commit: str) -> dict[str, bytes]:
    """The files that a commit has, by one call of git."""
    asked = "".join(f"{commit}:./{name}\n" for name in FILES)
    try:
        done = subprocess.run(["git", "cat-file", "--batch"], cwd=root, input=asked.encode(), capture_output=True)
    except OSError:
        return {}
    stream, found = io.BytesIO(done.stdout), {}
    for name in FILES:
        kind, _, size = stream.readline().decode().rstrip("\n").rpartition(" ")
        if kind.endswith(" blob"):
            found[name] = stream.read(int(size))
            stream.read(1)
    return found


def _made(root: Path, commit: str | None) -> float:
    if commit is None:
        return (root / SUMMARY).stat().st_mtime
    return float(git("show", "-s", "--format=%ct", commit, folder=root) or time.time())


def _params(files: Mapping[str, bytes]) -> dict[str, str]:
    """What the stages of the lock were given, as dotted names and text: samplers.ring.inner is samplers.inner, so that
    the columns are the same whichever sampler is selected.
    """
    found: dict[str, Any] = {}
    for stage in _stages(files).values():
        for name, value in stage.get("params", {}).get("params.yaml", {}).items():
            if name not in SECTION_OF.values():  # all samplers, which the diagnostics look at
                found[name] = value
    sections = {f"{section}.{found[word]}": section for word, section in SECTION_OF.items() if word in found}
    flat = {}
    for name, value in _leaves(found):
        chosen = next((one for one in sections if name == one or name.startswith(f"{one}.")), None)
        name = name if chosen is None else sections[chosen] + name.removeprefix(chosen)
        flat[name] = value if isinstance(value, str) else json.dumps(value)
    return dict(sorted(flat.items(), key=lambda pair: (pair[0] not in SECTION_OF, pair[0])))


def _leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _stages(files: Mapping[str, bytes]) -> Mapping[str, Any]:
    try:
        return yaml.load(files[LOCK], _Yaml)["stages"]
    except (KeyError, TypeError, ValueError, RecursionError, yaml.YAMLError):
        raise InputError(f"{LOCK} is missing or no lock of DVC; run `dvc repro`") from None


def _measured(files: Mapping[str, bytes]) -> tuple[Any, ...]:
    """Headline numbers, mean curves, each seed's numbers and curves.

    Raises:
        InputError: when a file is not the one that the lock names.
    """
    try:
        _check(files)
        numbers: dict[str, Number] = _finite(json.loads(files[SUMMARY]))
        seeds: dict[str, dict[str, Number]] = {}
        curves_of: dict[str, dict[str, Curve]] = {}
        for stage, name in NUMBERS.items():
            content = json.loads(files.get(name, b"{}"))
            if any(isinstance(value, dict) for value in content.values()):
                for seed, of_seed in content.items():
                    seeds.setdefault(seed, {}).update(_finite(of_seed, f"{stage}/"))
            else:
                numbers |= _finite(content, f"{stage}/")
            for row in csv.DictReader(files.get(CURVES[stage], b"").decode().splitlines()):
                curves, epoch = curves_of.setdefault(row.pop("seed"), {}), int(row.pop("epoch"))
                for column, text in row.items():
                    if text:
                        curves.setdefault(f"{stage}/{column}", []).append((epoch, float(text)))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"its numbers are not those of this version ({type(error).__name__}: {error})") from error
    for name, text in next(iter(seeds.values()), {}).items():  # the processor
        if isinstance(text, str) and all(of_seed.get(name) == text for of_seed in seeds.values()):
            numbers[name] = text
    return numbers, _means(curves_of), seeds, curves_of


def _check(files: Mapping[str, bytes]) -> None:
    named: dict[str, set[str]] = {}
    for stage in _stages(files).values():
        for entry in [*stage.get("deps", []), *stage.get("outs", [])]:
            if entry["path"] in FILES:
                named.setdefault(entry["path"], set()).add(entry["md5"])
    for name, digests in named.items():
        if name not in files or digests != {hashlib.md5(files[name]).hexdigest()}:
            reason = "differs from what dvc.lock names" if name in files else "is missing"
            raise InputError(f"{name} {reason}, as after a run that did not finish; run `dvc repro`")


def _finite(numbers: Mapping[str, Any], above: str = "") -> dict[str, Number]:
    for name, value in numbers.items():
        if not isinstance(value, Number) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"{above}{name} is {value!r}")
    return {f"{above}{name}": value for name, value in numbers.items()}


def _means(curves_of: Mapping[str, Mapping[str, Curve]]) -> dict[str, Curve]:
    """The mean over seeds, epoch by epoch."""
    found: dict[str, dict[int, list[float]]] = {}
    for curves in curves_of.values():
        for name, curve in curves.items():
            for epoch, value in curve:
                found.setdefault(name, {}).setdefault(epoch, []).append(value)
    return {name: [(epoch, fmean(values)) for epoch, values in epochs.items()] for name, epochs in found.items()}


def _differences(now: Mapping[str, str], base: Mapping[str, str] | None) -> list[str]:
    """What differs from the last commit, as `-S` takes it. Of another sampler, its own values say no more."""
    if base is None:
        return []
    changed = [name for name in now if now[name] != base.get(name)]
    told = tuple(f"{SECTION_OF[name]}." for name in changed if name in SECTION_OF)
    shown = [f"{name}={now[name]}" for name in changed if not name.startswith(told)]
    return [*shown[:MOST_SHOWN], "…"] if len(shown) > MOST_SHOWN else shown
