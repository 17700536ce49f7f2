"""Setting of the numbers of a metrics file: data set, scale, epochs, seeds, machine."""

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

# Data of the studies that generate their own.
SYNTHETIC = {"estimators": "drawn numbers", "moving_digits": "moving digits", "spirals": "drawn spirals"}
# Data of a detection task with images from files, by its kind of annotations.
DETECTION_DATA = {"masks": "COCO", "keypoints": "COCO", "voc": "Pascal VOC 2007", "lvis": "LVIS"}
ROOTS = (("datasets.folder.root",), ("settings", "root"))  # of a folder of images: studies of trainings, others


@dataclass(frozen=True)
class PaperSetting:
    """Setting of numbers, from their file and their study; None: not known."""

    dataset: str | None = None
    scale: str | None = None
    epochs: int | None = None
    seeds: int | None = None
    machine: str | None = None
    synthetic: str | None = None  # data that a study generates in place of a data set
    measurement_data: tuple[str, ...] = ()  # data of the measurement, if the encoders were trained on others

    @property
    def data(self) -> frozenset[str]:
        """Plain names of the data sets of training and measurement; "" for an unknown training set."""
        return frozenset(map(plain, ((self.dataset or ""), *self.measurement_data)))

    def __str__(self) -> str:
        epochs = None if self.epochs is None else f"{self.epochs} epoch{'s' if self.epochs != 1 else ''}"
        seeds = None if self.seeds is None else f"{self.seeds} seed{'s' if self.seeds != 1 else ''}"
        data = self.dataset or self.synthetic
        if self.measurement_data:
            data = f"trained on {data}, measured on {', '.join(self.measurement_data)}"
        return ", ".join(part for part in (data, self.scale, epochs, seeds, self.machine) if part)

    def matches_paper(self, pretrain: Mapping[str, Any] | None) -> bool:
        """True if a paper's numbers can be subtracted: its data set, its scale, and its epochs if both are known."""
        theirs = pretrain or {}
        epochs = theirs.get("epochs")
        return (
            self.scale in ("paper", "gpu")
            and plain(theirs.get("dataset")) == plain(self.dataset)
            and (None in (epochs, self.epochs) or epochs == self.epochs)
        )


def plain(name: str | None) -> str:
    """Returns a data set's name in plain letters: cifar10 for CIFAR-10 and cifar10_images."""
    return (name or "").lower().replace("-", "").partition("_")[0]


def read_setting(metrics: Metrics, name: str, *rows: Mapping[str, Cell]) -> PaperSetting:
    """Returns the setting of a file's numbers, or of some of its rows. Rows may differ only in their data.

    It comes from the file's columns or fields, else from the study's params.yaml.
    """
    study = name.split("/")[0]
    if study in ("main", "summary.json", "summary.csv"):  # a column `epochs` there may be the probe's
        params = _read_params(metrics.root / "params.yaml")
        scale, seeds = _text(params.get("scale")), params.get("seeds")
        epochs = _count(_at(params, "scales", scale, "pretrain", "epochs"))
        count = len(seeds) if isinstance(seeds, list) else None
        return PaperSetting(_text(params.get("dataset")), scale, epochs, count, processors(metrics))
    own = rows[0] if rows else metrics.values(name) if name.endswith(".json") else metrics.rows(name)[0]
    if study == "benchmarks":
        return PaperSetting(machine=str(own.get("processor", "")) or None)
    params = study_params(metrics.root / f"stages/{study}/params.yaml")
    # A study runs every variant with each seed; a row's own count of seeds comes first.
    seeds = params.get("seeds") if "defaults" in params or rows else None
    # Data that is the same at every scale has no scale in its file, and the study's current scale is not its scale.
    scale = _text(own.get("scale")) or (None if study in SYNTHETIC else _text(params.get("scale")))
    return PaperSetting(
        dataset=_join(_own_dataset(row) or _dataset(params, scale, row) for row in rows or [own]),
        scale=scale,
        epochs=_count(own.get("epochs")),
        seeds=_count(own.get("seeds", len(seeds) if isinstance(seeds, list) else None)),
        synthetic=SYNTHETIC.get(study),
        measurement_data=tuple(
            dict.fromkeys(on for row in rows or [own] if (on := _measurement_data(params, scale, row)))
        ),
    )


def conclusive_file(metrics: Metrics, name: str) -> str:
    """Returns the file that claims and tables read.

    For a study cifar10_X it is the file of the study X, if X ran at the papers' scale; else `name`.
    """
    form = name.removeprefix("cifar10_")
    if form == name:
        return name
    try:
        return form if read_setting(metrics, form).scale in ("paper", "gpu") else name
    except (Missing, Broken):
        return name


def _own_dataset(own: Mapping[str, Cell]) -> str | None:
    """Returns the data set that a row names; None for a folder, whose name the study has."""
    name = _text(own.get("dataset"))
    return None if name == "folder" else name


def _join(names: Iterable[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(name for name in names if name)) or None


def _dataset(params: Mapping[str, Any], scale: str | None, row: Mapping[str, Cell]) -> str | None:
    """Returns the data set that a study trains on. Its scale changes its defaults; one of its sets changes both.

    The set has the data set of the row's series, else it is the first. A folder of images has the folder's name. Moving
    digits are the paper's if digits and backgrounds come from its folders.
    """
    world = params.get("world")
    if isinstance(world, dict):
        folders = [plain(Path(str(world[key])).name) for key in ("digits", "grounds") if world.get(key)]
        return "Colorful-Moving-MNIST" if folders == ["mnist", "stl10"] else None
    sets = params.get("sets")
    changes = [_at(own, scale) for own in sets.values()] if isinstance(sets, dict) else [None]
    names = [_choose_dataset(params, scale, own) for own in changes]
    series = _text(row.get("series"))
    return series if series in names else names[0]


def _choose_dataset(params: Mapping[str, Any], scale: str | None, changes: object) -> str | None:
    """Returns the data set from a set's changes, else the scale's, else the study's."""
    scaled = _at(params, "scales", scale)
    choices = [changes, scaled, _at(scaled, "images"), params.get("defaults"), params.get("images")]
    name = next(filter(None, (_text(_at(choice, "dataset")) for choice in choices)), None)
    root = next(filter(None, (_text(_at(choice, *keys)) for choice in choices for keys in ROOTS)), None)
    return Path(root).name if name == "folder" and root else name


def _measurement_data(params: Mapping[str, Any], scale: str | None, row: Mapping[str, Cell]) -> str | None:
    """Returns the data of the measurement: the target of a transfer, or the scenes of a detection task; else None."""
    task = _at(params, "tasks", row.get("task"))
    if task is None:
        return _text(row.get("target"))
    folders = (_at(choice, "scenes", "roots", row.get("task")) for choice in (_at(params, "scales", scale), params))
    return DETECTION_DATA[_at(task, "kind")] if next(filter(None, folders), None) else "drawn scenes"


def processors(metrics: Metrics) -> str | None:
    """Returns the processors of the main line's pretraining: one name for each kind of machine."""
    try:
        runs = metrics.by_seed("main/pretrain.json").values()
    except (Missing, Broken):
        return None
    return "; ".join(dict.fromkeys(str(run["processor"]) for run in runs if "processor" in run)) or None


@cache
def study_params(path: Path) -> dict[str, Any]:
    """Returns a study's params.yaml; empty if its dvc.lock names another version of it."""
    try:
        return {} if _differs_from_lock(path) else study_content(path)
    except InputError:
        return {}


def _differs_from_lock(path: Path) -> bool:
    """True for a params.yaml with another MD5 than its study's dvc.lock has."""
    try:  # parsing the lock's thousands of lines as YAML takes long
        lock, content = read_text(path.with_name("dvc.lock")), path.read_bytes()
    except (OSError, UnicodeDecodeError):
        return False
    lock_md5 = re.search(r"path: params\.yaml\n +hash: md5\n +md5: (\w+)", lock)
    return lock_md5 is not None and lock_md5[1] != hashlib.md5(content).hexdigest()


@cache
def _read_params(path: Path) -> dict[str, Any]:
    """Returns a parameter file; empty if it cannot be read, since the stages report that."""
    try:
        return read_tree(path)
    except InputError:
        return {}


def _at(tree: object, *keys: object) -> object:
    """Returns the value under these keys, or None."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
