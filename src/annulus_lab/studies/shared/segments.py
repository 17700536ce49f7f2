"""Segmentation by a run's frozen encoder: a decoder of its maps, trained on separate images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from annulus.encoders.extract import extract
from annulus.evals.segmentation import centre_masks, segment
from annulus.evals.segmentation_settings import SegmentationSettings
from annulus.files.images import load_images
from annulus.files.results import Number
from annulus.running.checkpoint import hash_files
from annulus.training.loop import Training

SPLITS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Images that a run segments, the hashes of their files, and the decoder's settings."""

    folder: str
    hashes: dict[str, str]
    decoder: SegmentationSettings

    @classmethod
    def from_folder(cls, folder: Path, decoder: SegmentationSettings) -> Self:
        """Segments of a folder that stages/study_images.py wrote."""
        hashes = hash_files(*(folder / f"{split}.safetensors" for split in SPLITS))
        return cls(
            folder=str(folder), hashes={Path(name).name: digest for name, digest in hashes.items()}, decoder=decoder
        )


def evaluate_segments(training: Training, segments: Segments, seed: int) -> dict[str, Number]:
    """Mean IoU and pixel accuracy, in percent, of a decoder of the frozen encoder's maps on the test images.

    Raises:
        InputError: when the images have no masks, or the decoder's loss is not finite.
    """
    encoder = training.method.encoder
    images = [load_images(Path(segments.folder) / f"{split}.safetensors") for split in SPLITS]
    masks = [centre_masks(split, encoder.view_size) for split in images]
    features = [extract(encoder, split, ["map"], training.device) for split in images]
    result = segment(features[0], masks[0], features[1], masks[1], segments.decoder, seed, training.device)
    return {name: result.metrics[name] for name in ("mean_iou_percent", "pixel_accuracy_percent")}
