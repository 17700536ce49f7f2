"""`fog`: pinned bytes, and classes that lightness alone shows, and colour alone."""

import hashlib

import numpy as np
import torch

from annulus.datasets.fog import CLASSES, PARTS, draw_fog
from annulus.views.spaces import rgb_to_lab


def test_the_bytes_are_the_same_on_every_machine():
    # Pinned. A change here changes every number measured on `fog`.
    for size, expected in (
        (20, "183f184f4e8778f9972c15d250588740e346b9f598236454c68275edbe3f9048"),
        (32, "7d5a5b4e00c64fcbcf9b1f45452b907460377edc3f8d5b7d32f967b769ed7408"),
    ):
        assert hashlib.sha256(draw_fog(np.arange(100), size, key=2024).numpy().tobytes()).hexdigest() == expected


def test_an_image_depends_on_its_row_alone():
    every = draw_fog(np.arange(300), 16, key=1)
    rows = np.array([299, 3, 150])
    assert torch.equal(draw_fog(rows, 16, key=1), every[rows])
    assert not torch.equal(draw_fog(rows, 16, key=2), every[rows])
    assert draw_fog(np.arange(0), 32, key=1).shape == (0, 3, 32, 32)


def test_two_of_hue_ground_and_outline_tell_the_class():
    assert len(set(CLASSES)) == len(PARTS) == 20
    assert len({(ground, outline) for _, ground, outline in PARTS}) == 20, "what lightness shows"
    assert len({(hue, outline) for hue, _, outline in PARTS}) == 20, "what colour shows"
    assert CLASSES[:2] == ("red-disc-plain", "red-triangle-upright")


def test_lightness_tells_the_class_and_colour_tells_it():
    """A ridge regression on 4,000 images predicts the class of others from L, and from ab, far above chance (5 %)."""
    images = draw_fog(np.arange(6000), 20, key=3).float() / 255
    lab = rgb_to_lab(images)
    labels = torch.arange(6000) % 20
    for part in (lab[:, :1], lab[:, 1:]):
        x = part.flatten(1).double()
        x = torch.cat([(x - x.mean(0)) / x.std(0), torch.ones(6000, 1)], 1)
        known, target = x[:4000], torch.nn.functional.one_hot(labels[:4000], 20).double()
        weights = torch.linalg.solve(known.T @ known + 1000 * torch.eye(x.shape[1]), known.T @ target)
        right = ((x[4000:] @ weights).argmax(1) == labels[4000:]).float().mean()
        assert 0.15 < right < 0.6
