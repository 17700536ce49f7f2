"""Images beside labels of their pixels: what lies where is read as such, and anything else is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from annulus.config.images import MasksParams
from annulus.config.training import PrepareScale
from annulus.datasets.prepare import prepare_images, save_prepared
from annulus.errors import InputError
from annulus.files.images import load_images

COUNTS = {"train": 6, "test": 3}


def save(root: Path, split: str, name: str, label: np.ndarray, mode: str = "L", size: tuple[int, int] = (24, 16)):
    """An image of 24 x 16 pixels whose red is ten times the pixel's class, and its label."""
    red = np.zeros((size[1], size[0], 3), np.uint8)
    if red.shape[:2] == label.shape:
        red[:, :, 0] = np.minimum(label, 25) * 10
    for kind, image in (("images", Image.fromarray(red)), ("labels", Image.fromarray(label))):
        (root / split / kind).mkdir(parents=True, exist_ok=True)
        if kind == "labels" and mode == "P":
            image = image.copy()
            image.putpalette([0] * 768)  # colours say nothing
        image.save(root / split / kind / f"{name}.png")


@pytest.fixture
def root(tmp_path) -> Path:
    """Columns of 8 pixels of classes; every second label is an indexed PNG."""
    for split, count in COUNTS.items():
        for number in range(count):
            label = np.repeat(np.array([[number % 3, 3, 255]], np.uint8), 8, axis=1).repeat(16, axis=0)
            save(tmp_path / "own", split, f"view{number}", label, "LP"[number % 2])
    return tmp_path / "own"


def prepared(root: Path, images: int | None = None):
    params = MasksParams(root=str(root), image_size=8, view_size=8, validation_fraction=0.5)
    return prepare_images("nyu", params, PrepareScale(train_images=images, test_images=None), 0)


def test_masks_lie_on_their_images_and_travel_with_them(root, tmp_path):
    parts = prepared(root)
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (3, 3, 3)
    save_prepared(tmp_path / "images", parts)
    for split in ("train", "validation", "test"):
        part = load_images(tmp_path / "images" / f"{split}.safetensors")
        assert part.digest == getattr(parts, split).digest
        for image, mask, row in zip(part.images.pixels, part.masks, part.rows.tolist(), strict=True):
            # The middle 16 of 24 pixels, halved: two pixels of the first column, four of the second, two of the third.
            assert mask.tolist() == [[row % 3] * 2 + [3] * 4 + [255] * 2] * 8
            inner = [0, 3, 4, 7]  # away from edges, which the image blurs
            assert (image[0][:, inner] // 10).tolist() == [[row % 3, 3, 3, 25]] * 8


def test_a_mask_is_part_of_the_digest_and_follows_its_image(root):
    parts = prepared(root)
    other = parts.train.masks.clone()
    other[0, 0, 0] = 9
    assert type(parts.train).of(*vars_of(parts.train), other).digest != parts.train.digest
    assert torch.equal(parts.train.take(torch.tensor([2, 0])).masks, parts.train.masks[[2, 0]])


def vars_of(images):
    return images.images, images.labels, images.rows, images.classes


def lose(root, *names):
    for name in names:
        (root / name).unlink()


def label(root, name, value, shape=(16, 24)):
    Image.fromarray(np.full(shape, value, np.uint16 if value > 255 else np.uint8)).save(root / f"{name}.png")


WRONG = {
    "image without label": (
        lambda root: lose(root, "train/labels/view1.png", "train/labels/view4.png"),
        r"train: 2 of 6 files have no label in labels/ of the same name: view1.png, view4.png; add them",
    ),
    "label without image": (
        lambda root: lose(root, "test/images/view2.png"),
        r"test: 1 of 3 files have no image in images/ of the same name: view2.png; add them",
    ),
    "sizes": (
        lambda root: label(root, "train/labels/view2", 1, (16, 20)),
        r"view2.png has 20 x 16 pixels, its image view2.png 24 x 16; export both at one size",
    ),
    "classes of test": (
        lambda root: label(root, "test/labels/view0", 7),
        r"no train image has a pixel of class 7, and test images have; give both splits images of them, or mark them",
    ),
    "too many classes": (
        lambda root: label(root, "train/labels/view0", 894),
        r"view0.png has a pixel of class 894; at most 255 classes, 0 to 254, are read, and 255 is ignored",
    ),
    "colours": (
        lambda root: Image.new("RGB", (24, 16)).save(root / "train/labels/view0.png"),
        r"view0.png has pixels of mode RGB, expected one class a pixel: a grey or indexed PNG",
    ),
    "broken": (
        lambda root: (root / "train/labels/view0.png").write_bytes(b"no image"),
        r"view0.png cannot be read \(not an image in a format that is read here\); export it as PNG again",
    ),
    "two of a name": (
        lambda root: Image.new("RGB", (24, 16)).save(root / "train/images/view0.jpg"),
        r"images has several files named view0; an image has one label, so keep one of each",
    ),
    "no folder": (
        lambda root: (root / "test").rename(root / "tests"),
        r"nyu.root: \S+test/images, \S+test/labels is no folder; .* needs \{train,test\}/images/NAME.jpg and",
    ),
    "no images": (
        lambda root: lose(root, *(f"test/{kind}/view{n}.png" for kind in ("images", "labels") for n in range(3))),
        r"test/images holds no images; .* needs \{train,test\}/images/NAME.jpg and",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_laid_out_so_is_named(wrong, root):
    spoil, said = WRONG[wrong]
    spoil(root)
    with pytest.raises(InputError, match=said):
        prepared(root)
