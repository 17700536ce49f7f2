"""`annulus look PATH`: a table of your own images before training, and a sheet of their views.

The table has files, classes and splits as `dataset: photos` lists them, sizes and modes, unreadable files and
duplicates. The sheet shows six images, and twelve views of each.
"""

import argparse
import hashlib
import logging
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from annulus.errors import InputError, require

require(__name__, "look", ["PIL", "tqdm"])

import numpy as np
import torch
from jaxtyping import Bool
from PIL import Image
from torch import Tensor

from annulus.datasets.decode import decode, opened, raw_about, reason
from annulus.datasets.folder import MOST_NAMED, join_names, printable
from annulus.datasets.listing import ImageListing
from annulus.datasets.photos import find, open_photos
from annulus.datasets.source import Source
from annulus.device.rng import generator
from annulus.device.threads import threads
from annulus.files.results import check_folder, write_bytes
from annulus.files.sheets import png, sheet, shortened, tile
from annulus.views.patches import draw_views
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet

IMAGES, VIEWS, TILE = 6, 12, 72  # of the sheet; pixels a side of a picture
NEAR = 4  # largest number of different bits, of 64, in the hashes of images that look alike
MOST_COMPARED = 20_000  # images, pair by pair


@dataclass(frozen=True)
class ImageFacts:
    """Facts about one file: width, height, mode and format as stored, and hashes of bytes and content; or its fault."""

    size: tuple[int, int] = (0, 0)
    mode: str = ""
    kind: str = ""
    exact: str = ""
    near: int = 0
    bad: str | None = None


def look_at(path: Path) -> ImageFacts:
    """Reads the facts of one image file."""
    try:
        size, mode, kind = raw_about(path)
        exact = hashlib.sha256(path.read_bytes()).hexdigest()
        return ImageFacts(size, mode, kind, exact, difference_hash(opened(path)))
    except MemoryError:
        raise
    except Exception as error:  # on broken bytes Pillow's decoders raise about anything
        return ImageFacts(bad=reason(error))


def difference_hash(image: Image.Image) -> int:
    """Hash of 64 bits that changes little if an image is resized, coded again or made brighter.

    A bit is 1 if, of two neighbours in a row of an 8 x 9 grey picture, the right one is brighter.
    """
    small = np.asarray(image.convert("L").resize((9, 8), Image.Resampling.BOX))
    return int.from_bytes(np.packbits(small[:, 1:] > small[:, :-1]).tobytes(), "big")


def exact_groups(facts: Sequence[ImageFacts]) -> list[list[int]]:
    """Groups of positions of files with equal bytes."""
    groups = defaultdict(list)
    for place, image in enumerate(facts):
        if image.bad is None:
            groups[image.exact].append(place)
    return [places for places in groups.values() if len(places) > 1]


def near_pairs(facts: Sequence[ImageFacts]) -> tuple[int, list[tuple[int, int]]]:
    """Counts pairs of files with different bytes whose hashes differ in at most `NEAR` bits.

    Also returns the positions of the first `MOST_NAMED` pairs. Pictures of one colour have a hash of zeros and are not
    compared.
    """
    places = [place for place, image in enumerate(facts) if image.bad is None and image.near][:MOST_COMPARED]
    hashes = np.array([facts[place].near for place in places], dtype=np.uint64)
    _, exact = np.unique([facts[place].exact for place in places], return_inverse=True)
    count, named = 0, []
    for row, place in enumerate(places):
        alike = (np.bitwise_count(hashes[row + 1 :] ^ hashes[row]) <= NEAR) & (exact[row + 1 :] != exact[row])
        count += int(alike.sum())
        if len(named) < MOST_NAMED:
            others = np.flatnonzero(alike)[: MOST_NAMED - len(named)] + row + 1
            named += [(place, places[other]) for other in others]
    return count, named


def report(path: Path, listing: ImageListing, facts: Sequence[ImageFacts]) -> list[tuple[str, str]]:
    """The lines of the table: a heading and a text."""
    good = [image for image in facts if image.bad is None]
    lines = [("images", f"{len(good):,} ({listing.kind})")]
    if listing.others:
        lines.append(("no images", f"{_files(listing.others)}: {join_names(listing.others)}"))
    bad = [f"{name} ({image.bad})" for name, image in zip(listing.names, facts, strict=True) if image.bad is not None]
    lines.append(("unreadable", f"{_files(bad)}: {join_names(bad)}" if bad else "none"))
    if good:
        widths, heights = zip(*(image.size for image in good), strict=True)
        shorter = [min(image.size) for image in good]
        lines.append(("width", _range(widths)))
        lines.append(("height", _range(heights)))
        lines.append(("shorter side", _range(shorter)))
        lines.append(("modes", _counted(image.mode for image in good)))
        lines.append(("formats", _counted(image.kind for image in good)))
    readable = [place for place, image in enumerate(facts) if image.bad is None]
    classes = Counter(listing.classes[place] for place in readable if listing.classes[place] is not None)
    without = len(readable) - classes.total()
    text = f"{len(classes)}: {_counted(classes.elements())}" + (f"; {without:,} without" if without else "")
    lines.append(("classes", text if classes else "none, so an encoder trains and no accuracy is measured"))
    counted = _counted(listing.splits[place] or "none" for place in readable)
    splits = counted if len({*listing.splits}) > 1 else "none: drawn by share and seed"
    lines.append(("splits", splits))
    groups = exact_groups(facts)
    copies = [join_names([listing.names[place] for place in places], between=" = ") for places in groups]
    lines.append(
        ("equal files", f"{sum(map(len, groups)) - len(groups):,} to spare: {join_names(copies)}" if groups else "none")
    )
    count, pairs = near_pairs(facts)
    alike = [f"{printable(listing.names[first])} ~ {printable(listing.names[second])}" for first, second in pairs]
    limit = f" (of the first {MOST_COMPARED:,} images)" if len(good) > MOST_COMPARED else ""
    text = f"{count:,} pair{'s' * (count != 1)}: {join_names(alike, count)}" if count else "none"
    lines.append(("look alike", text + limit))
    return lines


def views_sheet(files: Sequence[Path], views: ViewSet | str, name: str, image_size: int, view_size: int) -> Image.Image:
    """Draws a row for each image: its file's name, the stored image, then twelve views. `name` is of the views."""
    rows = []
    for place, file in enumerate(files):
        pixels = torch.from_numpy(decode(file, image_size).transpose(2, 0, 1).copy())
        random = generator(0, "look", place)
        [image_views] = draw_views(pixels.expand(VIEWS, *pixels.shape), views, view_size, [random])
        tiles = [tile((view.clamp(0, 1) * 255).round().byte(), TILE) for view in image_views]
        rows.append((shortened(file.name), [tile(pixels, TILE), None, *tiles]))
    headings = {0: f"{image_size} px", 2: f"views as training draws them: {name}, {view_size} px"}
    return sheet(rows, headings=headings)


class LookedParts(NamedTuple):
    """Sources of the parts, as training opens them, and the readable rows of each."""

    sources: Mapping[str, Source]
    readable: Mapping[str, Bool[Tensor, "n"]]


def look(
    path: Path,
    classes: str,
    sheet: Path,
    views: ViewSet | str,
    name: str,
    image_size: int,
    view_size: int,
    test_fraction: float = 0.1,
    seed: int = 0,
) -> LookedParts:
    """Prints the table, writes the sheet, and returns the parts. `test_fraction` and `seed` draw the test part.

    Raises:
        InputError: if there is no image, or the sheet would lie among the images.
        SystemExit: with status 1, after table and sheet, if training would raise an error for the images.
    """
    if sheet.suffix.lower() != ".png":
        raise InputError(f"--sheet {sheet} does not end in .png; name a PNG file")
    check_folder("--sheet", sheet)
    with tempfile.TemporaryDirectory() as unpacked:
        own = _at_home(path)
        listing = find(own, Path(unpacked), classes)
        if own.is_dir() and own.resolve() in sheet.resolve().parents:
            raise InputError(f"--sheet {sheet} would be one of the images; name a file in another folder")
        files = [listing.root / file for file in listing.names]
        with ThreadPoolExecutor(threads()) as pool:
            facts = list(pool.map(look_at, files))
        for head, text in report(path, listing, facts):
            print(f"{head:<14}{text}")
        good = [file for file, image in zip(files, facts, strict=True) if image.bad is None]
        if not good:
            raise InputError(f"no image of {path} can be read; see the table")
        parts = None
        try:
            parts = open_photos(listing, image_size, test_fraction, seed)
        except InputError as error:
            print(f"{'refused':<14}dataset=photos would say: {error}")
        chosen = [good[place * len(good) // IMAGES] for place in range(IMAGES)] if len(good) > IMAGES else good
        write_bytes(sheet, png(views_sheet(chosen, views, name, image_size, view_size)))
        print(f"{'sheet':<14}{sheet}: {len(chosen)} images at {image_size} px, {VIEWS} views of each (views: {name})")
        if parts is None:
            sys.exit(1)
        known = {*good}
        readable = {part: torch.tensor([file in known for file in source.files]) for part, source in parts.items()}
        return LookedParts(parts, readable)


def parser(description: str | None = __doc__) -> argparse.ArgumentParser:
    """The command's arguments."""
    words = argparse.ArgumentParser(prog="annulus look", description=description, allow_abbrev=False)
    words.add_argument("path", type=Path, help="a folder, a table, an archive: any value of datasets.photos.root")
    words.add_argument("--views", help="a set of views; by default that of params.yaml, without it gentle")
    words.add_argument(
        "--classes", choices=["top", "innermost", "none"], default="top", help="the folder that names a class"
    )
    words.add_argument("--sheet", type=Path, default=Path("look.png"), help="the PNG to write (look.png)")
    return words


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command at 32 px."""
    arguments = parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    look(arguments.path, arguments.classes, arguments.sheet, *gentle(arguments.views))


def gentle(views: str | None) -> tuple[ViewSet, str, int, int]:
    """The set of views (by default gentle), its name, and the sizes of images and views in pixels."""
    name = "gentle" if views is None else views
    return view_set(name), name, 32, 32


def _at_home(path: Path) -> Path:
    """Replaces ~ by the home folder; the ~ of an unknown user stays."""
    with suppress(RuntimeError):
        return path.expanduser()
    return path


def _range(values: Sequence[int]) -> str:
    return f"{min(values):,} to {max(values):,} px, median {statistics.median_low(values):,}"


def _files(names: Sequence[str]) -> str:
    return f"{len(names):,} file{'s' * (len(names) != 1)}"


def _counted(values: Iterable[str]) -> str:
    counts = Counter(values).most_common()
    return join_names([f"{name} {count:,}" for name, count in counts])
