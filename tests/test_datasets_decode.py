import io
import struct
import warnings
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from annulus.datasets.decode import FORMATS, decode, decode_files


@pytest.fixture
def photograph(generator) -> Image.Image:
    """Image of 40 x 24 pixels, smooth enough for JPEG."""
    coarse = torch.randint(256, (5, 8, 3), generator=generator, dtype=torch.uint8)
    return Image.fromarray(coarse.numpy()).resize((40, 24), Image.Resampling.BICUBIC)


def reference(image: Image.Image, size: int) -> np.ndarray:
    """Result of torchvision's pipeline for an RGB image."""
    return np.asarray(transforms.CenterCrop(size)(transforms.Resize(size)(image)))


def save(image: Image.Image, path, **options):
    image.save(path, **options)
    return path


MODES = ["RGB", "L", "1", "P", "CMYK", "RGBA", "LA", "YCbCr", "I;16", "I", "HSV"]


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "avif", "jp2", "bmp", "gif", "tif", "ppm"])
def test_every_mode_of_every_format_reads_as_pillow_shows_it(photograph, suffix, tmp_path):
    read = []
    for mode in MODES:
        grey = mode.startswith("I")
        if (grey and suffix not in ("png", "tif", "ppm")) or (mode, suffix) == ("I", "tif"):
            continue  # in these formats Pillow clips 16-bit grey when it writes, and such a TIFF has 32 bits
        image = photograph.convert(mode)
        if grey:
            image = Image.fromarray(np.asarray(photograph.convert("L")).astype(np.uint16) * 257).convert(mode)
        path = tmp_path / f"{mode.replace(';', ' ')}.{suffix}"
        try:
            image.save(path)
        except (OSError, ValueError):
            continue  # a format without this mode
        with Image.open(path) as stored:
            expected = photograph.convert("L").convert("RGB") if grey else stored.convert("RGB")
        np.testing.assert_array_equal(decode(path, 24), reference(expected, 24))
        read.append(mode)
    assert {"RGB", "L"} <= set(read)


@pytest.mark.parametrize("size", [(40, 24), (25, 39)])
def test_the_square_is_central_to_the_fraction_of_a_pixel(photograph, size, tmp_path):
    """For these sizes torchvision rounds the long side down, and the corner of the crop."""
    image = photograph.resize(size)
    left, top = (max(0, a - b) / 2 for a, b in (size, size[::-1]))
    box = (left, top, left + min(size), top + min(size))
    expected = np.asarray(image.resize((10, 10), Image.Resampling.BILINEAR, box=box))
    np.testing.assert_array_equal(decode(save(image, tmp_path / "a.png"), 10), expected)


def test_an_image_of_the_right_size_is_untouched_and_a_very_long_one_takes_no_memory(photograph, tmp_path):
    image = photograph.crop((0, 0, 24, 24))
    np.testing.assert_array_equal(decode(save(image, tmp_path / "a.png"), 24), np.asarray(image))
    image = Image.new("RGB", (30_000, 1), "red")
    np.testing.assert_array_equal(decode(save(image, tmp_path / "a.png"), 256)[0, 0], [255, 0, 0])


@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
def test_transparent_parts_lie_on_white(photograph, suffix, tmp_path):
    alpha = np.tile(np.linspace(0, 255, 24).astype(np.uint8), (24, 1))
    image = photograph.crop((0, 0, 24, 24))
    image.putalpha(Image.fromarray(alpha))
    options = {"lossless": True, "exact": True} if suffix == "webp" else {}
    ours = decode(save(image, tmp_path / f"a.{suffix}", **options), 24)
    share = alpha[:, :, None] / 255
    assert np.abs(ours - np.asarray(image)[:, :, :3] * share - 255 * (1 - share)).max() <= 1


def test_a_transparent_palette_entry_or_colour_lies_on_white_and_sixteen_bit_grey_is_rounded(tmp_path):
    image = Image.new("P", (8, 8), 1)
    image.putpalette([10, 20, 30, 200, 100, 0])
    image.paste(0, (0, 0, 4, 8))
    for suffix in ("png", "gif"):
        ours = decode(save(image, tmp_path / f"a.{suffix}", transparency=0), 8)
        assert ours[0, [0, 7]].tolist() == [[255, 255, 255], [200, 100, 0]]
    for mode, clear in (("L", 7), ("RGB", (7, 8, 9))):
        path = save(Image.new(mode, (8, 8), clear), tmp_path / "b.png", transparency=clear)
        assert (decode(path, 8) == 255).all()
    levels = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    ours = decode(save(Image.fromarray(levels), tmp_path / "a.png"), 32)
    np.testing.assert_array_equal(ours[:, :, 1], np.rint(levels / 257).astype(np.uint8))


@pytest.mark.parametrize(("tag", "value", "kind"), [(262, 0, "0 is white"), (339, 2, "signed"), (258, 12, "12 bits")])
def test_grey_levels_of_a_tiff_that_mean_something_else_are_a_bad_file(tag, value, kind, tmp_path):
    levels = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    path = tmp_path / "a.tif"
    Image.fromarray(levels).save(path, tiffinfo={339: 1})
    np.testing.assert_array_equal(decode(path, 8)[:, :, 0], np.rint(levels / 257))
    content = bytearray(path.read_bytes())
    (first,) = struct.unpack_from("<I", content, 4)
    (entries,) = struct.unpack_from("<H", content, first)
    places = {
        struct.unpack_from("<H", content, place)[0]: place for place in range(first + 2, first + 12 * entries, 12)
    }
    struct.pack_into("<H", content, places[tag] + 8, value)
    path.write_bytes(content)
    _, bad = decode_files([path], 8, "reading")
    assert f"grey levels of another kind ({kind}); save it with 8 bits" in bad[0]


@pytest.mark.parametrize(
    ("colour", "depth", "row", "transparent", "expected"),
    [
        (0, 16, [0, 257 * 7, 257 * 200], [0], [255, 7, 200]),
        (0, 16, [0, 257 * 7, 257 * 200], [257 * 200], [0, 7, 255]),
        (0, 4, [0x17, 0xF0], [1], [255, 119, 255, 0]),
        (0, 2, [0b00011011], [2], [0, 85, 255, 255]),
        (2, 16, [1000, 2000, 3000, 60000, 0, 0], [1000, 2000, 3000], [255, 234]),
    ],
)
def test_a_transparent_level_of_any_depth_lies_on_white(colour, depth, row, transparent, expected, tmp_path):
    """The test writes PNG itself: Pillow writes no transparent level for grey of 16 bits or of fewer than 8."""
    width, coded = len(expected), np.array(row, ">u2" if depth == 16 else ">u1").tobytes()
    header = struct.pack(">IIBBBBB", width, width, depth, colour, 0, 0, 0)
    chunks = {b"IHDR": header, b"tRNS": np.array(transparent, ">u2").tobytes()}
    chunks |= {b"IDAT": zlib.compress((b"\0" + coded) * width), b"IEND": b""}
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    ]
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    assert decode(tmp_path / "a.png", width)[0, :, 0].tolist() == expected


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "avif", "tif"])
def test_exif_turns_the_image_upright(photograph, suffix, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # EXIF 2.3, 4.6.4: the camera was turned to the left
    path = save(photograph, tmp_path / f"a.{suffix}", exif=exif)
    with Image.open(save(photograph, tmp_path / f"b.{suffix}")) as image:
        upright = Image.fromarray(np.rot90(np.asarray(image.convert("RGB")), -1).copy())
    np.testing.assert_array_equal(decode(path, 24), reference(upright, 24))


def encode(image: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def test_bad_files_are_reported_by_position_with_the_reason_and_are_black(photograph, tmp_path):
    contents = {
        "gone.png": (None, "No such file or directory"),
        "empty.png": (b"", "empty file"),
        "text.jpg": (b"hello", "not an image in a format that is read here"),
        "float.tif": (encode(Image.new("F", (8, 8)), "TIFF"), "floating-point grey levels"),
        "deep.tif": (encode(Image.new("I", (8, 8), 70_000), "TIFF"), "grey levels of another kind (32 bits); save it"),
        "low.tif": (encode(Image.new("I", (8, 8), 200), "TIFF"), "grey levels of another kind (32 bits); save it"),
        "script.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image in a format"),
    }
    for kind in FORMATS:
        content = encode(photograph, kind)
        contents[f"cut.{kind}"] = (content[: len(content) * 6 // 10], "")
    for name, (content, _) in contents.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    good = save(photograph, tmp_path / "good.png")
    images, bad = decode_files([good, *(tmp_path / name for name in contents), good], 24, "test")
    assert list(bad) == list(range(1, 1 + len(contents))), "every truncated file is noticed"
    for reason, (_, expected) in zip(bad.values(), contents.values(), strict=True):
        assert expected in reason
        assert reason
        assert str(tmp_path) not in reason
    assert (images[list(bad)] == 0).all()
    for image in images[[0, -1]]:
        np.testing.assert_array_equal(image.permute(1, 2, 0), decode(good, 24))


@pytest.mark.parametrize("limit", [100, 700])
def test_a_decompression_bomb_is_a_bad_file(photograph, limit, tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)  # 960 pixels: Pillow refuses twice the limit, and warns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        _, bad = decode_files([save(photograph, tmp_path / "a.png")], 24, "test")
    assert f"limit of {2 * limit if limit == 100 else limit}" in bad[0]
