"""Access to the pixels of a split: the interface `Store`, and `Resident`, the store in memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Self

import numpy as np
import torch
from jaxtyping import Int32, Int64, UInt8
from torch import Tensor

from annulus.device.copies import to_device

AHEAD = 2  # batches that are prepared while one is used
BATCH_SIZE = 512  # images at a time that an encoder sees: decides memory and speed, no number
COUNTED_AT_ONCE = 16  # images whose pixels are counted


class Store(ABC):
    """Images by their numbers, 0 to len - 1.

    `side` is the shorter side of every image in pixels. `sizes` are heights and widths, or None where all are squares.
    """

    side: int
    sizes: Int32[Tensor, "n 2"] | None
    device: torch.device  # on which `take` gives images

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Int64[Tensor, " b"]) -> UInt8[Tensor, "b 3 h w"]:
        """Some images by their numbers, which are on the CPU.

        Each lies in the upper left corner; outside of its size there is anything.

        Raises:
            InputError: when an image cannot be read.
        """

    def ahead(self, batches: Iterable[Tensor]) -> None:
        """Begin to prepare the next batches, if the store prepares any. It changes no image."""
        return

    @abstractmethod
    def some(self, index: Int64[Tensor, " k"]) -> Self:
        """The store of some of the images."""

    @abstractmethod
    def on(self, device: torch.device) -> Self:
        """The store that gives images on a device."""

    @abstractmethod
    def memory(self, batch_size: int) -> int:
        """Bytes of the device that batches of this size surely take."""

    @abstractmethod
    def content(self) -> Iterator[bytes | memoryview]:
        """Bytes that identify the images, in parts."""

    @abstractmethod
    def fingerprints(self) -> Int64[Tensor, " n"]:
        """A number for the pixels of each image."""

    def sizes_of(self, index: Int64[Tensor, " b"]) -> Int64[Tensor, "b 2"] | None:
        """Heights and widths of some images, None where all are squares."""
        return None if self.sizes is None else self.sizes[index].long()

    def in_turn(self, batches: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """The numbers and the images of each batch, while the next ones are prepared."""
        for place, index in enumerate(batches):
            images = self.take(index)
            self.ahead(batches[place + 1 : place + 1 + AHEAD])
            yield index, images

    def levels(self) -> Int64[Tensor, "3 256"]:
        """Histogram of pixel values: one row for red, green and blue, one column for each of the 256 levels."""
        counts = torch.zeros(3, 256, dtype=torch.int64)
        for index, images in self.in_turn(torch.arange(len(self)).split(COUNTED_AT_ONCE)):
            for part in pieces(images, self.sizes_of(index)):
                counts += torch.stack([channel.flatten().bincount(minlength=256) for channel in part.unbind(1)]).cpu()
        return counts


def pieces(images: UInt8[Tensor, "b 3 h w"], sizes: Int64[Tensor, "b 2"] | None) -> Iterator[Tensor]:
    """Pixels of all images: the whole batch where all are squares, else one image at a time."""
    if sizes is None:
        yield images
    else:
        yield from (images[n : n + 1, :, :height, :width] for n, (height, width) in enumerate(sizes.tolist()))


def squares(store: Store, index: Int64[Tensor, " b"]) -> UInt8[Tensor, "b 3 s s"]:
    """The central squares of some images, as large as the shorter sides."""
    side = store.side
    return torch.cat(
        [
            image[..., (height - side) // 2 :, (width - side) // 2 :][..., :side, :side]
            for image in pieces(store.take(index), store.sizes_of(index))
            for height, width in [image.shape[2:]]
        ]
    )


def fingerprint(image: UInt8[np.ndarray, "..."]) -> int:
    """64 bits of the BLAKE2b of an image's pixels."""
    return int.from_bytes(blake2b(np.ascontiguousarray(image).data, digest_size=8).digest(), "little", signed=True)


class Resident(Store):
    """All pixels in one tensor, on the CPU or on a GPU."""

    def __init__(self, pixels: UInt8[Tensor, "n 3 s s"]) -> None:
        self.pixels, self.side, self.sizes, self.device = pixels, pixels.shape[-1], None, pixels.device

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, index: Int64[Tensor, " b"]) -> UInt8[Tensor, "b 3 s s"]:
        return self.pixels.index_select(0, *to_device([index], self.device))

    def some(self, index: Int64[Tensor, " k"]) -> Self:
        return type(self)(self.take(index))

    def on(self, device: torch.device) -> Self:
        return type(self)(self.pixels.to(device))

    def memory(self, batch_size: int) -> int:
        return self.pixels.numel()

    def content(self) -> Iterator[memoryview]:
        yield self.pixels.cpu().contiguous().numpy().data

    def fingerprints(self) -> Int64[Tensor, " n"]:
        return torch.tensor([fingerprint(image.numpy()) for image in self.pixels.cpu()], dtype=torch.int64)
