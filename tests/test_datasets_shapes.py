import hashlib

import numpy as np
import pytest
import torch

from annulus.datasets.draws import COSINE, TURN, cosine_sine, mixed
from annulus.datasets.outlines import ONE, OUTLINES, SPAN
from annulus.datasets.shapes import CLASSES, draw_shapes


def digest(array: np.ndarray | torch.Tensor) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def test_the_bytes_are_the_same_on_every_machine():
    # Pinned. A change here changes every number measured on `shapes`.
    for size, expected in (
        (32, "25f85d15d4c7286a63ca88c5208347252a7b830ab6ca4a2172bbbbcbd94e597c"),
        (17, "0e998a1a34b0dd2b1364cfb8aff16a89cc85ebe173edde00593af09c57695161"),
        (96, "b5c579973f93a4f9d4d626b108289253eb58669194d8729bfddb11fc499e533b"),
    ):
        assert digest(draw_shapes(np.arange(40), size, key=2024).numpy()) == expected


def test_an_image_depends_on_its_row_alone():
    every = draw_shapes(np.arange(300), 32, key=1)
    assert torch.equal(draw_shapes(np.arange(7), 32, key=1), every[:7])
    rows = np.array([299, 3, 150])
    assert torch.equal(draw_shapes(rows, 32, key=1), every[rows])
    assert draw_shapes(np.arange(0), 32, key=1).shape == (0, 3, 32, 32)


def test_no_two_images_are_alike_and_another_key_gives_others():
    images = [*draw_shapes(np.arange(500), 16, key=1).numpy(), *draw_shapes(np.arange(500), 16, key=2).numpy()]
    assert len({digest(image) for image in images}) == 1000


@pytest.mark.parametrize("size", [8, 1024])
def test_sizes_at_the_ends_of_their_range_work(size):
    """At 1024 px the fixed-point numbers are as large as they get: half as fine, the picture is the same."""
    rows = np.array([6])
    images = draw_shapes(rows, size, key=5).float()
    half = draw_shapes(rows, size // 2, key=5).float()
    pooled = torch.nn.functional.avg_pool2d(images, 2)
    # Grain is drawn per pixel, and a half-size picture is antialiased once; so equal but for noise.
    assert (pooled - half).abs().mean() < (6 if size == 1024 else 25)


def test_colours_and_brightness_do_not_tell_the_class():
    """Means of a class differ from the whole's by less than a quarter of the spread between images."""
    images = draw_shapes(np.arange(5000), 16, key=3).float()
    by_class = torch.cat([images.mean((2, 3)), images.std((2, 3))], dim=1).view(-1, len(CLASSES), 6)
    shift = (by_class.mean(0) - by_class.mean((0, 1))) / by_class.std(dim=(0, 1))
    assert shift.abs().max() < 0.25  # 0.2 is four standard errors; the outline's area does not show either


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
    assert np.mean(abs(at_edge - 1) < 0.1) > 0.9  # as antialiasing assumes, sharp corners aside


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
