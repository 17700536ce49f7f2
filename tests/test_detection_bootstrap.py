"""Intervals of average precision: each draw of pictures equals their evaluation; the formula of the interval."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from detection_cases import random_case

from annulus.device.rng import generator
from annulus.evals.intervals import over_seeds, over_seeds_and_images
from annulus_lab.studies.detection.average_precision import evaluate
from annulus_lab.studies.detection.bootstrap import interval, resampled


def repeat(truth, detections, places):
    """The pictures at these places as pictures of their own, and copies of the detections in them."""
    pictures = [replace(truth.pictures[place], id=number) for number, place in enumerate(places, 1)]
    ids = {number: truth.pictures[place].id for number, place in enumerate(places, 1)}
    copies = [replace(one, picture=number) for number, id in ids.items() for one in detections if one.picture == id]
    return replace(truth, pictures=tuple(pictures)), copies


@pytest.mark.parametrize("kind", ["masks", "keypoints", "voc", "lvis"])
def test_a_draw_of_pictures_has_the_numbers_of_evaluating_those_pictures(kind, monkeypatch):
    monkeypatch.setattr(
        "annulus_lab.studies.detection.bootstrap.LISTED", 36
    )  # three categories of twelve pictures at once
    truth, detections = random_case(kind, seed=1)
    if kind == "lvis":  # also frequencies, and known absent categories
        named = [replace(category, frequency="rccf"[category.id - 1]) for category in truth.categories]
        known = [replace(p, negative=tuple({1, 2, 3, 4} - {o.category for o in p.instances})) for p in truth.pictures]
        truth = replace(truth, categories=tuple(named), pictures=tuple(known))
    truth = replace(truth, pictures=truth.pictures[::-1])  # ids that do not ascend
    tables = resampled(truth, detections, resamples=2)
    draws = torch.randint(len(truth.pictures), (2, len(truth.pictures)), generator=generator(0, "bootstrap", 12))
    sizes = ("aps_percent", "apm_percent", "apl_percent")
    for column, places in enumerate([range(len(truth.pictures)), *draws.tolist()]):
        numbers = evaluate(*repeat(truth, detections, places))
        actual = {name: values[column] for name, values in tables.items() if not np.isnan(values[column])}
        assert actual == pytest.approx({name: value for name, value in numbers.items() if not name.endswith(sizes)})


def test_the_same_pictures_are_drawn_alike():
    truth, detections = random_case("boxes", seed=2)
    first, again = (resampled(truth, detections, resamples=4) for _ in range(2))
    for name, values in first.items():
        assert values.shape == (5,)
        assert np.array_equal(values, again[name]), name


def test_the_interval_of_a_mean_over_pictures_is_that_of_the_table():
    """For a mean over pictures the bootstrap must give the variance of the mean squares."""
    random = np.random.default_rng(0)
    seeds, pictures = 5, 400
    values = 0.1 * random.normal(size=(seeds, 1)) + random.normal(size=pictures) + random.normal(size=(seeds, pictures))
    chosen = random.integers(0, pictures, (4000, pictures))
    table = np.concatenate([values.mean(axis=1, keepdims=True), values[:, chosen].mean(axis=2)], axis=1)
    ours, known = interval(table), over_seeds_and_images(values)
    assert ours.mean == pytest.approx(known.mean)
    assert ours.variance == pytest.approx(known.variance, rel=0.1)


def test_the_interval_by_hand():
    row = np.array([[10.0, 9.0, 11.0, 10.0, 12.0]])
    pictures = np.var(row[0, 1:], ddof=1)
    for table, variance, freedom in (
        (np.repeat(row, 3, axis=0), pictures, 3),  # seeds alike: the pictures only
        (np.concatenate([row - 3, row, row + 3]), 9 / 3, 2),  # Student's t over seeds is wider than with pictures
        (np.array([[13.0, 11, 9, 11, 9], [7.0, 9, 11, 9, 11]]), 18 / 2, 1),  # V is 0, D 18
    ):
        actual = interval(table)
        assert (actual.variance, actual.freedom) == pytest.approx((variance, freedom))
    seeds = np.array([[10.0, 8, 10, 12, 14], [10.5, 8, 11, 12, 12], [11.0, 9, 9, 13, 13]])
    means, own = seeds[:, 1:].mean(axis=0), np.var(seeds[:, 0], ddof=1) / 3
    v, w = np.var(means, ddof=1), sum(np.var(seed - means, ddof=1) for seed in seeds[:, 1:]) / 2
    actual, variance = interval(seeds), own + v - w / 3
    freedom = variance**2 / (own**2 / 2 + v**2 / 3 + (w / 3) ** 2 / 6)  # Satterthwaite's
    assert (actual.variance, actual.freedom) == pytest.approx((variance, freedom))
    for one in (row, np.array([[10.0, 9.0, np.nan], [12.0, 9.0, np.nan]])):
        assert interval(one).half is None, "a single seed, a single draw that has an object"


def test_seeds_that_happen_to_be_alike_within_pictures_stay_in_the_interval():
    random = np.random.default_rng(0)
    table = 30 + random.normal(size=(3, 101))  # pictures move each seed's number; W is larger than D
    table[:, 0] = [30.0, 30.2, 30.5]
    assert interval(table).half >= over_seeds(table[:, 0].tolist()).half
