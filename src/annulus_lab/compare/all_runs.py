"""All runs as one table for other programs: setting, seed and numbers of each run, as CSV or Parquet.

The main line has a row for each seed of HEAD, of the workspace if it differs, and of every DVC experiment. A study has
a row for each seed if its metrics/ has files by seed. Otherwise it has the rows of its tables, which are means over
seeds; `seeds` is their number.
"""

import csv
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.results import all_rounded, atomic_write, read_metrics, write_text
from annulus_lab.compare.sides import Side, read_side
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.pipeline.projects import repro
from annulus_lab.pipeline.revision import WORKSPACE
from annulus_lab.pipeline.study_rows import locked_outputs, study_rows
from annulus_lab.pipeline.variants import check_locked

RunRow = dict[str, Any]
KEYS = {"study": str, "run": str, "setting": str, "seed": int}  # identify a row; all other columns are its numbers
ENDINGS = (".csv", ".parquet")

log = logging.getLogger("annulus")


def write_all_runs(root: Path, names: Sequence[tuple[str, str]], file: Path) -> int:
    """Writes all runs of the checkout `root` to `file`; returns their number.

    `names`: names and revisions of the main line's runs. A revision whose numbers do not belong to its parameters and
    code is left out, with a warning. A missing number is an empty cell, or null.

    Raises:
        InputError: when the file does not end in .csv or .parquet, pyarrow is missing for Parquet, a metrics file is
            damaged, or the disk is full.
    """
    if file.suffix not in ENDINGS:
        raise InputError(f"{file} ends in {file.suffix!r}; name a file that ends in {' or '.join(ENDINGS)}")
    if file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError(f"{file} is Parquet, which needs pyarrow: pip install pyarrow, or name a file in .csv")
    rows = [*_main_line(root, names), *_seed_rows(root)]
    known = {row["study"] for row in rows}
    rows += _table_rows(root, known)
    if not rows:
        raise InputError(f"{root} holds no runs; run `dvc repro`, or `git checkout metrics`")
    columns = [*KEYS, *sorted({name for row in rows for name in row} - set(KEYS))]
    if file.suffix == ".csv":
        text = io.StringIO()
        table = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_text(file, text.getvalue())
    else:
        _write_parquet(file, rows, columns)
    return len(rows)


def _main_line(root: Path, names: Sequence[tuple[str, str]]) -> Iterator[RunRow]:
    base: Side | None = None
    head_rows: list[RunRow] = []
    for name, revision in names:
        try:
            side = read_side(root, revision)
        except InputError as error:
            log.warning("WARNING: %s is left out: %s", name, error)
            continue
        if side.stale:
            log.warning("WARNING: %s is left out: %s", name, side.stale[0])
            continue
        base = base or side
        setting = _setting(side.params, base.params)
        rows = [
            {"setting": setting, "seed": seed}
            | all_rounded({number: measured.values[seed] for number, measured in side.headlines.items()})
            for seed in side.seeds
        ]
        if name == "HEAD":
            head_rows = rows
        elif name == WORKSPACE and rows == head_rows:
            continue
        yield from ({"study": "main", "run": name, **row} for row in rows)


def _setting(params: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """Selectors, and the other parameters that differ from the first run, as options of `-S`."""
    keys = [
        *SELECTOR_SECTIONS,
        *sorted(key for key in params if params[key] != base.get(key) and key not in SELECTOR_SECTIONS),
    ]
    return " ".join(f"{key}={params[key]}" for key in keys if key in params and key != "seeds")


def _seed_rows(root: Path) -> Iterator[RunRow]:
    """Rows from files by seed: ROW.json, or ROW/SEED.json for each seed; leaves out files that differ from the lock.

    A file that no lock names counts as it is: it may come from another machine.
    """
    locked = locked_outputs(root)
    for path in sorted(root.glob("stages/*/metrics/**/*.json")):
        _, study, _, *parents = path.relative_to(root).parent.parts
        if "right" in parents:
            continue
        name = path.relative_to(root).as_posix()
        if name in locked:
            try:
                check_locked(locked[name], path.read_bytes(), repro(study))
            except InputError as error:
                log.warning("WARNING: left out: %s", error)
                continue
        content = read_metrics(path)
        if not all(seed.isdecimal() and isinstance(numbers, dict) for seed, numbers in content.items()):
            continue
        setting = "/".join([*parents[1:], *([] if path.stem in content and len(content) == 1 else [path.stem])])
        for seed, numbers in content.items():
            yield {"study": study, "run": "", "setting": setting, "seed": int(seed), **numbers}


def _table_rows(root: Path, known: set[str]) -> Iterator[RunRow]:
    """Rows of the tables of the other studies: means over seeds."""
    by_study, faults = study_rows(root)
    for fault in faults:
        log.warning("WARNING: left out: %s", fault)
    for study, variants in by_study.items():
        if study in known:
            continue
        for variant in variants:
            texts = {name: value for name, value in variant.params.items() if name != "file"}
            file = Path(variant.params["file"]).stem  # `table` is a column of some studies
            setting = " ".join([f"file={file}", *(f"{name}={value}" for name, value in texts.items())])
            yield {"study": study, "run": "", "setting": setting, "seed": None, **variant.numbers}


def _write_parquet(file: Path, rows: Sequence[RunRow], columns: Sequence[str]) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds = {str: pyarrow.string(), int: pyarrow.int64()}
    fields, arrays = [], []
    for name in columns:
        values = [row.get(name) for row in rows]
        text = any(isinstance(value, str) for value in values)
        kind = kinds[KEYS[name]] if name in KEYS else pyarrow.string() if text else pyarrow.float64()
        if text:
            values = [None if value is None else str(value) for value in values]
        fields.append(pyarrow.field(name, kind))
        arrays.append(pyarrow.array(values, kind))
    table = pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))
    with atomic_write(file) as temporary:
        pyarrow.parquet.write_table(table, temporary)
