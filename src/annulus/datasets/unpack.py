"""Unpacks archives and shards for `photos`: zip, Parquet with images, save_to_disk; `tars` unpacks tars."""

import json
import shutil
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from annulus.datasets.archives import check_names, check_room, joined, needs, sound
from annulus.datasets.decode import SUFFIXES as IMAGE_SUFFIXES
from annulus.datasets.folder import entries, is_folder, join_names
from annulus.datasets.listing import ImageListing, list_tree, split_from_name
from annulus.datasets.settings import Classes
from annulus.datasets.tables import (
    LABELS,
    PATHS,
    SPLITS,
    as_text,
    class_names,
    existing_name,
    find_column,
    from_rows,
    name_unknown,
    one_row_a_file,
    split_name,
)
from annulus.datasets.tars import from_tars
from annulus.errors import InputError
from annulus.files.regular import check_regular

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
SUFFIXES = (".zip", ".parquet", *TARS)
UTF8 = 0x800  # flag of a zip's name
DOS = (0, 6, 11)  # systems of a zip whose names are in the console's code page: FAT, HPFS, NTFS
SNIFFED = 64  # rows whose bytes tell text from images


def is_saved_to_disk(folder: Path) -> bool:
    """Returns True for a folder that `datasets` saved."""
    return (folder / "dataset_dict.json").is_file() or all(
        (folder / name).is_file() for name in ("dataset_info.json", "state.json")
    )


def list_shards(folder: Path) -> list[Path]:
    """Lists the tar or Parquet files in a folder or in its `data`."""
    for place in (folder, folder / "data"):
        files = [place / entry.name for entry in entries(place) if not is_folder(entry)] if place.is_dir() else []
        for suffix in (".tar", ".parquet"):
            if shards := sorted(path for path in files if path.suffix == suffix):
                return shards
    return []


def count_images(shards: Sequence[Path]) -> int:
    """Counts the images of tars, or the rows of Parquet files, without unpacking them."""
    count = 0
    for path in shards:
        if path.suffix == ".tar":
            with sound(path), tarfile.open(path) as archive:
                count += sum(PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES for name in archive.getnames())
        else:
            needs("a .parquet file", "pyarrow")
            from pyarrow import parquet

            with sound(path):
                count += parquet.read_metadata(path).num_rows
    return count


def from_shards(paths: Sequence[Path], unpacked: Path, classes: Classes) -> ImageListing:
    """Unpacks one archive, or several shards of one kind, and lists their images.

    Raises:
        InputError: if one is broken, would leave its folder or fill the disk, or a package is missing.
    """
    kind = paths[0].suffix.lower()
    if kind == ".parquet":
        if len(paths) > 1:  # for one file, the check is before each image, since it may hold only paths
            check_room(unpacked, sum(path.stat().st_size for path in paths), paths[0].parent)
        return joined([_parquet(path, unpacked / str(place)) for place, path in enumerate(paths)])
    if kind == ".zip":
        with sound(paths[0]):
            _unzip(paths[0], unpacked)
        return replace(list_tree(unpacked, classes), kind="a zip")
    return from_tars(paths, unpacked, classes)


def from_datasets(path: Path, unpacked: Path) -> ImageListing:
    """Lists the images of a folder that `datasets` saved, by its columns of images and labels.

    Raises:
        InputError: if it cannot be read, has no column of images, or several without a usual name.
    """
    needs("a folder of save_to_disk", "datasets")
    from datasets import DatasetDict, Image, load_from_disk

    with sound(path):
        for file in path.rglob("*"):
            if not file.is_dir():
                check_regular(file)
        loaded = load_from_disk(str(path))
    parts = []
    for split, rows in (loaded if isinstance(loaded, DatasetDict) else {"": loaded}).items():
        column = _image_column(path, [name for name, kind in rows.features.items() if isinstance(kind, Image)])
        if column is None:
            raise InputError(
                f"{path} has the columns {', '.join(rows.features)}, and no column of images; cast one to "
                "datasets.Image"
            )
        label = find_column(list(rows.features), LABELS)
        kind = rows.features[label] if label else None
        names = getattr(getattr(kind, "feature", kind), "names", None)  # of a label, or of a list of labels
        bare = rows.select_columns([column, *([label] if label else [])]).cast_column(column, Image(decode=False))
        read = ((row[column], row[label] if label else None, None) for row in bare)
        with sound(path):
            parts.append(_written(read, unpacked / (split or "all"), path, split, label, names))
    return replace(joined(parts), kind="a folder of save_to_disk")


def _parquet(path: Path, unpacked: Path) -> ImageListing:
    """Lists the images of a table with their bytes, as `datasets` writes it, or with their paths."""
    needs("a .parquet file", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    with sound(path):
        file = pq.ParquetFile(path)
    schema = file.schema_arrow
    kinds = {field.name: field.type for field in schema}
    with sound(path):
        column = _image_column(path, [name for name, kind in kinds.items() if _holds_images(file, name, kind, pa)])
    label, split = (find_column(list(kinds), known) for known in (LABELS, SPLITS))
    columns = [name for name in (column, label, split) if name]
    names = _names_of_classes(schema.metadata or {}, label)
    if column is None:
        at = find_column(list(kinds), PATHS)
        with sound(path):
            rows = file.read(columns=[name for name in (at, label, split) if name]).to_pylist()
            return from_rows(path, list(kinds), rows, names)

    if split is not None:
        with sound(path):
            name_unknown(path, split, file.read(columns=[split]).column(0).to_pylist())

    def rows() -> Iterator[tuple[Any, Any, str | None]]:
        for batch in file.iter_batches(batch_size=64, columns=columns):
            for row in batch.to_pylist():
                yield row[column], row[label] if label else None, split_name(row[split]) if split else None

    with sound(path):
        return _written(rows(), unpacked, path, split_from_name(path.name), label, names)


def _image_column(path: Path, columns: Sequence[str]) -> str | None:
    """The column of images; among several, the column with a usual name."""
    if len(columns) < 2:
        return next(iter(columns), None)
    column = find_column(columns, PATHS)
    if column is None:
        raise InputError(
            f"{path} has {len(columns)} columns of images, {join_names(columns)}; rename the one to use to image, or "
            "remove the others"
        )
    return column


def _holds_images(file: Any, name: str, kind: Any, pa: Any) -> bool:
    """Returns True for a column of images; one of bytes may also hold text, as some programs write it."""
    types = pa.types
    if types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0
    if not (types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)):
        return False
    first = next(file.iter_batches(batch_size=SNIFFED, columns=[name]), None)
    values = [] if first is None else [value for value in first.column(0).to_pylist() if value]
    return not values or not all(as_text(value).isprintable() for value in values)


def _names_of_classes(metadata: Mapping[bytes, bytes], label: str | None) -> list[str] | None:
    """Class names of a label, or of a list of labels, in the metadata that `datasets` writes into a Parquet file."""
    try:
        feature = json.loads(metadata[b"huggingface"])["info"]["features"][label]
        return feature.get("feature", feature)["names"]
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _written(
    rows: Iterator[tuple[Any, Any, str | None]],
    folder: Path,
    path: Path,
    split: str | None,
    column: str | None,
    class_list: Sequence[str] | None,
) -> ImageListing:
    """Writes images as files, and lists them; an image is bytes, or a dictionary of bytes and a path.

    `column` is the column of the labels, which may be numbers in `class_list`.
    """
    folder.mkdir(parents=True)
    names, labels, splits, others = [], [], [], []
    copied: dict[str, str] = {}  # names of the copies by path
    for place, (content, label, own) in enumerate(rows):
        known = content if isinstance(content, Mapping) else {"bytes": content}
        at = existing_name(path.parent, known["path"]) if known.get("path") else ""
        suffix = PurePosixPath(at).suffix.lower()
        name = f"{place:08}{suffix if suffix in IMAGE_SUFFIXES else ''}"
        if known.get("bytes") is not None:
            check_room(folder, len(known["bytes"]), path)
            (folder / name).write_bytes(known["bytes"])
        elif at in copied:
            name = copied[at]
        elif at and (path.parent / at).is_file():
            copied[at] = name
            shutil.copyfile(path.parent / at, folder / name)
        else:
            others.append(f"row {place} of {path.name}")
            continue
        names.append(name)
        labels.append(label)
        splits.append(own or split_name(split))
    classes = class_names(path, column, labels, class_list)
    listing = ImageListing("a Parquet file", folder, tuple(names), classes, tuple(splits), tuple(others))
    return one_row_a_file(path, listing)


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members:
            member.filename = "/".join(map(_decoded(member), member.filename.replace("\\", "/").split("/")))
            if ".." in PurePosixPath(member.filename).parts or PurePosixPath(member.filename).is_absolute():
                raise InputError(f"{path}: {member.filename!r} would lie outside of its folder; pack it again")
        check_names(path, (member.filename for member in members))
        folder.mkdir(parents=True, exist_ok=True)
        check_room(folder, sum(member.file_size for member in members), path)
        for member in members:
            archive.extract(member, folder)


def _decoded(member: zipfile.ZipInfo) -> Callable[[str], str]:
    """Returns a function that decodes a part of the name of a zip's member (between slashes).

    Without the flag of UTF-8, Python takes code page 437. macOS and Linux write UTF-8 there, old programs the code page
    of their system. The first page in which all letters belong to one script is taken, page 437 if there is none.
    """
    pages = ("cp437", "cp850") if member.create_system in DOS else ("cp1252", "cp437")

    def decoded(part: str) -> str:
        if member.flag_bits & UTF8 or part.isascii():
            return part
        coded = part.encode("cp437")
        for page in ("utf-8", *pages, "cp866", "gbk"):
            try:
                name = coded.decode(page)
            except UnicodeDecodeError:
                continue
            letters = [letter for letter in unicodedata.normalize("NFC", name) if not letter.isascii()]
            scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in letters}
            if page == "utf-8" or (all(map(str.isalpha, letters)) and len(scripts) == 1 and "GREEK" not in scripts):
                return name
        return part

    return decoded
