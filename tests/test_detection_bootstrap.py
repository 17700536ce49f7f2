"""Intervals of average precision: draws of pictures are what evaluating those pictures gives, and the formula."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from detection_cases import random_case

from annulus.compute.rng import generator
from annulus.detection.average_precision import evaluate
from annulus.detection.bootstrap import interval, resampled
from annulus.errors import InputError
from annulus.intervals import over_seeds_and_images


def repeated(truth, detections, drawn):
    """The drawn pictures as pictures of their own, and copies of the detections in them."""
    pictures = [replace(truth.pictures[place], id=number) for number, place in enumerate(drawn, 1)]
    copies = [
        replace(one, picture=number)
        for number, place in enumerate(drawn, 1)
        for one in detections
        if one.picture == truth.pictures[place].id
    ]
    return replace(truth, pictures=tuple(pictures)), copies


@pytest.mark.parametrize("kind", ["masks", "keypoints", "voc", "lvis"])
def test_a_draw_of_pictures_has_the_numbers_of_evaluating_those_pictures(kind, monkeypatch):
    monkeypatch.setattr("annulus.detection.bootstrap.LISTED", 36)  # three categories of twelve pictures at once
    truth, detections = random_case(kind, seed=1)
    if kind == "lvis":  # also frequencies, and pictures that know of absent categories
        named = [replace(category, frequency="rccf"[category.id - 1]) for category in truth.categories]
        known = [
            replace(p, negative=tuple({1, 2, 3, 4} - {one.category for one in p.instances})) for p in truth.pictures
        ]
        truth = replace(truth, categories=tuple(named), pictures=tuple(known))
    truth = replace(truth, pictures=truth.pictures[::-1])  # ids need not ascend
    tables = resampled(truth, {0: detections}, resamples=3, seed=5)
    drawn = torch.randint(len(truth.pictures), (3, len(truth.pictures)), generator=generator(5, "bootstrap", 12))
    for column, places in enumerate([range(len(truth.pictures)), *drawn.tolist()]):
        numbers = evaluate(*repeated(truth, detections, places))
        expected = {name: value for name, value in numbers.items() if not name.endswith(("aps_percent", "apm_percent"))}
        expected = {name: value for name, value in expected.items() if not name.endswith("apl_percent")}
        shown = {name: table[0, column] for name, table in tables.items() if not np.isnan(table[0, column])}
        assert shown == pytest.approx(expected)


def test_variants_with_the_same_seed_are_drawn_alike():
    truth, detections = random_case("boxes", seed=2)
    first = resampled(truth, {0: detections, 1: detections[::2]}, resamples=4, seed=0)
    again = resampled(truth, {7: detections}, resamples=4, seed=0)
    for name, table in first.items():
        assert table.shape == (2, 5)
        assert np.array_equal(table[0] - again[name][0], np.zeros(5)), name


def test_fewer_than_two_draws_are_refused():
    truth, detections = random_case("boxes", seed=2)
    with pytest.raises(InputError, match=r"resamples: 1 tells no variance; take 2 or more"):
        resampled(truth, {0: detections}, resamples=1, seed=0)


def test_the_interval_of_a_mean_over_pictures_is_that_of_the_table():
    """Where the number is a mean over pictures, the bootstrap must find what the mean squares find."""
    random = np.random.default_rng(0)
    seeds, pictures, draws = 5, 400, 4000
    values = (
        random.normal(0, 1, (seeds, 1)) * 0.1
        + random.normal(0, 1, (1, pictures))
        + random.normal(0, 1, (seeds, pictures))
    )
    chosen = random.integers(0, pictures, (draws, pictures))
    table = np.concatenate([values.mean(axis=1, keepdims=True), values[:, chosen].mean(axis=2)], axis=1)
    ours, known = interval(table), over_seeds_and_images(values)
    assert ours.mean == pytest.approx(known.mean)
    assert ours.variance == pytest.approx(known.variance, rel=0.1)


def test_the_interval_of_one_seed_holds_pictures_only_and_of_equal_seeds_no_seeds():
    row = np.array([[10.0, 9.0, 11.0, 10.0, 12.0]])
    assert interval(row).variance == pytest.approx(np.var(row[0, 1:], ddof=1))
    assert interval(np.repeat(row, 3, axis=0)).variance == pytest.approx(np.var(row[0, 1:], ddof=1))


def test_seeds_that_differ_alike_in_every_draw_add_their_own_variance():
    row = np.array([[10.0, 9.0, 11.0, 10.0, 12.0]])
    table = np.concatenate([row - 3, row, row + 3])
    assert interval(table).variance == pytest.approx(np.var(row[0, 1:], ddof=1) + 9 / 3)


def test_what_seeds_differ_by_within_pictures_is_not_counted_twice():
    table = np.array([[13.0, 11, 9, 11, 9], [7.0, 9, 11, 9, 11]])  # V is 0, D 18, W twice 4 / 3
    assert interval(table).variance == pytest.approx((18 - 8 / 3) / 2)


def test_draws_without_an_object_do_not_count_and_one_that_is_left_tells_nothing():
    row = np.array([[10.0, 9.0, np.nan, 11.0]])
    assert interval(row).variance == pytest.approx(2.0)
    assert interval(row[:, :3]).half is None
