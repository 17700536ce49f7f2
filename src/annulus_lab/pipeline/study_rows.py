"""Results of the studies in the workspace: a variant for each row of their tables.

The record is stages/STUDY/metrics, and a study's dvc.lock names its tables. A table that differs from the lock is left
out, as a variant of the main line is.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.results import DECIMALS, Number
from annulus.running.checkout import git
from annulus_lab.pipeline.projects import repro
from annulus_lab.pipeline.revision import RevisionFiles, workspace
from annulus_lab.pipeline.variants import WRONG, Variant, check_locked, finite, lock_stages, reason

AXES = {"x", "step", "iteration"}  # a table with one of these columns is a curve: its rows are points, not results
TRUTH = "information_nats"  # the quantity that a row's bounds estimate; a setting, if it stands before them
TABLE = re.compile(r"stages/\w+/metrics/.+\.csv")


def study_rows(root: Path) -> tuple[dict[str, list[Variant]], list[str]]:
    """Rows of each study, and a sentence for each table and lock that is left out."""
    by_study, faults = {}, []
    files, commit = workspace(root), git("rev-parse", "--verify", "-q", "HEAD", folder=root)
    for study in _studies_with_locks(root):
        rows = {}
        try:
            outs = [out for out in _outputs(files, study) if TABLE.fullmatch(out["path"])]
        except WRONG as error:
            faults.append(f"stages/{study}/dvc.lock: {reason(error)}")
            continue
        for out in outs:
            try:
                content = None
                with suppress(LookupError):
                    content = files.content(out["path"])
                check_locked(out, content, repro(study))
                modified = (root / out["path"]).stat().st_mtime
                rows |= {row.digest: row for row in _rows(out["path"], content, commit, modified)}
            except (OSError, *WRONG) as error:
                place = "" if isinstance(error, InputError) else f"{out['path']}: "
                faults.append(f"study {study}: {place}{reason(error)}")
        if rows:
            by_study[study] = list(rows.values())
    return by_study, faults


def locked_outputs(root: Path) -> dict[str, Mapping[str, Any]]:
    """Outputs of all studies by path in the checkout, as their locks name them; leaves out unreadable locks."""
    files, outputs = workspace(root), {}
    for study in _studies_with_locks(root):
        with suppress(*WRONG):
            outputs |= {out["path"]: out for out in _outputs(files, study)}
    return outputs


def _studies_with_locks(root: Path) -> list[str]:
    """Studies that have a lock, readable or not."""
    return sorted(path.parent.name for path in root.glob("stages/*/dvc.lock"))


def _outputs(files: RevisionFiles, study: str) -> list[Mapping[str, Any]]:
    """Outputs in a study's lock, with their paths in the checkout."""
    folder = f"stages/{study}"
    stages = lock_stages(files.content(f"{folder}/dvc.lock")).values()
    return [{**out, "path": f"{folder}/{out['path']}"} for stage in stages for out in stage.get("outs", [])]


def _rows(path: str, content: bytes, commit: str | None, modified: float) -> Iterator[Variant]:
    """Rows of a table; nothing for a curve."""
    table = csv.DictReader(content.decode().splitlines())
    if AXES & set(table.fieldnames or ()):
        return
    for row in table:
        texts, numbers = _split_cells(row)
        name = " ".join([Path(path).stem, *texts.values()])
        yield Variant(name, commit, None, modified, {"file": path, **texts}, numbers, {}, {}, {})


def _split_cells(row: dict[str, str]) -> tuple[dict[str, str], dict[str, Number]]:
    """Cells before the first number with a unit or the number of seeds, which identify a row; and the other cells."""
    names = list(row)
    is_number = [name == "seeds" or (name.endswith(tuple(DECIMALS)) and name != TRUTH) for name in names]
    first = is_number.index(True) if True in is_number else len(names)
    texts = {name: row[name] for name in names[:first] if row[name]}
    return texts, finite({name: _number(row[name]) for name in names[first:] if row[name]})


def _number(text: str) -> Number:
    try:
        return float(text)
    except ValueError:
        return text
