"""Bits of right and wrong answers are the same after writing and reading."""

import json

import numpy as np
import pytest

from annulus.errors import InputError
from annulus.files.right import parse_right, read_right, write_right


@pytest.mark.parametrize("images", [1, 8, 13, 10_000])
def test_bits_come_back_and_take_little_text(tmp_path, images):
    draws = np.random.default_rng(images)
    right = {name: {seed: draws.random(images) < 0.6 for seed in (0, 7)} for name in ("top1_percent", "nn1")}
    path = tmp_path / "right.json"
    write_right(path, right)
    loaded = read_right(path)
    assert loaded.keys() == right.keys()
    for name, by_seed in right.items():
        assert list(loaded[name]) == [0, 7]
        assert all(np.array_equal(loaded[name][seed], bits) for seed, bits in by_seed.items())
    assert path.stat().st_size < images + 200


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}"),
        '{"images": 9, "right": {"a": {"0": "ff"}}}',
        '{"images": 8, "right": {"a": {"0": "fg"}}}',
        '{"images": 8, "right": {"a": {"x": "ff"}}}',
        '{"images": 8, "right": {"a": {"0": "ffff"}}}',
        '{"images": "8", "right": {"a": {"0": "ff"}}}',
        '{"images": -1, "right": {"a": {"0": "ff"}}}',
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, text):
    (tmp_path / "right.json").write_text(text)
    with pytest.raises(InputError, match="is missing or not of this version"):
        read_right(tmp_path / "right.json")


def test_a_seed_that_saw_fewer_images_is_refused_before_it_is_written(tmp_path):
    with pytest.raises(ValueError):
        write_right(tmp_path / "right.json", {"top1_percent": {0: np.ones(8, bool), 1: np.ones(9, bool)}})
    assert parse_right(json.dumps({"images": 8, "right": {"a": {"0": "80"}}}))["a"][0].tolist() == [True] + [False] * 7
