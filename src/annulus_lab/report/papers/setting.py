"""How the numbers of a metrics file were made."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus_lab.config.tree import read_tree
from annulus_lab.report.papers.metrics import Broken, Cell, Metrics, Missing
from annulus_lab.studies.shared.study import study_content

# What studies that draw their data draw.
DRAWN = {"estimators": "drawn numbers", "moving_digits": "moving digits", "spirals": "drawn spirals"}
# The data of a detection task, by its kind of annotations, where its pictures are not drawn.
DETECTED = {"masks": "COCO", "keypoints": "COCO", "voc": "Pascal VOC 2007", "lvis": "LVIS"}
ROOTS = (("datasets.folder.root",), ("settings", "root"))  # of a folder's images, in a study of trainings, and others


@dataclass(frozen=True)
class PaperSetting:
    """How numbers were made, as far as their file and their study say."""

    dataset: str | None = None
    scale: str | None = None
    epochs: int | None = None
    seeds: int | None = None
    machine: str | None = None
    drawn: str | None = None  # what a study draws that has no data set
    measured_on: tuple[str, ...] = ()  # other data than the encoders were trained on

    @property
    def data(self) -> frozenset[str]:
        """Plain names of the data sets of training and measurement; an empty one where none is known."""
        return frozenset(map(plain, ((self.dataset or ""), *self.measured_on)))

    def __str__(self) -> str:
        epochs = None if self.epochs is None else f"{self.epochs} epoch{'s' if self.epochs != 1 else ''}"
        seeds = None if self.seeds is None else f"{self.seeds} seed{'s' if self.seeds != 1 else ''}"
        data = self.dataset or self.drawn
        if self.measured_on:
            data = f"trained on {data}, measured on {', '.join(self.measured_on)}"
        return ", ".join(part for part in (data, self.scale, epochs, seeds, self.machine) if part)

    def is_papers(self, pretrain: Mapping[str, Any] | None) -> bool:
        """Whether numbers of this setting can be subtracted from those of a paper: its data set, its scale, and where
        both say it its epochs.
        """
        theirs = pretrain or {}
        epochs = theirs.get("epochs")
        return (
            self.scale in ("paper", "gpu")
            and plain(theirs.get("dataset")) == plain(self.dataset)
            and (None in (epochs, self.epochs) or epochs == self.epochs)
        )


def plain(name: str | None) -> str:
    """A data set's name as papers, settings and folders all have it: CIFAR-10 is cifar10_images."""
    return (name or "").lower().replace("-", "").partition("_")[0]


def read_setting(metrics: Metrics, name: str, *rows: Mapping[str, Cell]) -> PaperSetting:
    """Setting of the numbers of a file, or of some of its rows: of its own columns or fields, else of its study's
    params.yaml. Rows may differ in their data alone.
    """
    study = name.split("/")[0]
    if study in ("main", "summary.json", "summary.csv"):  # a column `epochs` there may be the probe's
        stated = _stated(metrics.root / "params.yaml")
        scale, seeds = _text(stated.get("scale")), stated.get("seeds")
        epochs = _count(_at(stated, "scales", scale, "pretrain", "epochs"))
        count = len(seeds) if isinstance(seeds, list) else None
        return PaperSetting(_text(stated.get("dataset")), scale, epochs, count, processors(metrics))
    own = rows[0] if rows else metrics.values(name) if name.endswith(".json") else metrics.rows(name)[0]
    if study == "benchmarks":
        return PaperSetting(machine=str(own.get("processor", "")) or None)
    stated = stated_of(metrics.root / f"stages/{study}/params.yaml")
    # A study runs every variant with each seed, or a row says how many it took.
    seeds = stated.get("seeds") if "defaults" in stated or rows else None
    # What is drawn or computed at every scale alike has no scale in its file, and none of the study's of today.
    scale = _text(own.get("scale")) or (None if study in DRAWN else _text(stated.get("scale")))
    return PaperSetting(
        dataset=_joined(_own_dataset(row) or _dataset(stated, scale, row) for row in rows or [own]),
        scale=scale,
        epochs=_count(own.get("epochs")),
        seeds=_count(own.get("seeds", len(seeds) if isinstance(seeds, list) else None)),
        drawn=DRAWN.get(study),
        measured_on=tuple(dict.fromkeys(on for row in rows or [own] if (on := _measured_on(stated, scale, row)))),
    )


def conclusive(metrics: Metrics, name: str) -> str:
    """The file that claims and tables read: `name`, or that of the study whose form a study of CIFAR-10 has, where it
    ran at the papers' scale.
    """
    form = name.removeprefix("cifar10_")
    if form == name:
        return name
    try:
        return form if read_setting(metrics, form).scale in ("paper", "gpu") else name
    except (Missing, Broken):
        return name


def _own_dataset(own: Mapping[str, Cell]) -> str | None:
    """The data set that a row names; of a folder the study knows which."""
    name = _text(own.get("dataset"))
    return None if name == "folder" else name


def _joined(names: Iterable[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(name for name in names if name)) or None


def _dataset(stated: Mapping[str, Any], scale: str | None, row: Mapping[str, Cell]) -> str | None:
    """The data set that a study trains on: as its scale changes its defaults, and one of its sets both: that of the
    row's series, or the first.

    One of the user's own images has the name of their folder. Moving digits are those of the paper if digits and
    backgrounds are of its folders.
    """
    world = stated.get("world")
    if isinstance(world, dict):
        folders = [plain(Path(str(world[key])).name) for key in ("digits", "grounds") if world.get(key)]
        return "Colorful-Moving-MNIST" if folders == ["mnist", "stl10"] else None
    sets = stated.get("sets")
    changes = [_at(own, scale) for own in sets.values()] if isinstance(sets, dict) else [None]
    names = [_chosen(stated, scale, own) for own in changes]
    series = _text(row.get("series"))
    return series if series in names else names[0]


def _chosen(stated: Mapping[str, Any], scale: str | None, changes: object) -> str | None:
    """The data set where a set changes those of the scale."""
    scaled = _at(stated, "scales", scale)
    choices = [changes, scaled, _at(scaled, "images"), stated.get("defaults"), stated.get("images")]
    name = next(filter(None, (_text(_at(choice, "dataset")) for choice in choices)), None)
    root = next(filter(None, (_text(_at(choice, *keys)) for choice in choices for keys in ROOTS)), None)
    return Path(root).name if name == "folder" and root else name


def _measured_on(stated: Mapping[str, Any], scale: str | None, row: Mapping[str, Cell]) -> str | None:
    """Other data than the encoders': the target of a transfer, or the scenes of a detection task."""
    task = _at(stated, "tasks", row.get("task"))
    if task is None:
        return _text(row.get("target"))
    folders = (_at(choice, "scenes", "roots", row.get("task")) for choice in (_at(stated, "scales", scale), stated))
    return DETECTED[_at(task, "kind")] if next(filter(None, folders), None) else "drawn scenes"


def processors(metrics: Metrics) -> str | None:
    """What computed the main line, as its pretraining says: one name, or one for each kind of machine."""
    try:
        runs = metrics.by_seed("main/pretrain.json").values()
    except (Missing, Broken):
        return None
    return "; ".join(dict.fromkeys(str(run["processor"]) for run in runs if "processor" in run)) or None


@cache
def stated_of(path: Path) -> dict[str, Any]:
    """A study's parameters, of its params.yaml; nothing where its dvc.lock says that numbers are of another file."""
    try:
        return {} if _edited(path) else study_content(path)
    except InputError:
        return {}


def _edited(path: Path) -> bool:
    """True for a file that is not the one that its study's dvc.lock names."""
    try:  # the lock as text: as YAML its thousands of lines take long
        lock, content = read_text(path.with_name("dvc.lock")), path.read_bytes()
    except (OSError, UnicodeDecodeError):
        return False
    locked = re.search(r"path: params\.yaml\n +hash: md5\n +md5: (\w+)", lock)
    return locked is not None and locked[1] != hashlib.md5(content).hexdigest()


@cache
def _stated(path: Path) -> dict[str, Any]:
    """A parameter file, or nothing where it cannot be read: that is for the stages to complain of."""
    try:
        return read_tree(path)
    except InputError:
        return {}


def _at(tree: object, *keys: object) -> object:
    """What stands under these keys, or nothing."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
