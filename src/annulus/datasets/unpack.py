"""Archives and shards for `photos`, written as files: zip, tar, WebDataset, Parquet with images, save_to_disk."""

import errno
import json
import os
import re
import shutil
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from annulus.datasets.decode import SUFFIXES as IMAGE_SUFFIXES
from annulus.datasets.found import SPLIT_OF, Found, arranged, listed, of_tree
from annulus.datasets.settings import Classes
from annulus.datasets.tables import LABELS, check_splits, class_name, column_of, from_rows, split_name
from annulus.errors import InputError, require

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
SUFFIXES = (".zip", ".parquet", *TARS)
KEPT_FREE = 2**30  # bytes of the disk that no archive may fill
LABEL_FILES = ("cls", "json")  # of a WebDataset's sample


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
        return joined([_parquet(path, unpacked / str(place)) for place, path in enumerate(paths)])
    if kind == ".zip":
        with _sound(paths[0]):
            _unzip(paths[0], unpacked)
        return replace(of_tree(unpacked, classes), kind="a zip")
    parts, trees = [], []
    for place, path in enumerate(paths):
        folder = unpacked / str(place)
        with _sound(path), tarfile.open(path) as archive:
            members = _members(archive, path)
            if _beside_images(member.name for member in members):
                parts.append(_webdataset(path, members, folder))
            else:
                trees.append((path, folder, _untar(archive, members, path, folder)))
    return joined([*parts, *([_one_tree(trees, unpacked, classes)] if trees else [])])


def joined(parts: Sequence[Found]) -> Found:
    """Several shards as one. Below `unpacked` each has a folder of its own."""
    root = Path(os.path.commonpath([part.root for part in parts]))
    names = [os.path.relpath(part.root / name, root) for part in parts for name in part.names]
    classes, splits, others = (
        [value for part in parts for value in getattr(part, field)] for field in ("classes", "splits", "others")
    )
    return Found(parts[0].kind, root, tuple(names), tuple(classes), tuple(splits), tuple(others))


def from_datasets(path: Path, unpacked: Path) -> Found:
    """The images of a folder that `datasets` saved, by its first column of images and its column of labels.

    Raises:
        InputError: when it cannot be read, or has no column of images.
    """
    _needs("a folder of save_to_disk", "datasets")
    from datasets import DatasetDict, Image, load_from_disk

    with _sound(path):
        loaded = load_from_disk(str(path))
    parts = []
    for split, rows in (loaded if isinstance(loaded, DatasetDict) else {"": loaded}).items():
        column = next((name for name, kind in rows.features.items() if isinstance(kind, Image)), None)
        if column is None:
            raise InputError(
                f"{path} has the columns {', '.join(rows.features)}, and none of images; cast one to datasets.Image"
            )
        label = column_of(list(rows.features), LABELS)
        names = getattr(rows.features[label], "names", None) if label else None
        bare = rows.select_columns([column, *([label] if label else [])]).cast_column(column, Image(decode=False))
        read = ((row[column], class_name(row[label], names) if label else None, None) for row in bare)
        with _sound(path):
            parts.append(_written(read, unpacked / (split or "all"), path, split))
    return replace(joined(parts), kind="a folder of save_to_disk")


def _parquet(path: Path, unpacked: Path) -> Found:
    """A table with the images' bytes, as `datasets` writes it, or with their paths."""
    _needs("a .parquet file", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _sound(path):
        file = pq.ParquetFile(path)
    schema = file.schema_arrow
    kinds = {field.name: field.type for field in schema}
    column = next((name for name, kind in kinds.items() if _holds_bytes(kind, pa)), None)
    label, split = (column_of(list(kinds), known) for known in (LABELS, ("split",)))
    wanted = [name for name in (column, label, split) if name]
    if column is None:
        with _sound(path):
            return from_rows(path, list(kinds), file.read().to_pylist())
    names = _class_names(schema.metadata or {}, label)

    if split is not None:
        with _sound(path):
            check_splits(path, split, file.read(columns=[split]).column(0).to_pylist())

    def rows() -> Iterator[tuple[Any, str | None, str | None]]:
        for batch in file.iter_batches(batch_size=64, columns=wanted):
            for row in batch.to_pylist():
                own = split_name(row[split]) if split else None
                yield row[column], class_name(row[label], names) if label else None, own

    with _sound(path):
        return _written(rows(), unpacked, path, _split_of_shard(path))


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
            _check_room(folder, len(known["bytes"]), path)
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


def _members(archive: tarfile.TarFile, path: Path) -> list[tarfile.TarInfo]:
    """Files of a tar, links among them. tarfile takes the first broken header for the end, where a sound tar has zeros.

    Raises:
        InputError: when it ends otherwise.
    """
    members = [member for member in archive.getmembers() if member.isfile() or member.islnk() or member.issym()]
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise InputError(f"{path} is cut or damaged after {len(members)} files; make or copy it again")
    return members


def _untar(archive: tarfile.TarFile, members: Sequence[tarfile.TarInfo], path: Path, folder: Path) -> list[str]:
    """Write the files; returns the links that lead out of the archive, which are not followed."""
    folder.mkdir(parents=True)
    _check_room(folder, sum(member.size for member in members), path)
    outside = []
    for member in members:
        try:
            archive.extract(member, folder, filter="data")
        except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
            outside.append(member.name)
    return outside


def _one_tree(trees: Sequence[tuple[Path, Path, list[str]]], root: Path, classes: Classes) -> Found:
    """Tars of images in folders as the one tree that they are parts of: path, folder and left out links of each."""
    files, names, others, splits = [], [], [], {}
    for path, folder, outside in trees:
        inside, no_images = listed(folder)
        for name in inside:
            file = f"{folder.relative_to(root)}/{name}"
            files.append(file)
            names.append(name)
            splits[file] = _split_of_shard(path)
        others += [*no_images, *outside]
    found = replace(arranged(root, files, names, others, classes), kind="a tar")
    return found if any(found.splits) else replace(found, splits=tuple(splits[file] for file in found.names))


def _webdataset(path: Path, members: Sequence[tarfile.TarInfo], folder: Path) -> Found:
    """A tar of samples: an image and, beside it, its label (.cls, .json)."""
    split = _split_of_shard(path)
    _check_room(folder.parent, sum(member.size for member in members), path)
    _needs("a WebDataset tar", "webdataset")
    import webdataset

    samples = webdataset.WebDataset([str(path.resolve())], shardshuffle=False, empty_check=False)
    images, labelled, others = [], [], []
    for sample in samples:
        kinds = [kind for kind in sample if f".{kind.rpartition('.')[2].lower()}" in IMAGE_SUFFIXES]
        if len(kinds) > 1:
            raise InputError(
                f"{path}: the sample {sample['__key__']} has {len(kinds)} images, {', '.join(kinds)}; give one a sample"
            )
        if not kinds:
            others.append(f"{sample['__key__']} of {path.name}")
            continue
        (image,) = kinds
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{len(images):08}.{image.rpartition('.')[2].lower()}"
        (folder / name).write_bytes(sample[image])
        images.append(name)
        labelled.append(_label_of(sample))
    return Found("WebDataset tars", folder, tuple(images), tuple(labelled), (split,) * len(images), tuple(others))


def _beside_images(names: Iterable[str]) -> bool:
    """True where a label file belongs to an image: both have the same folder and name, up to its first point."""
    kinds = defaultdict(set)
    for name in names:
        folder, base = os.path.split(name)
        key, _, ending = base.partition(".")
        kinds[folder, key].add(ending.rpartition(".")[2].lower())
    images = {suffix[1:] for suffix in IMAGE_SUFFIXES}
    return any(found & images and found & set(LABEL_FILES) for found in kinds.values())


def _label_of(sample: Mapping[str, Any]) -> str | None:
    if "cls" in sample:
        return class_name(sample["cls"].decode().strip())
    about = json.loads(sample.get("json", b"{}"))
    column = column_of(list(about), LABELS) if isinstance(about, dict) else None
    return class_name(about[column]) if column else None


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members:
            member.filename = member.filename.replace("\\", "/")  # as some programs of Windows write it
            if ".." in PurePosixPath(member.filename).parts or PurePosixPath(member.filename).is_absolute():
                raise InputError(f"{path}: {member.filename!r} would lie outside of its folder; pack it again")
        if twice := [name for name, often in Counter(member.filename for member in members).items() if often > 1]:
            raise InputError(f"{path} has {len(twice)} names twice, {twice[0]!r} first; pack it again")
        folder.mkdir(parents=True, exist_ok=True)
        _check_room(folder, sum(member.file_size for member in members), path)
        for member in members:
            archive.extract(member, folder)


def _check_room(folder: Path, needs: int, path: Path) -> None:
    free = shutil.disk_usage(folder if folder.exists() else folder.parent).free
    if needs > free - KEPT_FREE:
        raise InputError(
            f"{path} unpacks to {needs:,} bytes, and {folder} has {free:,} free, of which {KEPT_FREE:,} stay; free "
            "some space, or unpack it elsewhere and give that folder"
        )


def _split_of_shard(path: Path) -> str | None:
    """train of train-00000-of-00002.parquet."""
    return SPLIT_OF.get(re.split(r"[-_.0-9]", path.name.lower())[0])


def _needs(what: str, package: str) -> None:
    try:
        require(f"annulus.datasets, for {what},", "formats", [package])
    except ModuleNotFoundError as error:
        raise InputError(str(error)) from None


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """A broken file as one sentence."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # on broken bytes readers of archives and tables raise about anything
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise InputError(f"{path} is not unpacked: the disk is full; free some space, then run again") from error
        short = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read ({short}); make or copy it again") from error
