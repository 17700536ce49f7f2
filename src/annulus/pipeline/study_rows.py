"""The studies' results in the workspace, a variant for each row of their tables.

The record is metrics/, and a study's dvc.lock names the tables that it made. A table that differs from the lock's is
left out, as with the main line's variants.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.results import DECIMALS, Number
from annulus.pipeline.revision import workspace
from annulus.pipeline.variants import WRONG, Variant, check_locked, finite, reason, stages_of
from annulus.running.checkout import git

AXES = {"x", "step", "iteration"}  # a table with one of these columns is a curve: its rows are points, not results
TRUTH = "information_nats"  # what a row's bounds estimate; where it comes before them, it was chosen
TABLE = re.compile(r"metrics/.+\.csv")


def study_rows(root: Path) -> tuple[dict[str, list[Variant]], list[str]]:
    """Rows of each study, and a sentence for each table and lock that had to be left out."""
    by_study, faults = {}, []
    files, commit = workspace(root), git("rev-parse", "--verify", "-q", "HEAD", folder=root)
    for path in sorted(root.glob("stages/*/dvc.lock")):
        study, rows = path.parent.name, {}
        try:
            stages = stages_of(files.content(f"stages/{study}/dvc.lock")).values()
            outs = [out for stage in stages for out in stage.get("outs", []) if TABLE.fullmatch(out["path"])]
        except WRONG as error:
            faults.append(f"stages/{study}/dvc.lock: {reason(error)}")
            continue
        for out in outs:
            try:
                content = None
                with suppress(LookupError):
                    content = files.content(out["path"])
                check_locked(out, content, f"dvc repro stages/{study}/dvc.yaml")
                made = (root / out["path"]).stat().st_mtime
                rows |= {row.digest: row for row in _rows(out["path"], content, commit, made)}
            except (OSError, *WRONG) as error:
                place = "" if isinstance(error, InputError) else f"{out['path']}: "
                faults.append(f"study {study}: {place}{reason(error)}")
        if rows:
            by_study[study] = list(rows.values())
    return by_study, faults


def locked_outputs(root: Path) -> dict[str, Mapping[str, Any]]:
    """The outputs of all studies by path, as their locks name them; of a lock that cannot be read, none."""
    files, outputs = workspace(root), {}
    for path in sorted(root.glob("stages/*/dvc.lock")):
        with suppress(*WRONG):
            stages = stages_of(files.content(path.relative_to(root).as_posix()))
            outputs |= {out["path"]: out for stage in stages.values() for out in stage.get("outs", [])}
    return outputs


def _rows(path: str, content: bytes, commit: str | None, made: float) -> Iterator[Variant]:
    """The rows of a table, none of a curve."""
    table = csv.DictReader(content.decode().splitlines())
    if AXES & set(table.fieldnames or ()):
        return
    for row in table:
        texts, numbers = _divided(row)
        name = " ".join([Path(path).stem, *texts.values()])
        yield Variant(name, commit, None, made, {"file": path, **texts}, numbers, {}, {}, {})


def _divided(row: dict[str, str]) -> tuple[dict[str, str], dict[str, Number]]:
    """Identifying cells of a row, up to the first number with a unit or the number of seeds; and the other cells."""
    names = list(row)
    measured = [name == "seeds" or (name.endswith(tuple(DECIMALS)) and name != TRUTH) for name in names]
    first = measured.index(True) if True in measured else len(names)
    texts = {name: row[name] for name in names[:first] if row[name]}
    return texts, finite({name: _number(row[name]) for name in names[first:] if row[name]})


def _number(text: str) -> Number:
    try:
        return float(text)
    except ValueError:
        return text
