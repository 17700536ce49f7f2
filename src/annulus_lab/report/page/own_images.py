"""The first screen of own images: their number, a sheet, nearest neighbours, map, curve, and sentences on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from annulus.diagnostics.neighbours import SIDE, picture
from annulus.errors import InputError
from annulus.files.images import load_images
from annulus.files.sheets import sheet
from annulus_lab.pipeline.revision import workspace
from annulus_lab.pipeline.stale import read_yaml
from annulus_lab.report.figures.pictures import image_uri
from annulus_lab.report.page.first_screen import OtherRun
from annulus_lab.report.page.sections import Empty, Map, PageFigure, current_metrics, part
from annulus_lab.report.page.sheets import LARGEST, Sheet, load_sheet
from annulus_lab.report.papers.metrics import Cell, Metrics
from annulus_lab.report.papers.tables import number

OWN = ("photos", "folder")  # data sets of own images
COLUMNS, ROWS = 8, 3  # of the sheet
NEIGHBOURS = "main/neighbours.png"
CROPS = {"": "the encoder", "_pixels": "pixels", "_colour": "mean colour"}


@dataclass(frozen=True)
class OwnImages:
    """The heading, the pictures, and sentences on their meaning."""

    sentence: str
    sentences: list[str]
    sheet: Sheet | Empty
    neighbours: Sheet | Empty
    map: Map | Empty
    curve: PageFigure


def own_images(metrics: Metrics, map_: Map | Empty, curve: PageFigure) -> OwnImages | None:
    """Returns the first screen; None for another data set, or before a run."""
    if _dataset(metrics.root) not in OWN:
        return None
    words = part(lambda: _words(metrics), metrics, "summary.csv")
    if isinstance(words, Empty):
        return None
    return OwnImages(*words, _sheet(metrics.root), _neighbours(metrics), map_, curve)


def _dataset(root: Path) -> str | None:
    """Returns the data set of the main line's metrics, by dvc.lock."""
    try:
        return read_yaml(workspace(root), "dvc.lock")["stages"]["summary"]["params"]["params.yaml"]["dataset"]
    except (LookupError, TypeError, InputError):
        return None


def _words(metrics: Metrics) -> tuple[str, list[str]]:
    """Returns the heading, and the sentences below the pictures."""
    rows = {str(row.get("number")): row for row in metrics.rows("summary.csv")}
    prepared = metrics.values("main/prepare.json")
    images = f"{prepared['train_images']:,} own images"
    sentences = []
    if "crop_retrieval_percent" in rows:
        shares = {name: rows[f"crop_retrieval{key}_percent"] for key, name in CROPS.items()}
        encoder, *others = shares.values()
        sentence = f"{images}: the nearest neighbour of {_share(encoder)} of crops is another crop of the same image"
        knn = next(iter(metrics.by_seed("main/knn.json").values()))
        by = ", ".join(f"by {name} {_share(row)}" for name, row in shares.items())
        sentences.append(
            f"Crops of {knn['crop_retrieval_images']} test images, which the encoder has not seen, find their "
            f"own image: {by}, by chance {number(knn['crop_retrieval_chance_percent'], 1)} %."
        )
        sentences.append(_verdict(encoder, others))
    elif "linear_top1_percent" in rows:
        share = _share(rows["linear_top1_percent"])
        sentence = f"{images} of {prepared['classes']} classes: a linear probe is right on {share} of test images"
    else:
        sentence = f"{images} trained the main line's encoders"
    return sentence, [*sentences, *_notes(rows)]


def _verdict(encoder: Mapping[str, Cell], others: Sequence[Mapping[str, Cell]]) -> str:
    """Compares the encoder with the best of the others, beyond its interval; one seed gets no verdict."""
    if encoder["interval"] == "":
        return "Of one seed this is no verdict on whether the encoder is above pixels and mean colour."
    if float(encoder["mean"]) - float(encoder["interval"]) > max(float(row["mean"]) for row in others):
        return "The encoder is above pixels and mean colour: it has learned something about these images."
    return (
        "The encoder is not clearly above pixels and mean colour: it has learned little. More epochs may help; "
        "`annulus look PATH` names a number of epochs."
    )


def _notes(rows: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    """Returns sentences that hold for each run."""
    if any(row["interval"] != "" for row in rows.values()):
        interval = "± is half of the 95 % interval over seeds, of accuracies also over test images."
    else:
        interval = "One seed has no interval. Several do: `-S 'seeds=[0,1,2]'`."
    return [
        interval,
        "Neighbours and the map show what the encoder takes for alike, which need not be what a person does.",
        "The bound grows as two views of an image find one another among the negatives. At its ceiling they always do.",
    ]


def _share(row: Mapping[str, Cell]) -> str:
    half = f" ± {number(float(row['interval']), 1)}" if row["interval"] != "" else ""
    return f"{number(float(row['mean']), 1)}{half} %"


def _sheet(root: Path) -> Sheet | Empty:
    """Returns a sheet of training images, evenly spaced in the set."""
    folder = root / "data" / "main" / "images"
    try:
        images = load_images(folder / "train.safetensors")
        count = min(len(images), COLUMNS * ROWS)
        rows = (torch.arange(count) * len(images) // count).tolist()
        pictures = [picture(images, row, SIDE) for row in rows]
    except InputError as error:
        return Empty(str(error).replace(f"{root}/", ""), "make repro")
    image = sheet([("", pictures[start : start + COLUMNS]) for start in range(0, count, COLUMNS)])
    finding = f"{count} of {len(images):,}, as the encoder sees them: central squares of {images.images.side} px."
    return Sheet("own/images.png", "Training images", finding, image_uri(image, LARGEST))


def _neighbours(metrics: Metrics) -> Sheet | Empty:
    title, finding = "Nearest neighbours", "Test images at the left, and the training images nearest to each."
    try:
        current_metrics(metrics, NEIGHBOURS)
    except OtherRun as error:
        return Empty(str(error), metrics.command(NEIGHBOURS))
    return load_sheet(metrics, NEIGHBOURS, title, finding)
