"""Differences between the parameters and code that made the main line's metrics, by dvc.lock, and the present ones.

DVC says the same of a checkout that has the data (`dvc status`); this reads only committed files.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from annulus.config.file import parse_tree
from annulus.config.params import SECTION_OF
from annulus.errors import InputError
from annulus.pipeline.revision import Files, workspace

READ = (
    "params.yaml",
    "dvc.yaml",
    "dvc.lock",
    "src/annulus",
    "stages",
    "metrics/main",
    "metrics/summary.json",
    "metrics/summary.csv",
)
MOST_NAMED = 4
MOST_VALUES = 100_000  # anchors of YAML make a short file endless


def stale(files: Files) -> list[str]:
    """Reasons why metrics do not belong to the parameters and the code beside them, as clauses after "head's"; or none.

    `files` has the paths of READ.

    Raises:
        InputError: when params.yaml, dvc.yaml or dvc.lock cannot be read.
    """
    try:
        files.content("dvc.lock")
    except LookupError:
        return ["dvc.lock is missing, so nothing says what the metrics were made with"]
    try:
        params, pipeline, lock = (read_yaml(files, name) for name in ("params.yaml", "dvc.yaml", "dvc.lock"))
        return list(_clauses(files, params, pipeline["stages"], lock.get("stages", {})))
    except (LookupError, TypeError, AttributeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{files.name}: dvc.yaml and dvc.lock are not of DVC ({reason}); run `dvc repro`") from error


def read_yaml(files: Files, name: str) -> dict[str, Any]:
    """The keys and values of a YAML file.

    Raises:
        LookupError: when it is missing.
        InputError: when it holds something else, or too much.
    """
    tree = parse_tree(files.text(name), f"{files.name}: {name}")
    left, met = [tree], 0
    while left:
        part, met = left.pop(), met + 1
        left += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if met > MOST_VALUES:
            raise InputError(f"{files.name}: {name} holds more than {MOST_VALUES:,} values, as no such file does")
    return tree


def flat(tree: Any, name: str = "") -> dict[str, Any]:
    """A tree's values under dotted keys."""
    if not isinstance(tree, dict) or not tree:
        return {name: tree}
    flattened: dict[str, Any] = {}
    for key, value in tree.items():
        flattened |= flat(value, f"{name}.{key}" if name else str(key))
    return flattened


def _clauses(files: Files, params: Mapping, stages: Mapping, locked: Mapping) -> Iterator[str]:
    if absent := [name for name in stages if name not in locked]:
        yield f"dvc.lock names no run of {', '.join(absent)}"
    stages = {name: stage for name, stage in stages.items() if name in locked}
    values = _other_values(params, stages, locked)
    # With another sampler, the sampler's own values say no more.
    sections = tuple(f"{SECTION_OF[key]}." for key in values if key in SECTION_OF)
    chosen = sorted((key for key in values if not key.startswith(sections)), key=lambda key: ("." in key, key))
    differences = [
        f"{key}: {values[key] if isinstance(values[key], str) else json.dumps(values[key])}" for key in chosen
    ]
    differences += sorted(_other_inputs(files, stages, locked))
    differences += [
        f"another command of {name}"
        for name, stage in stages.items()
        if "cmd" in locked[name] and stage["cmd"].split() != locked[name]["cmd"].split()
    ]
    written = {out["path"]: out.get("md5") for name in stages for out in locked[name].get("outs", [])}
    differences += [
        f"a {name} that wrote no {path}"
        for name, stage in stages.items()
        for path in _outputs(stage)
        if path not in written
    ]
    if differences:
        more = f" and {len(differences) - MOST_NAMED} more" if len(differences) > MOST_NAMED else ""
        yield f"metrics were made with {', '.join(differences[:MOST_NAMED])}{more}"
    for path in (path for stage in stages.values() for path, in_git in _outputs(stage).items() if in_git):
        if path not in written:
            continue
        try:
            same = hashlib.md5(files.content(path)).hexdigest() == written[path]
        except LookupError:
            same = False
        if not same:
            yield f"{path} is not the file that dvc.lock names"


def _other_values(params: Mapping, stages: Mapping, locked: Mapping) -> dict[str, Any]:
    """The values that stages were given and would not be given now, by dotted keys."""
    differences: dict[str, Any] = {}
    for name, stage in stages.items():
        given, asked = {}, {}
        for key, value in locked[name].get("params", {}).get("params.yaml", {}).items():
            given |= flat(value, key)
        for key in (filled(key, params) for key in stage.get("params", [])):
            asked |= flat(value_at(params, key), key)
        differences |= {key: value for key, value in given.items() if key not in asked or asked[key] != value}
        differences |= {key: None for key, value in asked.items() if key not in given and value is not None}
    return differences


def _other_inputs(files: Files, stages: Mapping, locked: Mapping) -> set[str]:
    """Changed inputs of stages: code, or the output of an earlier stage that ran again by itself."""
    written = {out["path"]: out.get("md5") for stage in locked.values() for out in stage.get("outs", [])}
    changes = set()
    for name, stage in stages.items():
        read = {given["path"]: given.get("md5") for given in locked[name].get("deps", [])}
        for path in stage.get("deps", []):
            if path in written and read.get(path) != written[path]:
                changes.add(f"another {path}")
            elif path not in written and read.get(path) != _md5(files, path):
                changes.add(f"other code in {path}")
    return changes


def _md5(files: Files, path: str) -> str:
    """DVC's digest of a file, or of a folder and its content."""
    with suppress(LookupError):
        return hashlib.md5(files.content(path)).hexdigest()
    names = sorted(files.below(path))
    return _of_folder({name.removeprefix(f"{path}/"): hashlib.md5(files.content(name)).hexdigest() for name in names})


def _of_folder(digests: Mapping[str, str]) -> str:
    listed = [{"md5": digest, "relpath": name} for name, digest in digests.items()]
    return f"{hashlib.md5(json.dumps(listed, sort_keys=True).encode()).hexdigest()}.dir"


def is_locked(root: Path, stage: str, output: str) -> bool:
    """True where the folder that a stage of the main line wrote is the one that dvc.lock names.

    A branch that is switched to, and `make restore`, change dvc.lock and leave data/ as it is.
    """
    digests = {}
    for path in sorted((root / output).rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digests[path.relative_to(root / output).as_posix()] = hashlib.file_digest(file, "md5").hexdigest()
    try:
        outs = read_yaml(workspace(root), "dvc.lock")["stages"][stage]["outs"]
        locked = {out["path"]: out.get("md5") for out in outs}
    except (LookupError, TypeError, AttributeError):  # no lock, or none of DVC
        return False
    return locked.get(output) == _of_folder(digests)


def is_other(root: Path, output: str) -> bool:
    """True for a file of the main line, which DVC keeps and git does not, that is not the one that dvc.lock names."""
    try:
        content, stages = (root / output).read_bytes(), read_yaml(workspace(root), "dvc.lock")["stages"]
        locked = {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])}
    except (OSError, InputError, LookupError, TypeError, AttributeError):  # no such file, or no lock of DVC
        return False
    return output in locked and locked[output] != hashlib.md5(content).hexdigest()


def _outputs(stage: Mapping) -> dict[str, bool]:
    """The outputs of a stage, with True for those that git keeps, and not DVC."""
    entries = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
    options = [entry if isinstance(entry, dict) else {entry: {}} for entry in entries]
    return {path: how.get("cache") is False for one in options for path, how in one.items()}


def filled(key: str, params: Mapping) -> str:
    """A key of dvc.yaml, such as samplers.${sampler}, with its selectors filled in."""
    return re.sub(r"\$\{(\w+)\}", lambda match: str(params.get(match[1])), key)


def value_at(tree: Any, key: str) -> Any:
    """The value under a dotted key, or None."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree
