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

AHEAD = 2  # batches that threads prepare while one is used
BATCH_SIZE = 512  # images of a forward pass of a frozen encoder: sets memory and speed, and changes no result
COUNTED_AT_ONCE = 16  # images of one histogram step


class Store(ABC):
    """Images by number, from 0 to len - 1.

    `side` is the shorter side of every image in pixels. `sizes` are heights and widths, or None if all are squares.
    """

    side: int
    sizes: Int32[Tensor, "n 2"] | None
    device: torch.device  # of the images that `take` returns

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Int64[Tensor, " b"]) -> UInt8[Tensor, "b 3 h w"]:
        """Returns images by number; `index` is on the CPU.

        Each image lies in the upper left corner. Pixels outside of its size are arbitrary.

        Raises:
            InputError: if an image cannot be read.
        """

    def ahead(self, batches: Iterable[Tensor]) -> None:
        """Starts to prepare the next batches, if the store has threads for it. It changes no image."""
        return

    @abstractmethod
    def some(self, index: Int64[Tensor, " k"]) -> Self:
        """Returns a store of some of the images."""

    @abstractmethod
    def on(self, device: torch.device) -> Self:
        """Returns a store that gives its images on a device."""

    @abstractmethod
    def memory(self, batch_size: int) -> int:
        """Lower bound on the device's bytes for batches of this size."""

    @abstractmethod
    def content(self) -> Iterator[bytes | memoryview]:
        """Bytes that identify the images, in parts."""

    @abstractmethod
    def fingerprints(self) -> Int64[Tensor, " n"]:
        """A hash of each image's pixels."""

    def image_sizes(self, index: Int64[Tensor, " b"]) -> Int64[Tensor, "b 2"] | None:
        """Heights and widths of some images, or None if all are squares."""
        return None if self.sizes is None else self.sizes[index].long()

    def in_turn(self, batches: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields numbers and images of each batch while threads prepare the next ones."""
        for place, index in enumerate(batches):
            images = self.take(index)
            self.ahead(batches[place + 1 : place + 1 + AHEAD])
            yield index, images

    def levels(self) -> Int64[Tensor, "3 256"]:
        """Histogram of pixel values: one row for red, green and blue, one column for each of the 256 levels."""
        counts = torch.zeros(3, 256, dtype=torch.int64)
        for index, images in self.in_turn(torch.arange(len(self)).split(COUNTED_AT_ONCE)):
            for part in pieces(images, self.image_sizes(index)):
                counts += torch.stack([channel.flatten().bincount(minlength=256) for channel in part.unbind(1)]).cpu()
        return counts


def pieces(images: UInt8[Tensor, "b 3 h w"], sizes: Int64[Tensor, "b 2"] | None) -> Iterator[Tensor]:
    """Yields the pixels of all images: the whole batch if all are squares, else one image at a time."""
    if sizes is None:
        yield images
    else:
        yield from (images[n : n + 1, :, :height, :width] for n, (height, width) in enumerate(sizes.tolist()))


def squares(store: Store, index: Int64[Tensor, " b"]) -> UInt8[Tensor, "b 3 s s"]:
    """The central squares of some images, of the shorter side."""
    side = store.side
    return torch.cat(
        [
            image[..., (height - side) // 2 :, (width - side) // 2 :][..., :side, :side]
            for image in pieces(store.take(index), store.image_sizes(index))
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
