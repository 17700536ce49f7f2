"""A run whose encoder also segments: its mean IoU is from its frozen maps, and the rest of the run is the same."""

from dataclasses import replace

import pytest
import torch
from settings import CPU, SMALL, load, stripes

from annulus.encoders.extract import extract
from annulus.errors import InputError
from annulus.evals.segmentation import segment
from annulus.evals.segmentation_settings import SegmentationSettings
from annulus.files.images import ImageSet, save_images
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared import runs as module
from annulus_lab.studies.shared.runs import Splits, Trials, build_trial
from annulus_lab.studies.shared.segments import Segments

DECODER = SegmentationSettings(width=8, epochs=2, batch_size=16, learning_rate=0.01)


def with_masks(images: ImageSet) -> ImageSet:
    """The images with masks: class 1 for pixels whose red is above the image's mean, class 0 for others."""
    red = images.images.pixels[:, 0].float()
    return ImageSet(
        images.images, images.labels, images.rows, images.classes, (red > red.mean(dim=(1, 2), keepdim=True)).byte()
    )


@pytest.fixture
def folder(empty_checkout, monkeypatch):
    """Folder of images with masks. Sets one thread, as each run has, since a decoder's sums depend on it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(module, "pick_device", lambda: CPU)
    for split, count, seed in (("train", 40, 5), ("test", 20, 6)):
        save_images(empty_checkout / f"{split}.safetensors", with_masks(stripes(count, seed)))
    yield empty_checkout
    torch.set_num_threads(threads)


def test_mean_iou_is_of_the_frozen_maps_and_changes_nothing_else(folder):
    tree = resolved(
        load(SMALL | {"method": "ir", "split": "lab", "sampler": "uniform", "anneal": "none", "knn.k": 5}), RUN
    )
    splits = Splits(stripes(70, 0), stripes(10, 1), stripes(30, 2), {"train": "made by hand"})
    segments, trials = Segments.from_folder(folder, DECODER), Trials(splits)
    runs = {"plain": build_trial(tree, 0), "segmented": build_trial(tree, 0, segments=segments)}
    assert trials.cached(runs["plain"]).name != trials.cached(runs["segmented"]).name
    outcomes = trials.run(runs)
    more = dict(outcomes["segmented"].metrics)
    training = trials.training(runs["plain"])
    training.run()
    images = [with_masks(stripes(40, 5)), with_masks(stripes(20, 6))]
    train, test = (extract(training.method.encoder, each, ["map"], CPU) for each in images)
    expected = segment(train, images[0].masks, test, images[1].masks, DECODER, 0, CPU).metrics
    for name in ("mean_iou_percent", "pixel_accuracy_percent"):
        assert more.pop(name) == expected[name]
    assert more == outcomes["plain"].metrics
    assert outcomes["segmented"].right == outcomes["plain"].right


def test_other_masks_or_another_decoder_are_another_run(folder):
    one = Segments.from_folder(folder, DECODER)
    assert Segments.from_folder(folder, DECODER) == one
    assert Segments.from_folder(folder, replace(DECODER, width=9)) != one
    images = with_masks(stripes(20, 6))
    images.masks[0, 0, 0] = 1 - images.masks[0, 0, 0]
    save_images(folder / "test.safetensors", images)
    assert Segments.from_folder(folder, DECODER).hashes != one.hashes


def test_images_without_masks_are_refused(folder):
    save_images(folder / "test.safetensors", stripes(20, 6))
    splits = Splits(stripes(70, 0), stripes(10, 1), stripes(30, 2), {})
    run = build_trial(
        resolved(load(SMALL | {"method": "ir", "knn.k": 5}), RUN), 0, segments=Segments.from_folder(folder, DECODER)
    )
    with pytest.raises(InputError, match="these images have no classes of their pixels; segment a data set that has"):
        Trials(splits).run({0: run})
