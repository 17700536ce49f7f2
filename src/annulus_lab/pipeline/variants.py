"""Variants of the main line in this checkout: in the workspace, in DVC's experiments, in its branches.

The record is metrics/, and dvc.lock names the parameters that made it. A file that differs from the lock belongs to an
unfinished run, or somebody put it there. Such a variant is left out, since its parameters are unknown.
"""

import csv
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml

from annulus.errors import InputError
from annulus.files.results import Number
from annulus.running.checkout import git
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.pipeline.provenance import StageRecord, stage_records
from annulus_lab.pipeline.revision import WORKSPACE, RevisionFiles, objects, settled, workspace
from annulus_lab.pipeline.stale import flat

LOCK, SUMMARY = "dvc.lock", "metrics/summary.json"
STAGES = ("prepare", "pretrain", "knn", "linear", "diagnostics")
NUMBERS = {stage: f"metrics/main/{stage}.json" for stage in STAGES}
CURVES = {stage: f"metrics/main/{stage}_history.csv" for stage in STAGES}
FILES = (LOCK, SUMMARY, *NUMBERS.values(), *CURVES.values())
MOST_SHOWN = 4  # differences in a name
WRONG = (LookupError, TypeError, AttributeError, RecursionError, ValueError, yaml.YAMLError)  # errors of other files

_Yaml = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a lock has hundreds of lines

Curve = list[tuple[int, float]]  # epochs and values


@dataclass(frozen=True)
class Variant:
    """Results of a variant. Names of a stage's numbers and curves begin with the stage: `knn/top1_percent`.

    `numbers` holds the headline numbers with their intervals, `seeds` the numbers of each seed. `curves` holds means
    over seeds, `seed_curves` the curves of each seed. `modified` is in seconds since 1970. `seconds` is the time of the
    stages that measured; 0 if this machine's records are of other numbers.
    """

    name: str
    commit: str | None
    experiment: str | None
    modified: float
    params: dict[str, str]
    numbers: dict[str, Number]
    curves: dict[str, Curve]
    seeds: dict[str, dict[str, Number]]
    seed_curves: dict[str, dict[str, Curve]]
    seconds: float = 0.0

    @property
    def digest(self) -> str:
        """Hash of parameters and numbers, equal wherever the same variant is stored."""
        content = [self.params, self.numbers, self.curves, self.seeds, self.seed_curves]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def variants(root: Path) -> tuple[list[Variant], list[str]]:
    """Each variant once, DVC's experiments first, and a sentence for each variant that is left out.

    Branches and experiments without a summary are skipped.
    """
    by_digest: dict[str, Variant] = {}
    faults, places = [], [place for place in _places(root) if SUMMARY in place.files]
    head = git("rev-parse", "--verify", "-q", "HEAD", folder=root)
    records = {record.stage: record for record in stage_records(root)}
    base: dict[str, str] | None = None
    with suppress(*WRONG):
        base = next((_params(one.files) for one in places if one.commit == head and one.name != WORKSPACE), None)
    for place in places:
        try:
            params = _params(place.files)
            name = " ".join([place.name, *([] if base is None else _differences(params, base))])
            results, seconds = _results(place.files), _seconds(place.files, records)
            one = Variant(name, place.commit, place.experiment, place.modified, params, *results, seconds)
            by_digest.setdefault(one.digest, one)
        except WRONG as error:
            faults.append(f"{place.name}: {reason(error)}")
    return list(by_digest.values()), faults


def workspace_digest(root: Path) -> str | None:
    """Digest of the workspace's variant; None without one.

    Raises:
        InputError: when a file differs from the lock; also other errors of WRONG.
    """
    place = next((one for one in _places(root) if one.name == WORKSPACE and SUMMARY in one.files), None)
    if place is None:
        return None
    return Variant("", None, None, 0.0, _params(place.files), *_results(place.files)).digest


def reason(error: Exception) -> str:
    """Line for an error of WRONG."""
    sentence = error if isinstance(error, InputError) else f"not this version's ({type(error).__name__}: {error})"
    return " ".join(str(sentence).split())


class _Place(NamedTuple):
    name: str
    commit: str | None
    experiment: str | None
    modified: float
    files: Mapping[str, bytes]


def _places(root: Path) -> Iterator[_Place]:
    """Places that may hold variants: DVC's experiments, branches, the commit of HEAD, the workspace."""
    form = "%(refname) %(objectname) %(committerdate:unix)"
    references = git("for-each-ref", f"--format={form}", "refs/exps", "refs/heads", folder=root) or ""
    head = git("log", "-1", "--no-show-signature", "--format=HEAD %H %ct", folder=root) or ""
    commits = set()
    for line in filter(None, [*references.splitlines(), head]):
        reference, commit, modified = line.split()
        branch = reference.removeprefix("refs/heads/")
        if reference == "HEAD":
            if commit in commits:
                continue
            name, experiment = commit[:7], None
        elif branch != reference:
            name, experiment = f"{branch} {commit[:7]}", None
        elif reference.count("/") == 4:
            name = experiment = reference.rsplit("/", 1)[1]
        else:  # DVC's own: refs/exps/exec/EXEC_HEAD, stashes of its queue
            continue
        commits.add(commit)
        blobs = {path: f"{commit}:./{path}" for path in FILES}
        yield _Place(name, commit, experiment, float(modified), _contents(objects(root, blobs, name)))
    files = _contents(workspace(root))
    if SUMMARY in files:
        yield _Place(WORKSPACE, head[5:45] or None, None, (root / SUMMARY).stat().st_mtime, files)


def _contents(files: RevisionFiles) -> dict[str, bytes]:
    contents = {}
    for name in FILES:
        with suppress(LookupError):
            contents[name] = files.content(name)
    return contents


def _params(files: Mapping[str, bytes]) -> dict[str, str]:
    """Parameters of the lock's stages, as dotted names and text, the selectors first.

    samplers.ring.inner becomes samplers.inner, so that every sampler has the same columns.
    """
    locked: dict[str, Any] = {}
    for stage in _stages(files).values():
        locked |= stage.get("params", {}).get("params.yaml", {})
    texts = {}
    for name, value in flat(locked).items():
        if value == {}:  # the uniform sampler has no settings
            continue
        section, *rest = name.split(".")
        word = next((word for word in SELECTOR_SECTIONS if SELECTOR_SECTIONS[word] == section), None)
        if word in locked:  # the stage `diagnostics` reads all samplers
            if rest[0] != locked[word]:
                continue
            name = ".".join([section, *rest[1:]])
        texts[name] = value if isinstance(value, str) else json.dumps(value)
    return dict(sorted(texts.items(), key=lambda pair: (pair[0] not in SELECTOR_SECTIONS, pair[0])))


def _stages(files: Mapping[str, bytes]) -> Mapping[str, Any]:
    if LOCK not in files:
        raise InputError(f"{LOCK} is missing; run `dvc repro`")
    return lock_stages(files[LOCK])


def lock_stages(lock: bytes) -> Mapping[str, Any]:
    """Stages of a DVC lock, each with its inputs and outputs; raises an error of WRONG for another file."""
    return yaml.load(settled(lock.decode(), LOCK), _Yaml)["stages"]


def _results(files: Mapping[str, bytes]) -> tuple[Any, ...]:
    """Headline numbers, mean curves, numbers by seed, and curves by seed.

    Raises:
        InputError: when a file differs from the lock.
        ValueError: when a file holds something else; also other errors of WRONG.
    """
    _check(files)
    numbers, seeds, seed_curves, points = finite(json.loads(files[SUMMARY])), {}, {}, {}
    for stage in STAGES:
        content = json.loads(files.get(NUMBERS[stage], b"{}"))
        if any(isinstance(value, dict) for value in content.values()):
            for seed, seed_numbers in content.items():
                seeds.setdefault(seed, {}).update(finite(seed_numbers, f"{stage}/"))
        else:
            numbers |= finite(content, f"{stage}/")
        for row in csv.DictReader(files.get(CURVES[stage], b"").decode().splitlines()):
            seed, epoch = row.pop("seed"), int(row.pop("epoch"))
            for name, value in ((f"{stage}/{column}", float(text)) for column, text in row.items() if text):
                seed_curves.setdefault(seed, {}).setdefault(name, []).append((epoch, value))
                points.setdefault(name, {}).setdefault(epoch, []).append(value)
    means = {name: [(epoch, fmean(values)) for epoch, values in epochs.items()] for name, epochs in points.items()}
    texts = [{pair for pair in seed_numbers.items() if isinstance(pair[1], str)} for seed_numbers in seeds.values()]
    numbers |= dict(set.intersection(*texts)) if texts else {}  # text that all seeds share: the processor
    return numbers, means, seeds, seed_curves


def _seconds(files: Mapping[str, bytes], records: Mapping[str, StageRecord]) -> float:
    total = 0.0
    for stage in STAGES:
        digest = hashlib.sha256(files.get(NUMBERS[stage], b"")).hexdigest()
        record = records.get(stage)
        if record is None or record.files.get(f"data/main/numbers/{stage}.json") != digest:
            return 0.0
        total += record.seconds
    return total


def _check(files: Mapping[str, bytes]) -> None:
    for stage in _stages(files).values():
        for entry in [*stage.get("deps", []), *stage.get("outs", [])]:
            if entry["path"] in FILES:
                check_locked(entry, files.get(entry["path"]))


def check_locked(entry: Mapping[str, Any], content: bytes | None, made_by: str = "dvc repro") -> None:
    """Compares a file (None: missing) with a lock's entry.

    Raises:
        InputError: when they differ, with the command that makes the file.
    """
    if content is None or hashlib.md5(content).hexdigest() != entry["md5"]:
        reason = "is missing" if content is None else "differs from dvc.lock"
        raise InputError(f"{entry['path']} {reason}, as after a run that did not finish; run `{made_by}`")


def finite(numbers: Mapping[str, Any], above: str = "") -> dict[str, Number]:
    """Numbers and text, with `above` before their names; raises ValueError for other values, NaN and infinities."""
    for name, value in numbers.items():
        if not isinstance(value, Number) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"{above}{name} is {value!r}")
    return {f"{above}{name}": value for name, value in numbers.items()}


def _differences(now: Mapping[str, str], base: Mapping[str, str]) -> list[str]:
    """Parameters that differ from the last commit, as options of `-S`; without the settings of a new sampler."""
    changed = [name for name in now if now[name] != base.get(name)]
    sections = tuple(f"{SELECTOR_SECTIONS[name]}." for name in changed if name in SELECTOR_SECTIONS)
    differences = [f"{name}={now[name]}" for name in changed if not name.startswith(sections)]
    return [*differences[:MOST_SHOWN], "…"] if len(differences) > MOST_SHOWN else differences
