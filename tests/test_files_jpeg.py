"""Decoding of JPEG: simplejpeg's pixels equal Pillow's for all kinds of files; if they differ, Pillow decodes."""

import io
import logging
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from annulus.files.jpeg import by_pillow, by_simplejpeg, decoder

SIZES = [(1, 1), (1, 9), (9, 1), (16, 16), (17, 31), (61, 43), (256, 341)]


@pytest.fixture
def simplejpeg():
    return pytest.importorskip("simplejpeg", reason="simplejpeg is not installed: Pillow decodes the JPEGs")


@pytest.fixture(autouse=True)
def forgotten():
    decoder.cache_clear()
    yield
    decoder.cache_clear()


def photo(height: int, width: int) -> Image.Image:
    """Smooth colours with grain, of all levels."""
    random = np.random.default_rng(height)
    coarse = Image.fromarray(random.integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize((width, height))
    grain = np.asarray(coarse) + random.normal(0, 20, (height, width, 3))
    return Image.fromarray(grain.clip(0, 255).astype(np.uint8))


def jpeg(image: Image.Image, **options) -> bytes:
    coded = io.BytesIO()
    image.save(coded, "JPEG", **options)
    return coded.getvalue()


def plain(coded: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(coded)).convert("RGB"))


def decode_into_slot(decode, coded: bytes, wider: int = 0) -> np.ndarray:
    """Decodes into a slot of a wider array, whose rows lie `wider` pixels apart."""
    width, height = Image.open(io.BytesIO(coded)).size
    whole = np.full((height, width + wider, 3), 77, np.uint8)
    slot = whole[:, :width]
    assert decode(np.frombuffer(coded, np.uint8), slot) == (height, width)
    assert (whole[:, width:] == 77).all()
    return slot


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "grey", "RGB", "CMYK"])
def test_pixels_are_pillows(subsampling, progressive, simplejpeg):
    for size in SIZES:
        for quality in (1, 75, 95):
            image, options = photo(*size), {"progressive": progressive, "quality": quality}
            match subsampling:
                case "grey":
                    image = image.convert("L")
                case "CMYK":
                    image = image.convert("CMYK")
                case "RGB":
                    options["keep_rgb"] = True
                case _:
                    options |= {"subsampling": subsampling, "restart_marker_blocks": quality % 3}
            coded = jpeg(image, **options)
            for wider in (0, 5):
                np.testing.assert_array_equal(decode_into_slot(by_simplejpeg, coded, wider), plain(coded))


def test_a_camera_s_orientation_and_profile_change_no_pixel(simplejpeg):
    turned = Image.Exif()
    turned[0x0112] = 6
    coded = jpeg(photo(61, 43), exif=turned, icc_profile=b"x" * 1000, comment=b"holiday")
    np.testing.assert_array_equal(decode_into_slot(by_simplejpeg, coded), plain(coded))


def test_bytes_with_a_fault_are_what_pillow_makes_of_them(simplejpeg):
    random, read = np.random.default_rng(0), 0
    for coded in (jpeg(photo(61, 43)), jpeg(photo(61, 43), progressive=True), jpeg(photo(61, 43).convert("L"))):
        faulty = [coded[:cut] for cut in (0, 2, 20, 200, 700, len(coded) // 2, len(coded) - 3, len(coded) - 1)]
        faulty += [coded + bytes(99), coded + b"\xff" * 99, b"\0" + coded]
        for _ in range(100):
            wrong = bytearray(coded)
            wrong[random.integers(len(coded))] = random.integers(256)
            faulty.append(bytes(wrong))
        for some in faulty:
            try:
                expected = plain(some)
            except Exception as error:
                with pytest.raises(type(error)):
                    by_simplejpeg(np.frombuffer(some, np.uint8), np.empty((61, 43, 3), np.uint8))
            else:
                read += 1
                np.testing.assert_array_equal(decode_into_slot(by_simplejpeg, some), expected)
    assert read > 100


@pytest.mark.parametrize(
    ("written", "factors"), [("4:2:2", b"\x12"), ("4:2:0", b"\x41"), ("4:2:0", b"\x14")], ids=["4:4:0", "4:1:1", "none"]
)
def test_a_subsampling_that_pillow_does_not_write_is_read(written, factors, simplejpeg):
    coded = jpeg(photo(32, 32), subsampling=written)
    start = coded.index(b"\xff\xc0") + 11  # sampling factors of the first component, across and down
    assert coded[start : start + 1] == {"4:2:2": b"\x21", "4:2:0": b"\x22"}[written]
    other = coded[:start] + factors + coded[start + 1 :]
    np.testing.assert_array_equal(decode_into_slot(by_simplejpeg, other), plain(other))


@pytest.mark.parametrize("decode", [by_pillow, by_simplejpeg])
def test_a_jpeg_of_another_size_is_not_decoded(decode, request):
    if decode is by_simplejpeg:
        request.getfixturevalue("simplejpeg")
    slot = np.full((9, 12, 3), 77, np.uint8)
    assert decode(np.frombuffer(jpeg(photo(12, 9)), np.uint8), slot) == (12, 9)
    assert (slot == 77).all()


def install(monkeypatch, wrong: int) -> None:
    """Installs a simplejpeg with the pixels of Pillow, and with `wrong` in the bits of the last one."""
    module = ModuleType("simplejpeg")
    module.__spec__ = ModuleSpec("simplejpeg", None)

    def decode_jpeg(coded: np.ndarray, buffer: np.ndarray) -> np.ndarray:
        buffer[:] = plain(coded.tobytes())
        buffer[-1, -1, -1] ^= wrong
        return buffer

    module.decode_jpeg_header = lambda coded: (*plain(coded.tobytes()).shape[:2], "YCbCr", "420")
    module.decode_jpeg = decode_jpeg
    monkeypatch.setitem(sys.modules, "simplejpeg", module)


def test_the_decoder_that_is_used_is_named_where_it_is_not_the_fast_one(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    install(monkeypatch, wrong=0)
    assert decoder() is by_simplejpeg
    assert not caplog.records

    install(monkeypatch, wrong=1)
    decoder.cache_clear()
    assert decoder() is by_pillow
    assert "simplejpeg is not used: it gives other pixels than Pillow" in caplog.text

    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    decoder.cache_clear()
    assert decoder() is by_pillow
    assert "pip install 'annulus-ssl[jpeg]'" in caplog.text
