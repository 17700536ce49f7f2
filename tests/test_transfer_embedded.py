"""Targets without files: balanced classes, the same bytes everywhere, and classes that differ in their pixels."""

import hashlib
import json

import pytest
import torch

from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.sheets import GAP
from annulus.files.store import Resident
from annulus_lab.studies.transfer.classes import test_classes as held_out
from annulus_lab.studies.transfer.embedded import TEXTURES
from annulus_lab.studies.transfer.prepared import prepare_target
from annulus_lab.studies.transfer.sheet import SHOWN, TILE, target_sheet
from annulus_lab.studies.transfer.target import open_target
from annulus_lab.studies.transfer.transfer_params import EMBEDDED

BYTES = {"textures": "b1a135003792", "outlines": "c76efdd37ba7", "hues": "c71b03f3b994"}


def open_small(name, seed=0):
    return open_target(name, None, 20, {"train": 240, "test": 120}, seed)


def read_images(source):
    images, bad = source.read(torch.arange(120))
    assert not bad
    return images


@pytest.mark.parametrize("name", EMBEDDED)
def test_train_and_test_are_other_images_of_the_same_classes_and_the_same_bytes_everywhere(name):
    train, test = open_small(name).values()
    assert train.classes == test.classes
    assert train.labels.bincount().min() >= 120 // len(train.classes)
    images = read_images(train)
    assert len(torch.cat([images, read_images(test)]).flatten(1).unique(dim=0)) == 240
    assert torch.equal(train.read(torch.tensor([7, 3]))[0], images[[7, 3]]), "an image depends on its row only"
    if name in BYTES:
        assert hashlib.sha256(images.numpy().tobytes()).hexdigest()[:12] == BYTES[name]
        assert not torch.equal(images, read_images(open_small(name, seed=1)["train"]))


def test_hues_are_told_by_their_most_saturated_pixels_and_outlines_are_grey():
    source = open_small("hues")["train"]
    images = read_images(source).float()
    chroma = images.amax(dim=1) - images.amin(dim=1)
    best = chroma.flatten(1).argmax(dim=1)
    red, green, blue = (images.flatten(2)[torch.arange(120), :, best] / 255).unbind(1)
    hue = torch.atan2(3**0.5 * (green - blue), 2 * red - green - blue).rad2deg() % 360
    apart = (hue - 30 * source.labels[:120] + 180) % 360 - 180
    assert apart.abs().max() < 20, "classes are 30 degrees apart"
    outlines = read_images(open_small("outlines")["train"])
    assert torch.equal(outlines[:, 0], outlines[:, 1])


def test_textures_are_told_by_their_heights():
    """Heights of unlike textures at the same places differ."""
    axis = torch.arange(0, 4096, 7).numpy().astype("int32")
    planes = [each(axis[None], axis[:, None]) + 0 * axis[None] * axis[:, None] for each in TEXTURES.values()]
    for plane in planes:
        assert plane.min() >= -256
        assert plane.max() <= 256
        assert plane.max() - plane.min() > 200
    for place, plane in enumerate(planes):
        assert all(abs(plane - other).mean() > 50 for other in planes[:place])


def test_a_target_is_prepared_within_its_limits_and_nothing_is_cut_for_validation():
    images = {"train_images": 50, "test_images": 30, "max_bad_files": 0, "store": "jpeg"}
    settings = {"target": "digits", "root": None, "images": images, "image_size": 12, "seed": 0}
    with prepare_target(settings) as prepared:
        assert [len(part) for part in (prepared.train, prepared.validation, prepared.test)] == [50, 0, 30]
        assert prepared.train.labels.bincount().tolist() == [5] * 10
        assert prepared.train.images.side == 12
    few = prepare_target(settings | {"images": images | {"train_images": 5}})
    with pytest.raises(InputError, match="train_images 5 is fewer than the 10 classes"), few:
        pass
    with pytest.raises(InputError, match=r"targets: 'aircrafts' is none of digits, .*; did you mean 'aircraft'\?"):
        open_small("aircrafts")


def test_the_sheet_has_a_row_for_each_target_and_takes_classes_in_turn():
    levels = torch.tensor([0, 0, 10, 20])
    pixels = levels.view(4, 1, 1, 1).expand(4, 3, 8, 8).to(torch.uint8).contiguous()
    labels = torch.tensor([0, 0, 2, 1])
    images = ImageSet(Resident(pixels), labels, torch.arange(4), ("a", "b", "c"))
    picture = target_sheet({"one": images, "two": images})
    columns = min(SHOWN, len(images))
    left = picture.width - columns * (TILE + GAP)
    assert picture.height == 2 * (TILE + GAP) + GAP
    middle = GAP + TILE // 2
    reds = [picture.getpixel((left + place * (TILE + GAP) + 5, middle))[0] for place in range(4)]
    assert reds == [0, 20, 10, 0]


def test_episodes_are_of_the_classes_that_meta_dataset_holds_out(tmp_path):
    (tmp_path / "dtd_splits.json").write_text(json.dumps({"train": ["a"], "valid": [], "test": ["c", "b"]}))
    (tmp_path / "vgg_flower_splits.json").write_text(json.dumps({"test": ["002.orchid"]}))
    assert held_out("dtd", ["a", "b", "c"], str(tmp_path)) == [1, 2]
    assert held_out("dtd", ["a", "b", "c"], None) == [0, 1, 2]
    assert held_out("digits", ["0", "1"], str(tmp_path)) == [0, 1], "Meta-Dataset does not divide it"
    assert held_out("vggflower", ["001.pink", "002.hard-leaved orchid"], str(tmp_path)) == [1]
    (tmp_path / "vgg_flower_splits.json").write_text('{"test": [2, 1]}')  # as in Meta-Dataset's first files
    assert held_out("vggflower", ["001.pink", "002.hard-leaved orchid", "003.lily"], str(tmp_path)) == [0, 1]
    for wrong in ([103], [None], [[1]], 5, "ab"):
        (tmp_path / "vgg_flower_splits.json").write_text(json.dumps({"test": wrong}))
        with pytest.raises(InputError, match=r"vgg_flower_splits.json.* few_shot.class_splits is a folder"):
            held_out("vggflower", ["001.pink", "002.orchid"], str(tmp_path))
    with pytest.raises(InputError, match=r"dtd_splits.json has no key 'b', or dtd has no such class; few_shot.cl"):
        held_out("dtd", ["a", "c"], str(tmp_path))
    with pytest.raises(InputError, match=r"fungi_splits.json is missing or not a file of class splits .*meta-dataset"):
        held_out("fungi", ["a"], str(tmp_path))
    (tmp_path / "fungi_splits.json").write_text("[]")
    with pytest.raises(InputError, match="is missing or not a file of class splits"):
        held_out("fungi", ["a"], str(tmp_path))
