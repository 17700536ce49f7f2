"""What one side of a comparison holds: a git revision, a DVC experiment, or the workspace."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from annulus.errors import InputError
from annulus.files.right import parse_right
from annulus.headlines import Measured, measured
from annulus.pipeline.checkout import git

WORKSPACE = "workspace"
STAGES = ("pretrain", "knn", "linear", "diagnostics")


@dataclass(frozen=True)
class Side:
    """A variant's parameters by dotted key, its headline numbers by seed, what computed it, its learning curves."""

    name: str
    params: Mapping[str, Any]
    headlines: Mapping[str, Measured]
    processors: tuple[str, ...]
    test_digest: str
    curves: list[dict[str, str]]

    @property
    def seeds(self) -> list[int]:
        return sorted(next(iter(self.headlines.values())).values)


def read_side(root: Path, name: str) -> Side:
    """Read a side of the repository at `root`.

    Raises:
        InputError: when there is no such revision or experiment, or it lacks the main line's numbers by seed.
    """
    where, text = _reader(root, name)
    try:
        stages = {stage: json.loads(text(f"metrics/main/{stage}.json")) for stage in STAGES}
        right = {stage: parse_right(text(f"metrics/main/{stage}_right.json")) for stage in ("knn", "linear")}
        seeds = sorted({int(seed) for by_seed in stages.values() for seed in by_seed}) or [0]  # which is asked for
        return Side(
            where,
            dict(flat(yaml.safe_load(text("params.yaml")))),
            measured(stages, right, seeds),
            tuple(sorted({str(found["processor"]) for found in stages["pretrain"].values()})),
            str(json.loads(text("metrics/main/prepare.json"))["test_digest"]),
            list(csv.DictReader(io.StringIO(text("metrics/main/pretrain_history.csv")))),
        )
    except (LookupError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{where} has no numbers of the main line by seed ({reason}); run `dvc repro` there and commit metrics/"
        ) from error


def flat(tree: Any, name: str = "") -> list[tuple[str, Any]]:
    """A tree's values under dotted keys."""
    if not isinstance(tree, dict) or not tree:
        return [(name, tree)]
    return [pair for key, value in tree.items() for pair in flat(value, f"{name}.{key}" if name else str(key))]


def _reader(root: Path, name: str) -> tuple[str, Callable[[str], str]]:
    """How the side is called, and what reads a file of it."""
    if name == WORKSPACE:

        def from_disk(path: str) -> str:
            try:
                return (root / path).read_text(encoding="utf-8")
            except OSError as error:
                raise LookupError(f"{path}: {error.strerror}") from error

        return WORKSPACE, from_disk
    commit = _commit(root, name)

    def from_git(path: str) -> str:
        content = git("show", f"{commit}:{path}", folder=root)
        if content is None:
            raise LookupError(f"no {path}")
        return content

    return f"{name} ({commit[:7]})", from_git


def _commit(root: Path, name: str) -> str:
    """The commit of a revision, or of the experiment that has this name."""
    commit = git("rev-parse", "--verify", "-q", f"{name}^{{commit}}", folder=root)
    if commit is not None:
        return commit
    listed = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps", folder=root) or ""
    experiments = dict(line.rsplit(" ", 1) for line in listed.splitlines())
    found = {commit for reference, commit in experiments.items() if reference.rsplit("/", 1)[1] == name}
    if len(found) == 1:
        return found.pop()
    known = sorted({reference.rsplit("/", 1)[1] for reference in experiments if "/exec/" not in reference})
    raise InputError(
        f"{name!r} is no git revision and {'more than one' if found else 'no'} DVC experiment; give a revision, "
        f"{WORKSPACE}, or one of the experiments here: {', '.join(known) or 'there are none'}"
    )
