"""Packs image files into shards, for sets too large for memory. A killed run continues at its last shard."""

import hashlib
import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Int64
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from tqdm import tqdm

from annulus.datasets.decode import ORIENTATION, decode, opened, reason
from annulus.datasets.source import FileList
from annulus.device.threads import threads
from annulus.errors import InputError
from annulus.files.disk import Packed
from annulus.files.packed import check_tensors, read_packed, write_packed
from annulus.files.results import atomic_write
from annulus.files.shards import LONGEST, PLACES, Kind, Places, Shards
from annulus.files.store import fingerprint
from annulus.running.checkpoint import Checkpoint
from annulus.running.code import hash_code

SHARD = 8192  # images in a file; of 256 px about 250 MB of JPEG, 1.6 GB of pixels
QUALITY = 90  # of JPEG: 30 KB at 256 px
WAITING = 64  # coded images that wait for the disk at most
INDEX_FIELDS = ("length", "start", "sizes", "fingerprint")  # of each image, in the index of a shard

Item, Output = TypeVar("Item"), TypeVar("Output")


class Coded(NamedTuple):
    """A coded image; if the file cannot be read, `bad` is the reason, and there are no bytes."""

    content: bytes
    sizes: tuple[int, int]
    fingerprint: int
    bad: str | None


@contextmanager
def workplace(key: Mapping[str, Any]) -> Iterator[Path]:
    """Context with a folder outside DVC's outputs. If the stage is killed or fails, the folder stays for the next run.

    Raises:
        InputError: if another process packs the same images now.
    """
    with Checkpoint("prepare", {**key, "code": hash_code(Path(__file__))}) as checkpoint:
        checkpoint.save({})
        yield checkpoint.folder
        checkpoint.done()  # at once, as shards may take hundreds of gigabytes


def pack(
    files: FileList, rows: Int64[Tensor, " k"], kind: Kind, size: int, folder: Path, split: str
) -> tuple[Packed, Mapping[int, str]]:
    """Packs files into shards in `folder`. Also returns the reasons of unreadable files (no bytes) by position.

    raw: the central square in `size` x `size` pixels. jpeg: the shorter side has `size` pixels, and the longer side is
    cut to the middle 2 x `size`; a file that is such a JPEG already is copied.

    Raises:
        InputError: if the disk is full. Complete shards stay.
    """
    pool = ThreadPoolExecutor(threads())
    lengths, parts, bad = {}, [], {}
    try:
        # disable=None: a bar on a terminal, nothing elsewhere.
        with tqdm(total=len(rows), desc=f"{split} images", unit=" images", disable=None) as bar:
            for first in range(0, len(rows), SHARD):
                some = files.some(rows[first : first + SHARD])
                path = folder / f"{split}-{first // SHARD:05}.{kind}"
                tensors, about = _before(path, some) or _pack_shard(path, some, kind, size, pool, bar.update)
                bar.update(max(0, first + len(some) - bar.n))
                lengths[path.name] = about["bytes"]
                parts.append(tensors | {"shard": torch.full((len(some),), first // SHARD, dtype=torch.int32)})
                bad |= {first + int(place): fault for place, fault in about["bad"].items()}
    finally:
        pool.shutdown(cancel_futures=True)  # on Ctrl-C, without the remaining files
    # `pop` frees the parts: for a million images they would take fifty megabytes beside the whole.
    places = Places(*(torch.cat([tensors.pop(name) for tensors in parts]) for name in Places._fields))
    return Packed(places, Shards(folder, lengths), kind, size), bad


def _pack_shard(
    path: Path, files: list[Path], kind: Kind, size: int, pool: ThreadPoolExecutor, done: Callable[[int], object]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    coded, bad = [], {}
    with atomic_write(path) as temporary, temporary.open("wb") as shard:
        for image in in_order(pool, lambda file: _coded(file, kind, size), files):
            shard.write(image.content)
            if image.bad is not None:
                bad[str(len(coded))] = image.bad
            coded.append((len(image.content), image.sizes, image.fingerprint))
            done(1)
    lengths, sizes, fingerprints = (torch.tensor(field) for field in zip(*coded, strict=True))
    starts = lengths.cumsum(0) - lengths
    tensors = {"length": lengths.int(), "start": starts, "sizes": sizes.int(), "fingerprint": fingerprints}
    about = {"bytes": int(lengths.sum()), "bad": bad, "files": _identity(files)}
    write_packed(_index(path), tensors, about)
    return tensors, about


def _before(path: Path, files: list[Path]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Reads a shard of an earlier run; None if it is incomplete, its files have changed, or one was unreadable."""
    if not _index(path).exists() or not path.exists():
        return None
    try:
        tensors, about = read_packed(_index(path))
        check_tensors(_index(path), tensors, {name: PLACES[name] for name in INDEX_FIELDS}, "prepare")
    except InputError:  # cut, or of another version: the files are packed again
        return None
    same = (about.get("files"), about.get("bytes")) == (_identity(files), path.stat().st_size)
    # An unreadable file may be readable now, after a change of mode or with a package, although its bytes are the same.
    whole = len(tensors["length"]) == len(files) and about.get("bad") == {}
    return (tensors, about) if same and whole else None


def _index(path: Path) -> Path:
    return path.with_name(f"{path.name}.safetensors")


def _identity(files: list[Path]) -> str:
    """Hash of the files' names, sizes and modification times."""
    facts = []
    for file in files:
        try:
            facts.append((str(file), file.stat().st_size, file.stat().st_mtime_ns))
        except OSError:
            facts.append((str(file), -1, -1))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _coded(file: Path, kind: Kind, size: int) -> Coded:
    try:
        return _raw(file, size) if kind == "raw" else _jpeg(file, size)
    except MemoryError:
        raise
    except Exception as error:  # on broken bytes Pillow's decoders raise about anything
        return Coded(b"", (size, size), 0, reason(error))


def _raw(file: Path, size: int) -> Coded:
    pixels = np.ascontiguousarray(decode(file, size).transpose(2, 0, 1))
    return Coded(pixels.tobytes(), (size, size), fingerprint(pixels), None)


def _jpeg(file: Path, size: int) -> Coded:
    image = opened(file)
    fitted = _fitted(image, size)
    width, height = fitted.size
    if fitted is image and _upright_rgb_jpeg(file):
        content = file.read_bytes()
    else:
        coded = io.BytesIO()
        fitted.save(coded, "JPEG", quality=QUALITY, comment=b"")  # the file's comment may be too long for JPEG
        content = coded.getvalue()
    return Coded(content, (height, width), fingerprint(np.asarray(fitted)), None)


def _fitted(image: Image.Image, size: int) -> Image.Image:
    """Resizes the shorter side to `size` pixels, and cuts the longer side to LONGEST times that."""
    width, height = (max(size, round(side * size / min(image.size))) for side in image.size)
    wide, high = (min(side, LONGEST * size) for side in (width, height))
    left, top = (width - wide) // 2, (height - high) // 2
    box = (left, top, left + wide, top + high)
    if (width, height) == image.size:
        return image if (wide, high) == image.size else image.crop(box)
    # Only the middle of a long image is resized: all of it may not fit into memory.
    across, down = image.width / width, image.height / height
    part = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
    return image.resize((wide, high), Image.Resampling.BILINEAR, part)


def _upright_rgb_jpeg(file: Path) -> bool:
    try:
        with Image.open(file, formats=("JPEG",)) as image:
            return (image.format, image.mode, image.getexif().get(ORIENTATION, 1)) == ("JPEG", "RGB", 1)
    except UnidentifiedImageError:
        return False


def in_order(pool: ThreadPoolExecutor, make: Callable[[Item], Output], items: Iterable[Item]) -> Iterator[Output]:
    """Ordered parallel map with at most WAITING pending items."""
    waiting = deque()
    for item in items:
        waiting.append(pool.submit(make, item))
        if len(waiting) == WAITING:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
