"""The images of which the information of unseen pairs is estimated."""

import torch
from settings import CPU, SMALL, load, stripes

from annulus.config.resolved import RUN, resolved
from annulus.studies.information import held_out, of_all_classes
from annulus.studies.runs import trial_of
from annulus.training.setup import build_training


def test_rows_are_the_first_ones_but_of_a_set_in_classes_evenly_spread():
    assert of_all_classes(torch.tensor([2, 0, 1, 0, 2, 1]), 3).tolist() == [0, 1, 2]
    assert of_all_classes(torch.arange(10).repeat_interleave(7), 10).tolist() == [7 * row for row in range(10)]
    assert of_all_classes(torch.tensor([0, 0, 0, 1, 1]), 3).tolist() == [0, 1, 3]
    assert of_all_classes(torch.tensor([0, 1, 1]), 3).tolist() == [0, 1, 2]


def test_a_set_that_lists_class_after_class_has_the_information_of_its_classes_in_turn(empty_checkout):
    params = load(SMALL | {"sampler": "uniform", "anneal": "none", "methods.ir.temperature": 0.01})
    training = build_training(trial_of(resolved(params, RUN), 0).run, stripes(70, 0), stripes(10, 1), CPU)
    images = stripes(60, 2)
    listed = images.take(images.labels.argsort(stable=True))
    first, spread = listed.take(torch.arange(20)), listed.take(torch.arange(20) * 3)
    assert len(first.labels.unique()) < len(spread.labels.unique()) == len(images.classes)
    found, of_first, of_spread = (held_out(training, of, 20, 0)["held_out_nats"] for of in (listed, first, spread))
    assert found == of_spread != of_first
