import hashlib

import numpy as np
import pytest
import torch

from annulus.datasets.draws import COSINE, TURN, Draws, cosine_sine, mixed
from annulus.datasets.outlines import ONE, OUTLINES, SPAN
from annulus.datasets.shapes import CLASSES, HUES, draw_shapes
from annulus.datasets.textures import GROUNDS, draw_ground


def digest(array: np.ndarray | torch.Tensor) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def test_the_bytes_are_the_same_on_every_machine():
    # Pinned. A change here changes every number measured on `shapes`.
    for size, expected in (
        (32, "8e5661e3a3746cacb75653fa84c6c31d7696f69f1a00734abab64c88ae153c51"),
        (17, "f13b9354c5fde54d6bda398b47b6027811c503f008385a245e7720dc19542053"),
        (96, "aeae50dbe8fcb003e4785e4d939fc2c07a7b12bc89726880f1ec550a28e1fc8b"),
    ):
        assert digest(draw_shapes(np.arange(100), size, key=2024).numpy()) == expected


def test_an_image_depends_on_its_row_alone_and_no_two_are_alike():
    every = draw_shapes(np.arange(500), 16, key=1)
    rows = np.array([499, 3, 150])
    assert torch.equal(draw_shapes(rows, 16, key=1), every[rows])
    assert draw_shapes(np.arange(0), 32, key=1).shape == (0, 3, 32, 32)
    images = [*every.numpy(), *draw_shapes(np.arange(500), 16, key=2).numpy()]
    assert len({digest(image) for image in images}) == 1000


@pytest.mark.parametrize("size", [8, 1024])
def test_sizes_at_the_ends_of_their_range_work(size):
    """At 1024 px the fixed-point numbers are largest: the picture equals the one of half the size."""
    images, half = (draw_shapes(np.array([6]), each, key=5).float() for each in (size, size // 2))
    pooled = torch.nn.functional.avg_pool2d(images, 2)
    # Grain is drawn per pixel, and a half-size picture is antialiased once: the two differ by noise.
    assert (pooled - half).abs().mean() < (6 if size == 1024 else 25)


def by_attribute(images: torch.Tensor) -> torch.Tensor:
    """Images of whole rounds of the classes: (rounds, hues, grounds, outlines, 3, size, size)."""
    return images.view(-1, len(HUES), len(GROUNDS), len(OUTLINES), *images.shape[1:])


@pytest.fixture(scope="module")
def shapes():
    """2,000 images by attribute, in colour."""
    return by_attribute(draw_shapes(np.arange(2000), 32, key=4).float())


def test_a_class_s_name_says_its_hue_its_outline_and_its_ground():
    assert len(set(CLASSES)) == len(HUES) * len(GROUNDS) * len(OUTLINES) == 100
    names = ["red-disc-plain", "red-triangle-plain", "red-disc-upright", "lime-disc-plain", "purple-cross-checks"]
    assert [CLASSES[row] for row in (0, 1, 5, 20, 99)] == names


def test_colours_and_brightness_do_not_tell_the_outline():
    """An outline's mean differs from the overall mean by less than a quarter of the spread of images of its kind."""
    means = by_attribute(draw_shapes(np.arange(5000), 16, key=3).float()).mean((5, 6))
    shift = (means.mean((0, 1, 2)) - means.mean((0, 1, 2, 3))) / means.std(dim=0).mean((0, 1, 2))
    assert shift.abs().max() < 0.25


def test_the_object_has_the_hue_of_its_class_and_is_seen_in_grey(shapes):
    """The middle of a disc has its hue in the largest channel, or the two largest; it is brighter than the rim."""
    middle = shapes[:, :, :, 0, :, 14:18, 14:18].mean((-2, -1))
    hues = middle.mean((0, 2))  # (hues, 3)
    assert hues.argmax(dim=1).tolist() == [0, 1, 1, 2, 2]
    assert hues.argmin(dim=1).tolist() == [1, 2, 0, 0, 1]
    rim = shapes[:, :, :, 0, :, 0].mean((-2, -1))
    assert (middle.mean(-1) - rim > 20).float().mean() > 0.95


def test_stripes_run_upright_or_level(shapes):
    """Neighbouring pixels along the stripes are alike; those across them differ."""
    rim = shapes.mean(4)[..., :4, :]  # above the object
    down, along = (rim.diff(dim=dim).abs().mean((0, 1, 3, -2, -1)) for dim in (-2, -1))
    plain, upright, level, checks = (along / down).tolist()
    assert upright > 1.5 > 1.2 > plain > 0.8
    assert level < 0.7
    assert 0.8 < checks < 1.2


@pytest.mark.parametrize("name", OUTLINES)
def test_outlines_have_one_area_their_centroid_at_the_origin_and_a_slope_of_one_at_the_edge(name):
    u, v = np.meshgrid(*[np.arange(-2 * ONE, 2 * ONE, 16, dtype=np.int32)] * 2)
    depth = OUTLINES[name](u, v)
    inside = depth > 0
    assert inside.sum() * (16 / ONE) ** 2 * SPAN[name] ** 2 == pytest.approx(2, rel=0.01)
    assert abs(u[inside].mean()) < 0.02 * ONE
    assert abs(v[inside].mean()) < 0.02 * ONE
    slope = np.hypot(*np.gradient(depth.astype(float)[::2, ::2], 32.0))
    at_edge = slope[abs(depth[::2, ::2]) < 0.02 * ONE]
    assert np.mean(abs(at_edge - 1) < 0.1) > 0.9  # antialiasing assumes this; sharp corners do not have it


def test_no_cosine_is_near_a_rounding_edge():
    exact = 4096 * np.cos(np.arange(TURN) * (2 * np.pi / TURN))
    assert abs(exact - np.floor(exact) - 0.5).min() > 0.006
    cosine, sine = cosine_sine(np.arange(TURN))
    np.testing.assert_array_equal(cosine, COSINE)
    np.testing.assert_allclose(sine / 4096, np.sin(np.arange(TURN) * (2 * np.pi / TURN)), atol=2e-4)


def test_the_hash_is_splitmix64():
    """The first outputs of Vigna's splitmix64.c for seed 1234567."""
    states = (1234567 + 0x9E3779B97F4A7C15 * np.arange(1, 4).astype(object)) % 2**64
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert mixed(states.astype(np.uint64)).tolist() == expected


def test_patterns_mix_from_none_to_all_and_plain_is_between():
    axis = ((2 * np.arange(64, dtype=np.int32) + 1 - 64) * 2**14) // 64
    grounds = np.arange(200) % len(GROUNDS)
    planes = draw_ground(Draws(3, np.arange(200)), axis[None, None, :], axis[None, :, None], grounds)
    plain = grounds == list(GROUNDS).index("plain")
    assert (planes[plain] == 128).all()
    assert (planes[~plain].min((1, 2)) == 0).all()
    assert (planes[~plain].max((1, 2)) == 256).all()
