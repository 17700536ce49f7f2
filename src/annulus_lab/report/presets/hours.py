"""Hours of a preset, from its timed runs or from images per second of ResNet-18, both in metrics/.

The seconds of a timed run include its probes. Rows of cifar10_later have the seconds of their base, which was timed in
cifar10_algorithms with the same images, network and epochs. At the papers' scale the hours are estimated for an H200.
Without either, pretraining alone with ResNet-18 takes

    epochs * images * networks * (view_size / 32)^2 / images_per_second

since a convolution's work is proportional to the pixels. The images per second at 32 pixels are in metrics/benchmarks.
Other networks have no hours.
"""

import csv
import io
from itertools import product
from math import isnan, nan
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus.files.results import read_metrics
from annulus_lab.config.all_params import AllParams
from annulus_lab.report.presets.h200 import STEPS, PretrainingTime, estimate
from annulus_lab.report.presets.preset import Preset, Presets
from annulus_lab.report.presets.tables import SCALE, TablePresets, TableRow, load_study
from annulus_lab.studies.detection.tasks import detector_settings
from annulus_lab.studies.shared.study import Study
from annulus_lab.studies.view_learning.view_learning_study import ViewLearningParams

LOOKS = "metrics/searches/cifar10_algorithms.csv"
BENCHMARKS = "metrics/benchmarks"
PAPER_STUDIES = f"{BENCHMARKS}/paper_studies.json"
LATER = f"{BENCHMARKS}/later.json"  # steps of later losses beside IR's
BASES = {"ir": "IR-nce", "moco": "MoCo"}  # rows of cifar10_algorithms that are the bases of later rows, by method
H200, V100 = "an NVIDIA H200", "8 NVIDIA V100"
CIFAR_IMAGES = 50_000  # training images of CIFAR-10


class StudyTime(NamedTuple):
    """Hours of all seeds in sequence as text, the machine, and the runs with the source."""

    hours: str
    machine: str
    details: str


def hours(root: Path, presets: Presets, preset: Preset) -> str:
    """Returns a line: hours of all seeds of a preset in sequence, machine and source, or "not known".

    Raises:
        InputError: when a file of metrics is damaged.
    """
    params = presets.params(preset)
    timed = _timed_runs(root, presets, preset, params.method)
    if timed is None and presets.scale == SCALE:
        timed = _on_h200(estimate(root, params))
    return _line(timed or _resnet18(root, params), len(presets.seeds), f"{BENCHMARKS}, {LOOKS}")


def row_hours(root: Path, tables: TablePresets, row: TableRow) -> list[str]:
    """Returns lines with the hours of each part of a row at the papers' scale, or "not known".

    Raises:
        InputError: when a file of metrics is damaged.
    """
    lines = []
    if row.row is not None:
        timed = _on_h200(pretraining(root, tables, row))
        lines.append(_line(timed, len(tables.params(row).seeds), BENCHMARKS))
    match row.study:
        case "detection":
            lines += [_detector(tables.root, row, stage.partition("@")[2]) for stage in row.stages]
        case str() if row.row is None:
            time = study_time(root, row)
            unknown = f"hours: not known; the study {row.study} was not timed at scale: {SCALE}"
            lines.append(unknown if time is None else f"hours: {time.hours} on {time.machine}: {time.details}")
    return lines


def _line(timed: tuple[float, str, str] | None, seeds: int, files: str) -> str:
    """Returns the line of seconds, machine and source of one training; `files`: where a timing would stand."""
    if timed is None:
        return f"hours: not known; no such run was timed ({files})"
    seconds, machine, source = timed
    each = f"{two_digits(seconds)} s" if seconds < 3600 else f"{two_digits(seconds / 3600)} h"
    least = "at least " * (machine == H200)  # an estimate that leaves out what slows a larger network
    all_seeds = f"{seeds} seed{'s' * (seeds > 1)}"
    return f"hours: {least}{two_digits(seeds * seconds / 3600)} on {machine}: {all_seeds}, {each} each ({source})"


def _on_h200(timing: PretrainingTime | None) -> tuple[float, str, str] | None:
    """Returns seconds of an estimated pretraining, machine and formula."""
    return None if timing is None else (timing.seconds, H200, f"pretraining alone, estimated: {timing.formula}")


def pretraining(root: Path, tables: TablePresets, row: TableRow) -> PretrainingTime | None:
    """Returns the time of one pretraining of a row on an H200; None without a pretraining or an estimate."""
    return None if row.row is None else estimate(root, tables.params(row))


def detector_hours(root: Path, row: TableRow) -> float | None:
    """Returns the hours of a row's detectors around one encoder on eight V100; None if the row has none."""
    tasks = [stage.partition("@")[2] for stage in row.stages] if row.study == "detection" else []
    return None if not tasks else sum(_iterations(root, row, task) * row.seconds[task] for task in tasks) / 3600


def _iterations(root: Path, row: TableRow, task: str) -> int:
    study = load_study(root, "detection")
    own = study.content["tasks"][task]["configuration"]
    return detector_settings(study, row.study_changes.get(f"tasks.{task}.configuration", own))[1].scaled().iterations


def _detector(root: Path, row: TableRow, task: str) -> str:
    """Returns the hours of a task's detectors by Detectron2's own times."""
    iterations, seconds = _iterations(root, row, task), row.seconds[task]
    return (
        f"hours of {task}: about {two_digits(iterations * seconds / 3600)} on {V100} for each encoder and seed "
        f"({iterations} iterations of 16 images, {seconds:g} s each with the nearest network of Detectron2's "
        "MODEL_ZOO.md)"
    )


def _classifiers(root: Path, row: TableRow) -> StudyTime | None:
    """Returns the time of the students of a row's pairs, or of its teachers alone."""
    timed, study = _metrics(root / BENCHMARKS / "distillation.json"), load_study(root, "distillation")
    if row.stages:
        names = row.study_changes["teachers"]
        minutes, seeds, details = [timed.get(f"{name}_teacher_minutes") for name in names], 1, f"{len(names)} teachers"
    else:
        pairs = row.study_changes["pairs"]
        minutes, seeds = [timed.get(f"{pair['name']}_student_minutes") for pair in pairs], len(study.params.seeds)
        details = f"{len(pairs)} students with a contrastive loss"
    if None in minutes:
        return None
    hours, each = sum(minutes) / 60, f"{seeds} seed{'s' * (seeds > 1)}"
    return StudyTime(
        two_digits(seeds * hours),
        f"{timed['threads']} cores of {timed['processor']}",
        f"{each}, {two_digits(hours)} h each ({details}, {BENCHMARKS}/distillation.json)",
    )


def study_time(root: Path, row: TableRow) -> StudyTime | None:
    """Returns the time of a row that a study runs from its own settings alone; None for others or without a timing."""
    if row.row is not None or row.study in (None, "detection"):
        return None
    if row.study == "distillation":
        return _classifiers(root, row)
    if row.study == "view_learning":
        return _views(root)
    study, timed = load_study(root, str(row.study)), _metrics(root / PAPER_STUDIES)
    seeds = len(study.params.seeds)
    if row.study == "moving_digits":
        sharings = len(row.study_changes.get("training.sharings", study.content["training"]["sharings"]))
        details = f"{seeds} seeds of {sharings} sharing{'s' * (sharings > 1)} and of the supervised network"
        hours = seeds * (sharings * timed.get("sharing_hours", nan) + timed.get("supervised_hours", nan))
    else:
        details, hours = f"the stage {row.stages[0]}", timed.get(f"{row.stages[0]}_hours", nan)
    if isnan(hours):
        return None
    return StudyTime(two_digits(hours), f"one core of {timed['processor']}", f"{details} ({PAPER_STUDIES})")


def _views(root: Path) -> StudyTime | None:
    """Returns the time of the encoders of all learned views, which are trained on STL-10."""
    study = Study(root / "params.yaml", root / "stages" / "view_learning" / "params.yaml", SCALE)
    own = study.read(ViewLearningParams)
    spaces = [str(generator["space"]) for generator in own.generators.values()]
    views = [*spaces, *dict.fromkeys(spaces)]  # and the raw channels of each space
    backbones = list(study.value_at_scale(own.backbones, "backbones"))
    variants = (
        study.variant("views", {"split": space, "backbone": backbone}, own.seeds[0])
        for space, backbone in product(views, backbones)
    )
    seconds = [timing.seconds for timing in (estimate(root, variant) for variant in variants) if timing is not None]
    if not seconds:
        return None
    details = f"{len(own.seeds)} seeds of {len(views)} views and {len(backbones)} networks "
    details += f"(pretraining alone, estimated as that of other rows, {STEPS})"
    return StudyTime(f"at least {two_digits(len(own.seeds) * sum(seconds) / 3600)}", H200, details)


def _timed_runs(root: Path, presets: Presets, preset: Preset, method: str) -> tuple[float, str, str] | None:
    """Returns seconds of a whole run, machine and source; None if no run of the study at its scale was timed."""
    if any(key.endswith("pretrain.epochs") for key in preset.settings):  # an untrained network's row
        return None
    match presets.name, presets.scale:
        case "algorithms", "demo":
            timed = _metrics(root / BENCHMARKS / "sweep.json")
            if not timed:
                return None
            mean = f"mean of {timed['runs']} runs of six rows, {BENCHMARKS}/sweep.json"
            return timed["runs_own_seconds"] / timed["runs"], f"one core of {timed['processor']}", mean
        case ("cifar10_algorithms" | "cifar10_later") as study, "demo":
            # Runs with another temperature or share count too: these settings do not change the time.
            timed_row = preset.row if study == "cifar10_algorithms" else BASES.get(method)
            looks = [float(row["seconds"]) for row in _rows(root / LOOKS) if row["row"] == timed_row]
            if not looks:
                return None
            source = f"median of {len(looks)} runs of {timed_row}, {LOOKS}"
            if study == "cifar10_later":
                source += f"; {LATER} has how much longer a step takes"
            return median(looks), "a processor that the file does not name", source
    return None


def _resnet18(root: Path, params: AllParams) -> tuple[float, str, str] | None:
    """Returns seconds of a pretraining by the module's formula, machine and formula; None for other networks."""
    backbone = params.get("backbones.${backbone}")
    images = _images(params)
    if backbone.architecture != "resnet18" or images is None:
        return None
    stem = f"{backbone.stem}_stem"
    if params.method == "ir":
        file, speed = "step", f"{stem}_bare_images_per_second"
        share = f"{stem}_{'uniform' if params.sampler == 'uniform' else 'ring'}_percent_of_bare"
    else:
        file, speed, share = "methods", f"{params.method}_{stem}_images_per_second", None
    timed = _metrics(root / BENCHMARKS / f"{file}.json")
    if speed not in timed:
        return None
    rate = timed[speed] * (timed[share] / 100 if share else 1)
    size, epochs = params.get("datasets.${dataset}").view_size, params.get("scales.${scale}.pretrain").epochs
    networks = 1 if params.split == "none" else 2
    larger = (size / timed["pixels"]) ** 2
    machine = f"{timed['threads']} cores of {timed['processor']}"
    formula = (
        f"pretraining alone: {epochs} epochs * {images} images * {networks} network{'s' * (networks > 1)} * "
        f"({size} / {timed['pixels']} px)^2 / {rate:.0f} images/s of {BENCHMARKS}/{file}.json"
    )
    return epochs * images * networks * larger / rate, machine, formula


def _images(params: AllParams) -> int | None:
    """Returns the number of training images without validation; None if the settings do not give it."""
    prepared, dataset = params.get("scales.${scale}.prepare"), params.get("datasets.${dataset}")
    images = prepared.train_images
    if images is None:
        images = (
            CIFAR_IMAGES if "cifar10" in (params.dataset, Path(dataset.root).name.removesuffix("_images")) else None
        )
    return None if images is None else images - round(images * dataset.validation_fraction)


def _metrics(path: Path) -> dict[str, Any]:
    return read_metrics(path) if path.exists() else {}


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    rows = list(csv.DictReader(io.StringIO(read_text(path))))
    if rows and not {"row", "seconds"} <= rows[0].keys():
        raise InputError(f"{path} has no columns row and seconds; take the file from git: git checkout {path}")
    return rows


def two_digits(number: float) -> str:
    """Returns a number with two digits, or all digits before the point."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"
