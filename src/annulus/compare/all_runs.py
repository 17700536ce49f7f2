"""All runs as one table for other programs: setting, seed and numbers of each, as CSV or Parquet.

The main line's runs stand by seed, of HEAD, of the workspace where it is another run, and of every DVC experiment; a
study's by seed where metrics/STUDY has files by seed, else as the rows of its tables, means over the seeds whose number
is `seeds`.
"""

import csv
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from annulus.compare.sides import Side, read_side
from annulus.config.params import SECTION_OF
from annulus.errors import InputError
from annulus.files.results import all_rounded, atomic_write, read_metrics, write_text
from annulus.pipeline.revision import WORKSPACE
from annulus.pipeline.study_rows import locked_outputs, study_rows
from annulus.pipeline.variants import check_locked

Row = dict[str, Any]
KEYS = {"study": str, "run": str, "setting": str, "seed": int}  # what a row is; all other columns are its numbers
ENDINGS = (".csv", ".parquet")
NO_STUDIES = ("main", "figures", "benchmarks", "runs")  # folders of metrics/

log = logging.getLogger("annulus")


def write_all_runs(root: Path, names: Sequence[tuple[str, str]], file: Path) -> int:
    """Write all runs of the checkout `root` to `file`; returns how many there are.

    `names`: names and revisions of the main line's runs. A revision whose numbers do not belong to its parameters and
    code is left out, with a warning. A missing number is an empty cell, or null.

    Raises:
        InputError: when the file ends otherwise than in .csv or .parquet, pyarrow is missing for Parquet, a metrics
            file is damaged, or the disk is full.
    """
    if file.suffix not in ENDINGS:
        raise InputError(f"{file} ends in {file.suffix!r}; name a file that ends in {' or '.join(ENDINGS)}")
    if file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError(f"{file} is Parquet, which needs pyarrow: pip install pyarrow, or name a file in .csv")
    rows = [*_main_line(root, names), *_by_seed(root)]
    known = {row["study"] for row in rows}
    rows += _of_tables(root, known)
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


def _main_line(root: Path, names: Sequence[tuple[str, str]]) -> Iterator[Row]:
    base: Side | None = None
    of_head: list[Row] = []
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
            of_head = rows
        elif name == WORKSPACE and rows == of_head:
            continue
        yield from ({"study": "main", "run": name, **row} for row in rows)


def _setting(params: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """The selectors, and what else differs from the first run's, as `-S` takes them."""
    keys = [*SECTION_OF, *sorted(key for key in params if params[key] != base.get(key) and key not in SECTION_OF)]
    return " ".join(f"{key}={params[key]}" for key in keys if key in params and key != "seeds")


def _by_seed(root: Path) -> Iterator[Row]:
    """Runs of files by seed: ROW.json, or ROW/SEED.json of each seed; what differs from its study's lock is left out.

    A file that no lock names, as another machine's may be, is taken as it is.
    """
    metrics, locked = root / "metrics", locked_outputs(root)
    for path in sorted(metrics.glob("*/**/*.json")):
        study, *parents = path.relative_to(metrics).parent.parts
        if study in NO_STUDIES or "right" in parents:
            continue
        name = path.relative_to(root).as_posix()
        if name in locked:
            try:
                check_locked(locked[name], path.read_bytes(), f"dvc repro stages/{study}/dvc.yaml")
            except InputError as error:
                log.warning("WARNING: left out: %s", error)
                continue
        content = read_metrics(path)
        if not all(seed.isdecimal() and isinstance(numbers, dict) for seed, numbers in content.items()):
            continue
        setting = "/".join([*parents[1:], *([] if path.stem in content and len(content) == 1 else [path.stem])])
        for seed, numbers in content.items():
            yield {"study": study, "run": "", "setting": setting, "seed": int(seed), **numbers}


def _of_tables(root: Path, known: set[str]) -> Iterator[Row]:
    """Rows of the tables of the other studies, with the numbers' means over seeds."""
    by_study, faults = study_rows(root)
    for fault in faults:
        log.warning("WARNING: left out: %s", fault)
    for study, variants in by_study.items():
        if study in known:
            continue
        for variant in variants:
            texts = {name: value for name, value in variant.params.items() if name != "file"}
            file = Path(variant.params["file"]).stem  # not `table`, which is a column of some
            setting = " ".join([f"file={file}", *(f"{name}={value}" for name, value in texts.items())])
            yield {"study": study, "run": "", "setting": setting, "seed": None, **variant.numbers}


def _write_parquet(file: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
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
