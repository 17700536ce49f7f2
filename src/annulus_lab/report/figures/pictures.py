"""Small pictures for the page: test images with their nearest neighbours, and the negatives of each sampler.

`data/main/examples.safetensors`, of the diagnostics stage, has the image numbers; `data/main/images` has the pixels.
"""

import base64
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open

from annulus.errors import InputError
from annulus.files.images import UNLABELLED, load_images
from annulus.files.store import pieces
from annulus_lab.pipeline.stale import is_other

SAMPLERS = ("uniform", "ball", "ring", "cave")
SIMILARITY = "test_similarity"
LARGEST = 96  # pixels a side; larger images are reduced
QUALITY = 55  # of WebP


class NoPictures(Exception):
    """There are no pictures: a file is missing (with the command that makes it) or damaged."""

    def __init__(self, reason: str, command: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.command = reason, command


@dataclass(frozen=True)
class Tile:
    """One image as a data: URI, and its class. `same`: True if it has the query's class; None for a query or an image
    without a class."""

    source: str
    name: str
    same: bool | None
    similarity: float | None


@dataclass(frozen=True)
class Strip:
    """A query and its images, most similar first."""

    label: str
    query: Tile
    tiles: list[Tile]


@dataclass(frozen=True)
class Pictures:
    neighbours: list[Strip]
    negatives: list[list[Strip]]  # per query, a strip for each sampler


def pictures(root: Path) -> Pictures:
    """Returns the grids of the current encoder.

    Raises:
        NoPictures: when a file is missing (with the command that makes it) or damaged.
    """
    if is_other(root, "data/main/examples.safetensors"):
        raise NoPictures("data/main/examples.safetensors is of another run than dvc.lock names", "make repro")
    examples = _examples(root)
    train, test = (_Images(root, f"images/{split}.safetensors") for split in ("train", "test"))
    neighbours = []
    for row, columns, similarities in _with_queries(examples, "test_queries", "test_neighbours", SIMILARITY):
        query = test.tile(int(row))
        tiles = [train.tile(int(c), query, float(s)) for c, s in zip(columns, similarities, strict=True)]
        neighbours.append(Strip("test image", query, tiles))
    negatives: list[list[Strip]] = [[] for _ in _array(examples, "train_queries")]
    for sampler in SAMPLERS:
        if f"negatives_{sampler}" not in examples:  # the sampler had no set
            continue
        for place, (row, columns) in enumerate(_with_queries(examples, "train_queries", f"negatives_{sampler}")):
            query = train.tile(int(row))
            tiles = [train.tile(int(c), query) for c in columns if c >= 0]  # a small set is filled up with -1
            negatives[place].append(Strip(sampler, query, tiles))
    return Pictures(neighbours, negatives)


class _Images:
    """One split's images, read on demand."""

    def __init__(self, root: Path, name: str) -> None:
        self.name, path = name, _path(root, name)
        try:
            self.images = load_images(path)
        except InputError as error:
            raise NoPictures(f"data/main/{name} cannot be read: {error}") from error

    def tile(self, row: int, query: Tile | None = None, similarity: float | None = None) -> Tile:
        if not 0 <= row < len(self.images):
            raise NoPictures(f"examples.safetensors names image {row} of {self.name}, which has {len(self.images)}")
        label, index = int(self.images.labels[row]), torch.tensor([row])
        name = "" if label == UNLABELLED else self.images.classes[label]
        try:
            [image] = pieces(self.images.images.take(index), self.images.images.image_sizes(index))
        except InputError as error:
            raise NoPictures(f"data/main/{self.name} cannot be read: {error}") from error
        pixels = Image.fromarray(np.ascontiguousarray(image[0].permute(1, 2, 0)))
        return Tile(
            image_uri(pixels, LARGEST), name, None if query is None or not name else name == query.name, similarity
        )


def image_uri(image: Image.Image, longest: int) -> str:
    """Returns an image as a data: URI, at most `longest` pixels a side. WebP: a fifth of PNG's bytes."""
    image = image.convert("RGBA" if "A" in image.getbands() else "RGB")
    image.thumbnail((longest, longest))
    file = io.BytesIO()
    image.save(file, "WEBP", quality=QUALITY, method=6)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


def _with_queries(examples: dict[str, np.ndarray], queries: str, *names: str) -> list[tuple]:
    """Returns each query with its row of each array in `names`. These arrays have one shape."""
    first, *others = (_array(examples, name) for name in (queries, *names))
    for name, other in zip(names, others, strict=True):
        if other.ndim != 2 or other.shape != others[0].shape or len(other) != len(first):
            shapes = f"{len(first)} of {queries}, {' x '.join(map(str, other.shape))} of {name}"
            raise NoPictures(f"examples.safetensors has {shapes}; run `dvc repro diagnostics` again")
    return list(zip(first, *others, strict=True))


def _array(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Returns an array: image numbers as integers, similarities as floats."""
    if name not in arrays:
        raise NoPictures(f"a file has no {name}; run `dvc repro diagnostics` again")
    return arrays[name].astype(np.float64 if name == SIMILARITY else np.int64)


def _path(root: Path, name: str) -> Path:
    path = root / "data" / "main" / name
    if not path.is_file():
        raise NoPictures(f"data/main/{name} is not here", "make repro")
    return path


def _examples(root: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of the diagnostics' examples."""
    try:
        with safe_open(_path(root, "examples.safetensors"), framework="numpy") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError, ValueError) as error:
        raise NoPictures(f"data/main/examples.safetensors cannot be read: {error}") from error
