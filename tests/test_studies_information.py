"""The information of unseen pairs: the images of the estimate, and the estimate in plain loops."""

import math

import pytest
import torch
from settings import CPU, SMALL, load, run, stripes

from annulus.device.rng import generator as named
from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus.training.setup import build_training
from annulus.views.recipe import augment
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared.information import class_balanced_rows, held_out
from annulus_lab.studies.shared.runs import build_trial


def test_rows_are_the_first_ones_but_of_a_set_in_classes_evenly_spread():
    assert class_balanced_rows(torch.tensor([2, 0, 1, 0, 2, 1]), 3).tolist() == [0, 1, 2]
    assert class_balanced_rows(torch.arange(10).repeat_interleave(7), 10).tolist() == [7 * row for row in range(10)]
    assert class_balanced_rows(torch.tensor([0, 0, 0, 1, 1]), 3).tolist() == [0, 1, 3]
    assert class_balanced_rows(torch.tensor([0, 1, 1]), 3).tolist() == [0, 1, 2]


def test_a_set_that_lists_class_after_class_has_the_information_of_its_classes_in_turn(empty_checkout):
    params = load(SMALL | {"sampler": "uniform", "anneal": "none", "methods.ir.temperature": 0.01})
    training = build_training(build_trial(resolved(params, RUN), 0).run, stripes(70, 0), stripes(10, 1), CPU)
    images = stripes(60, 2)
    listed = images.take(images.labels.argsort(stable=True))
    first, spread = listed.take(torch.arange(20)), listed.take(torch.arange(20) * 3)
    assert len(first.labels.unique()) < len(spread.labels.unique()) == len(images.classes)
    listed_nats, first_nats, spread_nats = (
        held_out(training, some, 20, 0)["held_out_nats"] for some in (listed, first, spread)
    )
    assert listed_nats == spread_nats != first_nats


@pytest.mark.parametrize("changes", [{}, {"split": "lab"}], ids=["one network", "two"])
def test_it_is_that_of_each_view_finding_the_other_view_of_its_image_by_the_other_network(changes):
    training, images = run({"sampler": "uniform", "methods.ir.temperature": 0.2} | changes), stripes(30, 2)
    training.run()  # before it, all images have one embedding
    nats = held_out(training, images, 10, 3)["held_out_nats"]
    encoder, views = training.method.encoder.eval(), training.settings.views
    one, other = (
        encoder.embeddings(augment(images.images.pixels[:10], views, 16, named(3, "held-out views", n))) for n in (0, 1)
    )
    expected = []
    for queries, keys in zip(one, reversed(other), strict=True):
        for place, query in enumerate(queries):
            weights = [math.exp((query @ key).item() / 0.2) for key in keys]
            expected.append(math.log(10 * weights[place] / sum(weights)))
    assert nats == pytest.approx(sum(expected) / len(expected), abs=1e-4)


class Corner(Resident):
    """Images of 12 x 12 px, each in the corner of its place in the store."""

    def __init__(self, pixels: torch.Tensor) -> None:
        super().__init__(pixels)
        self.sizes = torch.full((len(pixels), 2), 12)


def test_what_lies_beside_an_image_in_its_store_is_in_no_view():
    training, images = run({"sampler": "uniform"}), stripes(30, 2)
    training.run()
    nats = []
    for beside in (0, 255):
        pixels = images.images.pixels.clone()
        pixels[:, :, 12:], pixels[:, :, :, 12:] = beside, beside
        cut = ImageSet(Corner(pixels), images.labels, images.rows, images.classes)
        nats.append(held_out(training, cut, 10, 3)["held_out_nats"])
    assert nats[0] == nats[1]
