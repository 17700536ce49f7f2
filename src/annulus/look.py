"""`annulus look PATH`: what own images are, before anything trains on them, and how views change them.

Counts files, classes and splits as `dataset: photos` finds them, sizes and modes, unreadable files and duplicates, and
draws a sheet: six images, and twelve views of each.
"""

import argparse
import hashlib
import logging
import re
import shlex
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from annulus.errors import InputError, require

require(__name__, "pipeline", ["PIL", "pydantic", "tqdm", "yaml"])

import numpy as np
import torch
from PIL import Image

from annulus.datasets.decode import decode, opened, raw_about, reason
from annulus.datasets.folder import named, shown_name
from annulus.datasets.found import Found
from annulus.datasets.photos import find, open_photos
from annulus.datasets.source import Source
from annulus.device.rng import generator
from annulus.device.threads import threads
from annulus.files.images import UNLABELLED
from annulus.files.results import write_bytes
from annulus.files.sheets import png, sheet, tile
from annulus.training.small_data import enough_epochs, steps_of_epoch
from annulus.views.patches import views_of
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet

IMAGES, VIEWS, TILE = 6, 12, 72  # of the sheet; and pixels a side of a picture
NEAR = 4  # bits of 64 in which two images' hashes may differ, to look alike
MOST_COMPARED = 20_000  # images, each with each


@dataclass(frozen=True)
class Looked:
    """What one file is: width, height and mode as stored, the hash of its bytes and of its looks; or why not."""

    size: tuple[int, int] = (0, 0)
    mode: str = ""
    kind: str = ""
    exact: str = ""
    near: int = 0
    bad: str | None = None


def look_at(path: Path) -> Looked:
    """One image file."""
    try:
        size, mode, kind = raw_about(path)
        exact = hashlib.sha256(path.read_bytes()).hexdigest()
        return Looked(size, mode, kind, exact, difference_hash(opened(path)))
    except MemoryError:
        raise
    except Exception as error:  # on broken bytes Pillow's decoders raise about anything
        return Looked(bad=reason(error))


def difference_hash(image: Image.Image) -> int:
    """64 bits that stay about the same when an image is resized, coded again or made brighter.

    Each says whether, of two neighbours in a row of an 8 x 9 grey picture, the right one is brighter.
    """
    small = np.asarray(image.convert("L").resize((9, 8), Image.Resampling.BOX))
    return int.from_bytes(np.packbits(small[:, 1:] > small[:, :-1]).tobytes(), "big")


def exact_groups(looked: Sequence[Looked]) -> list[list[int]]:
    """Positions of files with equal bytes, group after group."""
    groups = defaultdict(list)
    for place, one in enumerate(looked):
        if one.bad is None:
            groups[one.exact].append(place)
    return [places for places in groups.values() if len(places) > 1]


def near_pairs(looked: Sequence[Looked]) -> list[tuple[int, int]]:
    """Positions of files of other bytes whose hashes differ in at most `NEAR` bits.

    A picture of one colour has a hash of zeros: such files are not compared.
    """
    places = np.array([p for p, one in enumerate(looked) if one.bad is None and one.near][:MOST_COMPARED], dtype=int)
    hashes = np.array([looked[place].near for place in places], dtype=np.uint64)
    pairs = []
    for row, place in enumerate(places):
        others = np.flatnonzero(np.bitwise_count(hashes[row + 1 :] ^ hashes[row]) <= NEAR) + row + 1
        pairs += [(int(place), int(places[o])) for o in others if looked[places[o]].exact != looked[place].exact]
    return pairs


def report(path: Path, found: Found, looked: Sequence[Looked]) -> list[tuple[str, str]]:
    """The lines of the table: a heading and what was found."""
    good = [one for one in looked if one.bad is None]
    lines = [("images", f"{len(good):,} ({found.kind})")]
    if found.others:
        lines.append(("no images", f"{_files(found.others)}: {named(found.others)}"))
    bad = [f"{name} ({one.bad})" for name, one in zip(found.names, looked, strict=True) if one.bad is not None]
    lines.append(("unreadable", f"{_files(bad)}: {named(bad)}" if bad else "none"))
    if good:
        widths, heights = zip(*(one.size for one in good), strict=True)
        shorter = [min(one.size) for one in good]
        lines.append(("width", _range(widths)))
        lines.append(("height", _range(heights)))
        lines.append(("shorter side", _range(shorter)))
        lines.append(("modes", _counted(one.mode for one in good)))
        lines.append(("formats", _counted(one.kind for one in good)))
    readable = [place for place, one in enumerate(looked) if one.bad is None]
    classes = Counter(found.classes[place] for place in readable if found.classes[place] is not None)
    without = len(readable) - classes.total()
    told = f"{len(classes)}: {_counted(classes.elements())}" + (f"; {without:,} without" if without else "")
    lines.append(("classes", told if classes else "none, so an encoder trains and no accuracy is measured"))
    counted = _counted(found.splits[place] or "none" for place in readable)
    splits = counted if len({*found.splits}) > 1 else "none: drawn by share and seed"
    lines.append(("splits", splits))
    groups = exact_groups(looked)
    copies = [" = ".join(shown_name(found.names[place]) for place in places) for places in groups]
    lines.append(
        ("equal files", f"{sum(map(len, groups)) - len(groups):,} to spare: {named(copies)}" if groups else "none")
    )
    pairs = near_pairs(looked)
    alike = [f"{shown_name(found.names[one])} ~ {shown_name(found.names[other])}" for one, other in pairs]
    limit = f" (of the first {MOST_COMPARED:,} images)" if len(good) > MOST_COMPARED else ""
    told = f"{len(pairs):,} pair{'s' * (len(pairs) != 1)}: {named(alike)}" if pairs else "none"
    lines.append(("look alike", told + limit))
    return lines


def views_sheet(files: Sequence[Path], views: ViewSet | str, image_size: int, view_size: int) -> Image.Image:
    """A row for each image: as it is stored, then twelve views."""
    rows = []
    for place, file in enumerate(files):
        pixels = torch.from_numpy(decode(file, image_size).transpose(2, 0, 1).copy())
        random = generator(0, "look", place)
        [seen] = views_of(pixels.expand(VIEWS, *pixels.shape), views, view_size, [random])
        drawn = [tile((view.clamp(0, 1) * 255).round().byte(), TILE) for view in seen]
        rows.append(("", [tile(pixels, TILE), None, *drawn]))
    return sheet(rows)


def chosen(named: str | None, params: Path) -> tuple[ViewSet, str, int, int]:
    """The named views, or those that params.yaml chooses, their name, and the sizes of photos.

    Without a file: gentle, 32 px.
    """
    if not params.exists():
        name = "gentle" if named is None else named
        return view_set(name), name, 32, 32
    from annulus.config.file import load_params

    settings = load_params(params)
    photos, name = settings.datasets.photos, settings.views if named is None else named
    views = settings.view_sets[name] if name in settings.view_sets else view_set(name)
    return views, name, photos.image_size, photos.view_size


@dataclass(frozen=True)
class MoreEpochs:
    """A change of params.yaml that few images need to learn something, and why."""

    change: str
    told: str


def more_epochs(parts: Mapping[str, Source], params: Path) -> MoreEpochs | None:
    """Epochs of the scale of params.yaml in which the training images make enough steps; None where it has them."""
    from annulus.config.file import load_params

    settings = load_params(params)
    budget, taken = settings.get("scales.${scale}.pretrain"), settings.get("scales.${scale}.prepare").train_images
    labels = parts["train"].labels
    images = len(labels) if taken is None else min(len(labels), taken)
    if "validation" not in parts and (labels != UNLABELLED).any():
        images -= round(images * settings.datasets.photos.validation_fraction)
    steps, epochs = steps_of_epoch(images, budget), enough_epochs(images, budget)
    if epochs == budget.epochs:
        return None
    told = (
        f"{budget.epochs} epochs of {images:,} training images are {budget.epochs * steps:,} steps, which teach "
        f"little; {epochs:,} are {epochs * steps:,}, as the main line has"
    )
    return MoreEpochs(f"scales.{settings.scale}.pretrain.epochs={epochs}", told)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table and write the sheet."""
    parser = argparse.ArgumentParser(prog="annulus look", description=__doc__, allow_abbrev=False)
    parser.add_argument("path", type=Path, help="a folder, a table, an archive: what datasets.photos.root may be")
    parser.add_argument("--views", help="a set of views; by default that of params.yaml, without it gentle")
    parser.add_argument(
        "--classes", choices=["top", "innermost", "none"], default="top", help="the folder that names a class"
    )
    parser.add_argument("--sheet", type=Path, default=Path("look.png"), help="the PNG to write (look.png)")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    views, name, *sizes = chosen(arguments.views, arguments.params)
    if arguments.sheet.suffix.lower() != ".png":
        raise InputError(f"--sheet {arguments.sheet} is a PNG's name; let it end in .png")
    with tempfile.TemporaryDirectory() as unpacked:
        path = _at_home(arguments.path)
        found = find(path, Path(unpacked), arguments.classes)
        if path.is_dir() and path.resolve() in arguments.sheet.resolve().parents:
            raise InputError(f"--sheet {arguments.sheet} would be one of the images; let it lie in another folder")
        files = [found.root / file for file in found.names]
        with ThreadPoolExecutor(threads()) as pool:
            looked = list(pool.map(look_at, files))
        for head, told in report(arguments.path, found, looked):
            print(f"{head:<14}{told}")
        good = [file for file, one in zip(files, looked, strict=True) if one.bad is None]
        if not good:
            raise InputError(f"no image of {arguments.path} can be read; the table says why")
        refused = None
        try:
            parts = open_photos(found, sizes[0], test_fraction=0.1, seed=0)
        except InputError as error:
            refused = error
            print(f"{'refused':<14}dataset=photos would say: {error}")
        shown = [good[place * len(good) // IMAGES] for place in range(IMAGES)] if len(good) > IMAGES else good
        write_bytes(arguments.sheet, png(views_sheet(shown, views, *sizes)))
        told = f"{len(shown)} images at {sizes[0]} px, {VIEWS} views of each (views: {name})"
        print(f"{'sheet':<14}{arguments.sheet}: {told}")
        if refused is not None:
            sys.exit(1)
        if arguments.params.exists():
            more = more_epochs(parts, arguments.params)
            if more is not None:
                print(f"{'steps':<14}{more.told}")
            print(f"{'next':<14}{_line(arguments.path, arguments.classes, arguments.views, more)}")


def _at_home(path: Path) -> Path:
    """The path with the home folder for ~; that of a user who is not there stays, and does not exist."""
    with suppress(RuntimeError):
        return path.expanduser()
    return path


def _line(path: Path, classes: str, views: str | None, more: MoreEpochs | None) -> str:
    """The command that trains on what was looked at; `views` and `more` None: as params.yaml says."""
    root = str(path.expanduser().absolute())
    if not re.fullmatch(r"[\w ./-]+", root, re.ASCII):  # DVC reads what follows `-S` by Hydra's grammar
        root = '"' + root.replace('"', r"\"") + '"'
    changes = ["dataset=photos", f"datasets.photos.root={root}"]
    if classes != "top":
        changes.append(f"datasets.photos.classes={classes}")
    if views is not None:
        changes.append(f"views={views}")
    if more is not None:
        changes.append(more.change)
    return shlex.join(["dvc", "exp", "run", *(word for change in changes for word in ("-S", change))])


def _range(values: Sequence[int]) -> str:
    return f"{min(values):,} to {max(values):,} px, median {statistics.median_low(values):,}"


def _files(names: Sequence[str]) -> str:
    return f"{len(names):,} file{'s' * (len(names) != 1)}"


def _counted(values: Iterable[str]) -> str:
    counts = Counter(values).most_common()
    return named([f"{name} {count:,}" for name, count in counts])
