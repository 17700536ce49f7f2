"""`cifar10`, `cifar100`, `stl10`: torchvision's sets, downloaded into a root on first use."""

import http.client
import socket
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Int64, UInt8
from torch import Tensor
from torchvision.datasets import CIFAR10, CIFAR100, STL10
from torchvision.datasets.utils import check_integrity

from annulus.datasets.source import Source
from annulus.errors import InputError

SETS = {"cifar10": CIFAR10, "cifar100": CIFAR100, "stl10": STL10}
SECONDS_OF_SILENCE = 30.0  # of a server until an error; torchvision would wait for ever
RESIZED_AT_ONCE = 1024  # images, as float32


def open_download(name: str, root: Path, image_size: int, unlabelled: bool = False) -> dict[str, Source]:
    """Opens train and test of one set, and downloads them if they are not in `root`.

    torchvision checks the MD5 of every CIFAR file before it unpickles it, so only the authors' files are unpickled.
    With `unlabelled`, STL-10's 100,000 images without a class follow its 5,000 training images.

    Raises:
        InputError: if a file is missing and cannot be downloaded.
    """
    kind = SETS[name]
    archive = root / kind.filename
    existed = archive.exists()
    try:
        with patience():
            sets = {split: _open(kind, root, split, unlabelled) for split in ("train", "test")}
    except (OSError, RuntimeError, EOFError, tarfile.TarError, http.client.HTTPException) as error:
        damaged = archive.is_file() and not check_integrity(str(archive), kind.tgz_md5)
        if damaged and not existed:
            archive.unlink()  # an incomplete download
        fault = f"{archive} is cut or another file (its MD5 is not {kind.tgz_md5}); " if damaged and existed else ""
        raise InputError(
            f"{fault}dataset {name} is not in {root} and cannot be downloaded ({error}). "
            f"Put {kind.filename} from {kind.url} there by hand, "
            "or put your own images into folders and set dataset: folder"
        ) from error
    return {split: _source(images, image_size) for split, images in sets.items()}


def resized(images: UInt8[Tensor, "n c h w"], size: int) -> UInt8[Tensor, "n c y x"]:
    """Resizes squares to `size` pixels, antialiased bilinear; returns the images themselves if they have that size."""
    if images.shape[-1] == size:
        return images
    out = torch.empty(*images.shape[:2], size, size, dtype=torch.uint8)
    for start in range(0, len(images), RESIZED_AT_ONCE):
        some = images[start : start + RESIZED_AT_ONCE].float()
        some = F.interpolate(some, size=(size, size), mode="bilinear", antialias=True)
        out[start : start + RESIZED_AT_ONCE] = some.round().clamp(0, 255)
    return out


def _open(kind: type, root: Path, split: str, unlabelled: bool) -> CIFAR10 | STL10:
    if kind is STL10:
        both = unlabelled and split == "train"
        return STL10(root, split="train+unlabeled" if both else split, download=True)
    return kind(root, train=split == "train", download=True)


def _source(images: CIFAR10 | STL10, image_size: int) -> Source:
    if isinstance(images, STL10):
        pixels, labels = torch.from_numpy(images.data), images.labels  # (n, 3, 96, 96)
    else:
        pixels, labels = torch.from_numpy(images.data).permute(0, 3, 1, 2), images.targets  # stored (n, 32, 32, 3)

    def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
        return resized(pixels[rows].contiguous(), image_size), {}

    return Source(tuple(images.classes), torch.as_tensor(labels, dtype=torch.int64), read)


@contextmanager
def patience() -> Iterator[None]:
    """Context in which torchvision's downloads raise an error if a server is silent."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SECONDS_OF_SILENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
