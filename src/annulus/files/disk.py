"""`Packed`: the store on a disk. Threads read images from shards, and decode JPEG."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.device.threads import submit
from annulus.files.jpeg import Decode, decoder
from annulus.files.packed import Damaged, check_about
from annulus.files.shards import LONGEST, Kind, Places, Shards
from annulus.files.store import Store

MOST_SIDE = 2**16 - 1  # pixels, JPEG's limit
PORTION = 8  # images that a thread prepares at a time


class PendingBatch(NamedTuple):
    """A batch that threads prepare: its row numbers, its memory, and the unfinished parts."""

    index: Int64[Tensor, " b"]
    images: UInt8[Tensor, "b 3 h w"]
    parts: list[Future]


class Packed(Store):
    """Images in shards. Threads read a batch into one tensor, which is pinned if it goes to a GPU."""

    def __init__(
        self,
        places: Places,
        shards: Shards,
        kind: Kind,
        side: int,
        levels: Int64[Tensor, "3 256"] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.places, self.shards, self.kind, self.side = places, shards, kind, side
        self.sizes = None if (places.sizes == side).all() else places.sizes
        self.device = device or torch.device("cpu")
        self._levels = levels
        self._pending: list[PendingBatch] = []

    def __len__(self) -> int:
        return len(self.places.start)

    def take(self, index: Int64[Tensor, " b"]) -> UInt8[Tensor, "b 3 h w"]:
        while self._pending:
            batch = self._pending.pop(0)
            if torch.equal(batch.index, index):
                break
            for part in batch.parts:  # announced by `ahead`, and skipped by the caller
                part.cancel()
        else:
            batch = self._begin(index)
        for part in batch.parts:
            part.result()
        # Torch reuses pinned memory only after this copy.
        return batch.images.to(self.device, non_blocking=True)

    def ahead(self, batches: Iterable[Tensor]) -> None:
        for index in batches:
            if not any(torch.equal(batch.index, index) for batch in self._pending):
                self._pending.append(self._begin(index.clone()))  # a caller may change its own in place

    def some(self, index: Int64[Tensor, " k"]) -> Self:
        return type(self)(self.places.some(index), self.shards, self.kind, self.side, None, self.device)

    def on(self, device: torch.device) -> Self:
        return type(self)(self.places, self.shards, self.kind, self.side, self._levels, device)

    def memory(self, batch_size: int) -> int:
        return batch_size * 3 * self.side**2

    def content(self) -> Iterator[bytes]:
        for field in (self.places.sizes, self.fingerprints()):
            yield field.numpy().astype("<i8").tobytes()

    def fingerprints(self) -> Int64[Tensor, " n"]:
        return self.places.fingerprint

    def levels(self) -> Int64[Tensor, "3 256"]:
        if self._levels is None:  # all images are read, once
            self._levels = super().levels()
        return self._levels

    def _begin(self, index: Int64[Tensor, " b"]) -> PendingBatch:
        some = self.places.some(index)
        height, width = some.sizes.amax(dim=0).tolist() if len(index) else (self.side, self.side)
        shape = (len(index), 3, height, width) if self.kind == "raw" else (len(index), height, width, 3)
        images = torch.empty(shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        decode = decoder() if self.kind == "jpeg" else None
        slots, rows = images.numpy(), list(zip(*(field.tolist() for field in some[:4]), strict=True))

        def fill(portion: range) -> None:
            for place in portion:
                self._read(rows[place], slots[place], decode)

        # Decoders write channels last, row by row.
        images = images if self.kind == "raw" else images.permute(0, 3, 1, 2)
        return PendingBatch(index, images, submit(fill, len(rows), PORTION))

    def _read(self, place: tuple[int, int, int, list[int]], slot: np.ndarray, decode: Decode | None) -> None:
        shard, start, length, (height, width) = place
        if decode is None:
            self.shards.read(shard, start, slot)
            return
        coded = np.empty(length, np.uint8)
        self.shards.read(shard, start, coded)
        try:
            size = decode(coded, slot[:height, :width])
        except Exception as error:  # on broken bytes Pillow's decoders raise about anything
            raise Damaged(self.shards.paths[shard], f"the bytes from {start:,} on are not a JPEG", "prepare") from error
        if size != (height, width):
            fault = f"an image of {size[0]} x {size[1]} pixels begins at byte {start:,}"
            raise Damaged(self.shards.paths[shard], f"{fault}, expected {height} x {width}", "prepare")


def open_packed(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Packed:
    """Opens the store of an index file; its shards lie in the same folder.

    Raises:
        InputError: if the description or a shard does not fit the index.
    """
    check_about(path, about, {"kind": str, "side": int, "shards": dict}, "prepare")
    kind, side, lengths = about["kind"], about["side"], about["shards"]
    if kind not in get_args(Kind):
        raise Damaged(path, f"its kind is {kind!r}, expected {' or '.join(get_args(Kind))}", "prepare")
    if not all(
        type(length) is int and 0 <= length < 2**63 and Path(name).name == name for name, length in lengths.items()
    ):
        raise Damaged(path, "its shards are not a mapping from file names to lengths", "prepare")
    if not 1 <= side <= MOST_SIDE:
        raise Damaged(path, f"its side is {side} pixels, expected 1 to {MOST_SIDE}", "prepare")
    places = Places(*(tensors[name] for name in Places._fields))
    ends = torch.tensor([*lengths.values(), 0])  # the 0 is for images of unknown shards
    known = (places.shard >= 0) & (places.shard < len(lengths))
    fits = known & (places.start >= 0) & (places.length > 0)
    fits &= places.start <= ends[places.shard.where(known, -1)] - places.length  # start + length could overflow
    square = (places.sizes == side).all(dim=1) & (places.length == 3 * side**2)
    fits &= (
        square if kind == "raw" else (places.sizes.amin(dim=1) == side) & (places.sizes.amax(dim=1) <= LONGEST * side)
    )
    if not fits.all():
        wrong = int((~fits).nonzero()[0])
        raise Damaged(path, f"image {wrong} does not lie in a shard, or has an impossible size", "prepare")
    levels = tensors["levels"]
    if (levels < 0).any() or (levels.sum(dim=1) != places.sizes.long().prod(dim=1).sum()).any():
        raise Damaged(path, "its levels do not count each pixel of its images once", "prepare")
    return Packed(places, Shards(path.parent, lengths), kind, side, levels)
