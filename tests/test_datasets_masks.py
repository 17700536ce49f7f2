"""Images beside labels of their pixels: a right layout is read, and each fault is named."""

import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from annulus.datasets.parts import save_prepared
from annulus.datasets.prepare import prepare_images
from annulus.datasets.settings import MasksSettings, PrepareBudget
from annulus.errors import InputError
from annulus.files.images import ImageSet, load_images

COUNTS = {"train": 6, "test": 3}


@pytest.fixture
def root(tmp_path) -> Path:
    """Images of 24 x 16 pixels whose red is ten times the pixel's class: columns of 8 pixels of three classes.

    Every second label is an indexed PNG with a black palette.
    """
    for split, count in COUNTS.items():
        for number in range(count):
            label = np.repeat(np.array([[number % 3, 3, 255]], np.uint8), 8, axis=1).repeat(16, axis=0)
            red = np.minimum(label, 25)[:, :, None] * np.array([10, 0, 0], np.uint8)
            stored = Image.fromarray(label)
            if number % 2:
                stored.putpalette([0] * 768)
            for kind, image in (("images", Image.fromarray(red)), ("labels", stored)):
                (tmp_path / "own" / split / kind).mkdir(parents=True, exist_ok=True)
                image.save(tmp_path / "own" / split / kind / f"view{number}.png")
    return tmp_path / "own"


def prepare(root: Path):
    params = MasksSettings(root=str(root), image_size=8, view_size=8, validation_fraction=0.5)
    return prepare_images("nyu", params, PrepareBudget(train_images=None, test_images=None, unlabelled_images=None), 0)


def test_masks_lie_on_their_images_and_travel_with_them(root, tmp_path):
    parts = prepare(root)
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
    part = prepare(root).train
    other = part.masks.clone()
    other[0, 0, 0] = 9
    assert ImageSet(part.images, part.labels, part.rows, part.classes, other).digest != part.digest
    assert torch.equal(part.take(torch.tensor([2, 0])).masks, part.masks[[2, 0]])


def png_of_bits(levels: np.ndarray, bits: int) -> bytes:
    """Bytes of a grey PNG of 1 to 8 bits per pixel, a format that Pillow does not write."""
    packed = np.packbits(np.unpackbits(levels[..., None], axis=2)[:, :, -bits:].reshape(len(levels), -1), axis=1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", levels.shape[1], len(levels), bits, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in packed))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_labels_of_few_bits_are_the_numbers_that_they_hold(bits, root):
    levels = np.repeat(np.array([[1, 3, 2]], np.uint8), 8, axis=1).repeat(16, axis=0)
    (root / "test/labels/view0.png").write_bytes(png_of_bits(levels, bits))
    assert prepare(root).test.masks[0].tolist() == [[1] * 2 + [3] * 4 + [2] * 2] * 8


def grey(value, *shape):
    return Image.fromarray(np.full(shape or (16, 24), value, np.uint16 if value > 255 else np.uint8))


@pytest.mark.parametrize(
    ("path", "content", "sentence"),
    [
        ("train/labels/view1.png", None, "train: 1 of 6 files have no label in labels/ .*: view1.png; add them"),
        ("test/images/view2.png", None, "test: 1 of 3 files have no image in images/ .*: view2.png; add them"),
        ("train/labels/view2.png", grey(1, 16, 20), "view2.png has 20 x 16 pixels, .* view2.png 24 x 16; export both"),
        ("test/labels/view0.png", grey(7), "no train image has a pixel of class 7, .*; give both .*, or mark them"),
        ("train/labels/view0.png", grey(894), "view0.png has a pixel of class 894; classes are 0 to 254"),
        ("train/labels/view0.png", Image.new("RGB", (24, 16)), "view0.png has pixels of mode RGB, .*: a grey or ind"),
        (
            "train/labels/view0.png",
            b"no image",
            r"view0.png cannot be read \(not an image .*\); export it as PNG again",
        ),
        ("train/images/view0.jpg", Image.new("RGB", (24, 16)), "images has several files named view0; .* keep one of"),
        (
            "test",
            None,
            r"nyu.root: \S+test/images, \S+test/labels is not a folder; .* needs \{train,test\}/images/NAME.jpg",
        ),
        ("test", ..., r"test/images holds no images; .* needs \{train,test\}/images/NAME.jpg and"),
    ],
)
def test_what_is_not_laid_out_so_is_named(path, content, sentence, root):
    path = root / path
    if content in (None, ...):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content.save(path)
    for kind in ("images", "labels") if content is ... else ():
        (path / kind).mkdir(parents=True)
    with pytest.raises(InputError, match=sentence):
        prepare(root)


@pytest.mark.parametrize("orientation", [3, 6])
def test_an_image_that_is_turned_where_its_label_is_not_is_refused(orientation, root):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (16, 24) if orientation == 6 else (24, 16)).save(root / "train/images/view0.png", exif=exif)
    with pytest.raises(
        InputError, match=f"view0.png is turned by its EXIF orientation {orientation}, .*; save the image"
    ):
        prepare(root)
