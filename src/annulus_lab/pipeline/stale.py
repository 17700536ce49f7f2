"""Differences between the present parameters and code and those in dvc.lock, which made the main line's metrics.

`dvc status` needs the data and compares the workspace only. For another revision `git checkout` and a DVC command would
take seconds. This module reads only committed files.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.config.tree import parse_tree
from annulus_lab.pipeline.revision import RevisionFiles, workspace

STAGES = ("check", "prepare", "pretrain", "embed", "knn", "linear", "diagnostics", "summary")
READ = (
    "params.yaml",
    "dvc.yaml",
    "dvc.lock",
    "src/annulus",
    *(f"stages/{name}.py" for name in STAGES),
    "metrics/main",
    "metrics/summary.json",
    "metrics/summary.csv",
)
CODE = ("src/", "stages/")
MOST_NAMED = 4
MOST_VALUES = 100_000  # YAML's anchors can make a short file endless


def stale(files: RevisionFiles) -> list[str]:
    """Reasons why the metrics do not belong to the parameters and the code beside them; empty if they do.

    The reasons are clauses that follow "head's". `files` has the paths of READ.

    Raises:
        InputError: when params.yaml, dvc.yaml or dvc.lock cannot be read.
    """
    try:
        files.content("dvc.lock")
    except LookupError:
        return ["dvc.lock is missing, so the parameters of the metrics are unknown"]
    try:
        params, pipeline, lock = (read_yaml(files, name) for name in ("params.yaml", "dvc.yaml", "dvc.lock"))
        return list(_clauses(files, params, pipeline["stages"], lock.get("stages", {})))
    except (LookupError, TypeError, AttributeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{files.name}: dvc.yaml and dvc.lock are not of DVC ({reason}); run `dvc repro`") from error


def read_yaml(files: RevisionFiles, name: str) -> dict[str, Any]:
    """Keys and values of a YAML file.

    Raises:
        LookupError: when it is missing.
        InputError: when it holds something else, or too many values.
    """
    tree = parse_tree(files.text(name), f"{files.name}: {name}")
    stack, count = [tree], 0
    while stack:
        part, count = stack.pop(), count + 1
        stack += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if count > MOST_VALUES:
            raise InputError(f"{files.name}: {name} holds more than {MOST_VALUES:,} values, as no such file does")
    return tree


def flat(tree: Any, name: str = "") -> dict[str, Any]:
    """Values of a tree under dotted keys."""
    if not isinstance(tree, dict) or not tree:
        return {name: tree}
    flattened: dict[str, Any] = {}
    for key, value in tree.items():
        flattened |= flat(value, f"{name}.{key}" if name else str(key))
    return flattened


def _clauses(files: RevisionFiles, params: Mapping, stages: Mapping, locked: Mapping) -> Iterator[str]:
    if absent := [name for name in stages if name not in locked]:
        yield f"dvc.lock names no run of {', '.join(absent)}"
    stages = {name: stage for name, stage in stages.items() if name in locked}
    values = _other_values(params, stages, locked)
    # The values of a changed sampler would repeat the change of the sampler.
    sections = tuple(f"{SELECTOR_SECTIONS[key]}." for key in values if key in SELECTOR_SECTIONS)
    keys = sorted((key for key in values if not key.startswith(sections)), key=lambda key: ("." in key, key))
    differences = [f"{key}: {values[key] if isinstance(values[key], str) else json.dumps(values[key])}" for key in keys]
    differences += sorted(_other_inputs(files, stages, locked))
    differences += [
        f"another command of {name}"
        for name, stage in stages.items()
        if "cmd" in locked[name] and stage["cmd"].split() != locked[name]["cmd"].split()
    ]
    output_digests = {out["path"]: out.get("md5") for name in stages for out in locked[name].get("outs", [])}
    differences += [
        f"a {name} that wrote no {path}"
        for name, stage in stages.items()
        for path in _outputs(stage)
        if path not in output_digests
    ]
    if differences:
        yield f"metrics were made with {_join(differences)}"
    in_git = [path for stage in stages.values() for path, is_in_git in _outputs(stage).items() if is_in_git]
    others = [path for path in in_git if path in output_digests and not _has_digest(files, path, output_digests[path])]
    if len(others) == 1:
        yield f"{others[0]} differs from dvc.lock"
    elif others:
        yield f"files differ from dvc.lock: {_join(others)}"


def _join(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _has_digest(files: RevisionFiles, path: str, digest: str) -> bool:
    """Returns True if the file exists and has this MD5."""
    try:
        return hashlib.md5(files.content(path)).hexdigest() == digest
    except LookupError:
        return False


def _other_values(params: Mapping, stages: Mapping, locked: Mapping) -> dict[str, Any]:
    """Values that dvc.lock records for the stages and that differ from the present ones, by dotted keys."""
    differences: dict[str, Any] = {}
    for name, stage in stages.items():
        recorded, current = {}, {}
        for key, value in locked[name].get("params", {}).get("params.yaml", {}).items():
            recorded |= flat(value, key)
        for key in (filled(key, params) for key in stage.get("params", [])):
            current |= flat(value_at(params, key), key)
        differences |= {key: value for key, value in recorded.items() if key not in current or current[key] != value}
        differences |= {key: None for key, value in current.items() if key not in recorded and value is not None}
    return differences


def _other_inputs(files: RevisionFiles, stages: Mapping, locked: Mapping) -> set[str]:
    """Changed inputs of stages: code, or the output of an earlier stage that ran again by itself.

    Stages depend on parts of the output of `check`. Git does not keep this output. The code is an input of `check`.
    """
    output_digests = {out["path"]: out.get("md5") for stage in locked.values() for out in stage.get("outs", [])}
    changes = set()
    for name, stage in stages.items():
        input_digests = {entry["path"]: entry.get("md5") for entry in locked[name].get("deps", [])}
        for path in stage.get("deps", []):
            if path in output_digests and input_digests.get(path) != output_digests[path]:
                changes.add(f"another {path}")
            elif path.startswith(CODE) and input_digests.get(path) != _md5(files, path):
                changes.add(f"other code in {path}")
    return changes


def _md5(files: RevisionFiles, path: str) -> str:
    """DVC's digest of a file, or of a folder and its content."""
    with suppress(LookupError):
        return hashlib.md5(files.content(path)).hexdigest()
    names = sorted(files.below(path))
    return _folder_digest(
        {name.removeprefix(f"{path}/"): hashlib.md5(files.content(name)).hexdigest() for name in names}
    )


def _folder_digest(digests: Mapping[str, str]) -> str:
    entries = [{"md5": digest, "relpath": name} for name, digest in digests.items()]
    return f"{hashlib.md5(json.dumps(entries, sort_keys=True).encode()).hexdigest()}.dir"


def is_locked(root: Path, stage: str, output: str) -> bool:
    """Returns True if a folder of a main-line stage has the digest that dvc.lock names.

    A switch of branches and `make restore` change dvc.lock and leave data/ as it is.
    """
    digests = {}
    for path in sorted((root / output).rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digests[path.relative_to(root / output).as_posix()] = hashlib.file_digest(file, "md5").hexdigest()
    try:
        outs = read_yaml(workspace(root), "dvc.lock")["stages"][stage]["outs"]
        locked = {out["path"]: out.get("md5") for out in outs}
    except (LookupError, TypeError, AttributeError):  # no lock of DVC
        return False
    return locked.get(output) == _folder_digest(digests)


def is_other(root: Path, output: str) -> bool:
    """Returns True if a main-line file that DVC keeps exists and differs from the one that dvc.lock names."""
    try:
        content, stages = (root / output).read_bytes(), read_yaml(workspace(root), "dvc.lock")["stages"]
        locked = {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])}
    except (OSError, InputError, LookupError, TypeError, AttributeError):  # no such file, or no lock of DVC
        return False
    return output in locked and locked[output] != hashlib.md5(content).hexdigest()


def _outputs(stage: Mapping) -> dict[str, bool]:
    """Outputs of a stage; True marks an output that git keeps in place of DVC."""
    entries = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
    options = [entry if isinstance(entry, dict) else {entry: {}} for entry in entries]
    return {path: how.get("cache") is False for one in options for path, how in one.items()}


def filled(key: str, params: Mapping) -> str:
    """Key of dvc.yaml, such as samplers.${sampler}, with its selectors filled in."""
    return re.sub(r"\$\{(\w+)\}", lambda match: str(params.get(match[1])), key)


def value_at(tree: Any, key: str) -> Any:
    """Value under a dotted key, or None."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree
