"""Picture of the nearest training images of the same test images, by the encoders of two sides.

A row is a query. Its neighbours by the base stand at the left and by the head at the right, the most similar first. A
frame marks an image of the query's class. A neighbour of both sides is pale.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Int64
from PIL import Image, ImageDraw
from torch import Tensor

from annulus.diagnostics.examples import spread_queries
from annulus.diagnostics.neighbours import SIDE, picture
from annulus.encoders.features import load_features
from annulus.errors import InputError
from annulus.evals.knn import search
from annulus.files.images import UNLABELLED, ImageSet, load_images
from annulus.files.results import write_bytes
from annulus.files.sheets import png, sheet
from annulus_lab.compare.outputs import outputs
from annulus_lab.compare.sides import Side

SHOWN = 6  # neighbours of a side
FRAME, SAME, PALE = 5, "#1560a8", 0.45  # pixels; colour; weight of a pale picture beside white


class SideNeighbours(NamedTuple):
    """Images of a side, its queries, and the training rows nearest to each query."""

    train: ImageSet
    test: ImageSet
    queries: Int64[Tensor, " q"]
    nearest: Int64[Tensor, "q k"]


def draw_neighbours(root: Path, names: tuple[str, str], sides: tuple[Side, Side], path: Path) -> None:
    """Writes the picture of two sides, by their first common seed; `names` are the words of the command line.

    Raises:
        InputError: when the sides have no common seed or different images, or a side's features are missing.
    """
    seeds = sorted(set(sides[0].seeds) & set(sides[1].seeds))
    if not seeds:
        raise InputError(f"{sides[0].name} and {sides[1].name} share no seed; neighbours are compared by one seed")
    with ExitStack() as stack:
        folders = [stack.enter_context(outputs(root, name)) for name in names]
        base, head = (_nearest(folder, side, seeds[0]) for folder, side in zip(folders, sides, strict=True))
        if (base.train.digest, base.test.digest) != (head.train.digest, head.test.digest):
            raise InputError(
                f"{sides[0].name} and {sides[1].name} have other images; neighbours are compared on the same ones"
            )
        write_bytes(path, png(neighbours_picture(base, head, (sides[0].name, sides[1].name))))


def neighbours_picture(base: SideNeighbours, head: SideNeighbours, names: tuple[str, str]) -> Image.Image:
    """Picture of both sides; queries and images are the base's."""
    rows = []
    for query, left, right in zip(base.queries.tolist(), base.nearest.tolist(), head.nearest.tolist(), strict=True):
        label, both = int(base.test.labels[query]), set(left) & set(right)
        groups = ([_tile(base.train, row, label, row in both) for row in nearest] for nearest in (left, right))
        first, second = groups
        rows.append(("", [picture(base.test, query, SIDE), None, *first, None, *second]))
    columns = (2, 3 + base.nearest.shape[1])
    return sheet(rows, headings={column: name[:60] for name, column in zip(names, columns, strict=True)})


def _nearest(folder: Path, side: Side, seed: int) -> SideNeighbours:
    train, test = (load_images(folder / "images" / f"{split}.safetensors") for split in ("train", "test"))
    layer = side.params["knn.layer"]
    bank, queries = (load_features(folder / "features" / str(seed), split).layer(layer) for split in ("train", "test"))
    if len(bank) > len(train) or len(queries) > len(test):
        raise InputError(f"{side.name} has features of more images than it has; run `dvc repro` there")
    query_rows = spread_queries(test.labels[: len(queries)], seed, "test")
    return SideNeighbours(train, test, query_rows, search(bank, queries[query_rows], min(SHOWN, len(bank)))[1])


def _tile(images: ImageSet, row: int, label: int, both: bool) -> Image.Image:
    tile = picture(images, row, SIDE)
    if both:
        tile = Image.blend(Image.new("RGB", tile.size, "white"), tile, PALE)
    if label != UNLABELLED and int(images.labels[row]) == label:
        ImageDraw.Draw(tile).rectangle((0, 0, SIDE - 1, SIDE - 1), outline=SAME, width=FRAME)
    return tile
