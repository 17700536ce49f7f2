"""Sheets of pictures that studies draw: PNG files beside their metrics."""

from dataclasses import dataclass

from PIL import Image

from annulus.files.regular import check_regular
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.figures.pictures import image_uri
from annulus_lab.report.page.sections import Empty
from annulus_lab.report.papers.metrics import Metrics

LARGEST = 920  # pixels a side: less than the width of the page
MOST_PIXELS = 16_000_000  # a usual sheet has 1.5 million; decoding a file of 200 MB takes minutes

# Metrics file: title and finding.
SHEETS = {
    "colour/masks.png": (
        "Images with a class for each pixel",
        "Images that frozen encoders of each colour space segment, each above its mask: a colour for each class, dark "
        "grey for class 0 (the ground, of generated images), white where pixels have none (infomin Section 5.2.2).",
    ),
    "moving_digits/strips.png": (
        "Moving digits and what views share",
        "Above, the first frames of a video: one view. Each column below is a video: its later frame, and the other "
        "view by what it shares with that frame (infomin Section 4.2). What is not shared is the same in all rows.",
    ),
    "cifar10_transfer/targets.png": (
        "Image sets that the encoders never saw",
        "Test images of each target of transfer, classes in turn.",
    ),
    "cifar10_distillation/correlations.png": (
        "Which classes a student scores alike",
        "Correlations of each two classes' scores over the test images: the teacher's less the student's, by what the "
        "student learned from, and their mean size. White: as the teacher.",
    ),
    "detection/pictures/coco.png": (
        "Detectors around frozen encoders",
        "Drawn scenes that no detector saw: the annotated objects, and what the detector around each encoder of the "
        "first seed finds, with its score. Trained with a ring, with uniform negatives, not trained.",
    ),
    "detection/pictures/keypoints.png": (
        "Keypoints around frozen encoders",
        "As above, of drawn persons: limbs between the keypoints.",
    ),
    "detection/pictures/segments.png": (
        "A class for each pixel, by a decoder of frozen maps",
        "Drawn scenes that no decoder saw, the category of each pixel, and what the decoder of each encoder of the "
        "first seed says (infomin Appendix B.3). Trained with a ring, with uniform negatives, not trained.",
    ),
    "view_learning/views.png": (
        "Views that generators make",
        "Above, test images. Below, two views of each: the first in grey, the second's two channels as red and blue. "
        "First the raw channels, then the generators of the first seed (infomin Section 6).",
    ),
}


@dataclass(frozen=True)
class Sheet:
    """A sheet as a data: URI, which runs no script, in the size of the page."""

    name: str
    title: str
    finding: str
    source: str


def sheets(metrics: Metrics) -> list[Sheet | Empty]:
    """Returns every sheet, or the reason if it is missing."""
    return [load_sheet(metrics, name, *words) for name, words in SHEETS.items()]


def load_sheet(metrics: Metrics, name: str, title: str, finding: str) -> Sheet | Empty:
    """Reads one sheet, or returns the reason if it is missing or damaged."""
    path, command = metrics.root / metrics_path(name), metrics.command(name)
    try:
        check_regular(path)
        with Image.open(path, formats=["PNG"]) as image:
            if image.width * image.height > MOST_PIXELS:
                size = f"{image.width} x {image.height}"
                return Empty(f"{metrics_path(name)} has {size} pixels, more than the page takes", command, broken=True)
            return Sheet(name, title, finding, image_uri(image, LARGEST))
    except FileNotFoundError:
        return Empty(f"{metrics_path(name)} is not there", command)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = str(error).replace(f"{metrics.root}/", "")  # Pillow names the file by its whole path
        return Empty(f"{metrics_path(name)} is no PNG file that can be read: {reason}", command, broken=True)
