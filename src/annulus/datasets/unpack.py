"""Archives and shards for `photos`, written as files: zip, Parquet with images, save_to_disk, and tars by `tars`."""

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from annulus.datasets.archives import check_names, check_room, joined, needs, sound
from annulus.datasets.decode import SUFFIXES as IMAGE_SUFFIXES
from annulus.datasets.folder import named
from annulus.datasets.found import Found, of_tree, split_of
from annulus.datasets.settings import Classes
from annulus.datasets.tables import LABELS, PATHS, class_name, column_of, from_rows, name_unknown, split_name
from annulus.datasets.tars import from_tars
from annulus.errors import InputError

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
SUFFIXES = (".zip", ".parquet", *TARS)


def is_saved_to_disk(folder: Path) -> bool:
    """True for a folder that `datasets` saved."""
    return (folder / "dataset_dict.json").is_file() or all(
        (folder / name).is_file() for name in ("dataset_info.json", "state.json")
    )


def shards_of(folder: Path) -> list[Path]:
    """The tar or Parquet files in a folder or in its `data`."""
    for place in (folder, folder / "data"):
        for suffix in ("*.tar", "*.parquet"):
            if found := sorted(place.glob(suffix)):
                return found
    return []


def from_shards(paths: Sequence[Path], unpacked: Path, classes: Classes) -> Found:
    """The images of one archive, or of several shards of one kind.

    Raises:
        InputError: when one is broken, would leave its folder or fill the disk, or a package is missing.
    """
    kind = paths[0].suffix.lower()
    if kind == ".parquet":
        if len(paths) > 1:  # of one file each image is checked alone, as it may hold none
            check_room(unpacked, sum(path.stat().st_size for path in paths), paths[0].parent)
        return joined([_parquet(path, unpacked / str(place)) for place, path in enumerate(paths)])
    if kind == ".zip":
        with sound(paths[0]):
            _unzip(paths[0], unpacked)
        return replace(of_tree(unpacked, classes), kind="a zip")
    return from_tars(paths, unpacked, classes)


def from_datasets(path: Path, unpacked: Path) -> Found:
    """The images of a folder that `datasets` saved, by its column of images and its column of labels.

    Raises:
        InputError: when it cannot be read, or has no column of images, or several and none of a usual name.
    """
    needs("a folder of save_to_disk", "datasets")
    from datasets import DatasetDict, Image, load_from_disk

    with sound(path):
        loaded = load_from_disk(str(path))
    parts = []
    for split, rows in (loaded if isinstance(loaded, DatasetDict) else {"": loaded}).items():
        column = _image_column(path, [name for name, kind in rows.features.items() if isinstance(kind, Image)])
        if column is None:
            raise InputError(
                f"{path} has the columns {', '.join(rows.features)}, and none of images; cast one to datasets.Image"
            )
        label = column_of(list(rows.features), LABELS)
        names = getattr(rows.features[label], "names", None) if label else None
        bare = rows.select_columns([column, *([label] if label else [])]).cast_column(column, Image(decode=False))
        read = ((row[column], class_name(row[label], names) if label else None, None) for row in bare)
        with sound(path):
            parts.append(_written(read, unpacked / (split or "all"), path, split))
    return replace(joined(parts), kind="a folder of save_to_disk")


def _parquet(path: Path, unpacked: Path) -> Found:
    """A table with the images' bytes, as `datasets` writes it, or with their paths."""
    needs("a .parquet file", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    with sound(path):
        file = pq.ParquetFile(path)
    schema = file.schema_arrow
    kinds = {field.name: field.type for field in schema}
    column = _image_column(path, [name for name, kind in kinds.items() if _holds_bytes(kind, pa)])
    label, split = (column_of(list(kinds), known) for known in (LABELS, ("split",)))
    wanted = [name for name in (column, label, split) if name]
    if column is None:
        with sound(path):
            return from_rows(path, list(kinds), file.read().to_pylist())
    names = _class_names(schema.metadata or {}, label)

    if split is not None:
        with sound(path):
            name_unknown(path, split, file.read(columns=[split]).column(0).to_pylist())

    def rows() -> Iterator[tuple[Any, str | None, str | None]]:
        for batch in file.iter_batches(batch_size=64, columns=wanted):
            for row in batch.to_pylist():
                own = split_name(row[split]) if split else None
                yield row[column], class_name(row[label], names) if label else None, own

    with sound(path):
        return _written(rows(), unpacked, path, split_of(path.name))


def _image_column(path: Path, columns: Sequence[str]) -> str | None:
    """The column of images: of several the one that has a usual name."""
    if len(columns) < 2:
        return next(iter(columns), None)
    column = column_of(columns, PATHS)
    if column is None:
        raise InputError(
            f"{path} has {len(columns)} columns of images, {named(columns)}; name the one to take image, or leave out "
            "the others"
        )
    return column


def _holds_bytes(kind: Any, pa: Any) -> bool:
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _class_names(metadata: Mapping[bytes, bytes], label: str | None) -> list[str] | None:
    """The names that `datasets` keeps in a Parquet file's metadata."""
    try:
        return json.loads(metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, ValueError, TypeError):
        return None


def _written(rows: Iterator[tuple[Any, str | None, str | None]], folder: Path, path: Path, split: str | None) -> Found:
    """Images given as bytes, or as a dictionary of bytes and a path, as files."""
    folder.mkdir(parents=True)
    names, classes, splits, others = [], [], [], []
    for place, (content, label, own) in enumerate(rows):
        known = content if isinstance(content, Mapping) else {"bytes": content}
        suffix = PurePosixPath(str(known.get("path") or "")).suffix.lower()
        name = f"{place:08}{suffix if suffix in IMAGE_SUFFIXES else ''}"
        if known.get("bytes") is not None:
            check_room(folder, len(known["bytes"]), path)
            (folder / name).write_bytes(known["bytes"])
        elif known.get("path") and (path.parent / known["path"]).is_file():
            shutil.copyfile(path.parent / known["path"], folder / name)
        else:
            others.append(f"row {place} of {path.name}")
            continue
        names.append(name)
        classes.append(label)
        splits.append(own or split_name(split))
    return Found("a Parquet file", folder, tuple(names), tuple(classes), tuple(splits), tuple(others))


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members:
            member.filename = member.filename.replace("\\", "/")  # as some programs of Windows write it
            if ".." in PurePosixPath(member.filename).parts or PurePosixPath(member.filename).is_absolute():
                raise InputError(f"{path}: {member.filename!r} would lie outside of its folder; pack it again")
        check_names(path, (member.filename for member in members))
        folder.mkdir(parents=True, exist_ok=True)
        check_room(folder, sum(member.file_size for member in members), path)
        for member in members:
            archive.extract(member, folder)
