"""Propositions of infomin on every pair of views of small discrete images; and flows that keep information."""

import itertools
import math

import numpy as np
import pytest
import torch

from annulus.views.learned import GeneratorConfig, ViewGenerator

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
CLOSE = 1e-9


def entropy(*variables, of):
    """H in nats of variables that are functions of the cells of a distribution."""
    masses = {}
    for mass, *values in zip(of.tolist(), *(variable.tolist() for variable in variables), strict=True):
        masses[tuple(values)] = masses.get(tuple(values), 0.0) + mass
    return -sum(mass * math.log(mass) for mass in masses.values() if mass > 0)


def shared(first, second, of):
    return entropy(first, of=of) + entropy(second, of=of) - entropy(first, second, of=of)


def shared_given(first, second, known, of):
    pairs = entropy(first, known, of=of) + entropy(second, known, of=of)
    return pairs - entropy(first, second, known, of=of) - entropy(known, of=of)


class World:
    """Six images with labels: functions of the image, with one of two noise levels, or with a noise level for each."""

    def __init__(self, kind):
        random = np.random.default_rng(0)
        masses = random.dirichlet(np.full(6, 3.0))
        chances = {
            "function": np.eye(3)[[0, 0, 0, 1, 1, 2]],
            "noisy": np.array([[0.9, 0.1], [0.3, 0.7]])[[0, 0, 0, 1, 1, 1]],
            "own noise": random.dirichlet([1.0, 1.0], 6),
        }[kind]
        self.mass = (masses[:, None] * chances).flatten()  # of each cell: an image and a label
        self.x, self.y = (each.flatten() for each in np.indices(chances.shape))
        names = itertools.product(
            *(range(place + 1) for place in range(6))
        )  # every function, up to renaming its values
        views = [view for view in names if all(view[i] <= max(view[:i], default=-1) + 1 for i in range(6))]
        self.views = [np.array(view)[self.x] for view in views]
        self.about_label = self.shared(self.x, self.y)
        self.keep_the_label = [v for v in self.views if abs(self.shared(v, self.y) - self.about_label) < CLOSE]

    def shared(self, first, second):
        return shared(first, second, of=self.mass)


@pytest.mark.parametrize(("kind", "reached"), [("function", True), ("noisy", False), ("own noise", False)])
def test_views_that_keep_the_label_share_at_least_what_the_image_says_of_it(kind, reached):
    here, optimal = World(kind), 0
    for first, second in itertools.product(here.keep_the_label, repeat=2):
        nats = here.shared(first, second)
        assert nats >= here.about_label - CLOSE
        if nats <= here.about_label + CLOSE:
            optimal += 1
            assert shared_given(first, second, here.y, of=here.mass) == pytest.approx(0, abs=CLOSE)
    assert (optimal > 0) == reached, "a noisy label has no pair of functions of the image that shares so little"
    assert len(here.keep_the_label) < len(here.views) == 203


def test_a_minimal_sufficient_encoder_of_optimal_views_holds_the_label_and_nothing_else():
    """infomin Appendix A.2, A.3: sufficient for the other view, and minimal among all such functions of its view."""
    here, excess = World("function"), {True: [], False: []}
    for first, second in itertools.product(here.keep_the_label, repeat=2):
        functions = [z for z in here.views if here.shared(z, first) > entropy(z, of=here.mass) - CLOSE]
        sufficient = [z for z in functions if here.shared(z, second) > here.shared(first, second) - CLOSE]
        least = min(sufficient, key=lambda z: here.shared(z, first))
        assert here.shared(least, here.y) == pytest.approx(here.shared(first, here.y), abs=CLOSE)
        optimal = here.shared(first, second) < here.about_label + CLOSE
        excess[optimal].append(shared_given(least, first, here.y, of=here.mass))
    assert max(excess[True]) < CLOSE
    assert min(excess[False]) > 0.01, "views that share more make the encoder keep more than the label"


def test_views_share_no_more_than_either_with_the_image_and_parts_of_them_no_more_than_they():
    here = World("own noise")
    for first, second in itertools.product(here.views[::7], repeat=2):
        nats = here.shared(first, second)
        assert nats <= min(here.shared(first, here.x), here.shared(second, here.x)) + CLOSE
        assert here.shared(np.minimum(first, 1), np.minimum(second, 1)) <= nats + CLOSE


@pytest.mark.parametrize("preserving", [True, False])
def test_a_random_flow_of_one_view_leaves_the_shared_information_as_it_is(preserving):
    """Red is a noisy copy of green, with known shared information; blue is independent of both."""
    random, flip = np.random.default_rng(1), 0.1
    truth = np.log(2) + flip * np.log(flip) + (1 - flip) * np.log(1 - flip)
    green, blue = random.integers(0, 2, 40_000), random.integers(0, 3, 40_000)
    red = green ^ (random.random(40_000) < flip)
    pixels = torch.tensor(np.stack([red, green, blue / 2], axis=1)).float().view(-1, 3, 1, 1)
    for changes in ("rest", "all"):
        generator = ViewGenerator(GeneratorConfig("rgb", changes, 3, 8, preserving), seed=0)
        with torch.no_grad():
            first, second = (np.round(view.flatten(1).numpy(), 5) for view in generator(pixels))
        names = (np.unique(view, axis=0, return_inverse=True)[1].ravel() for view in (first, second))
        nats = shared(*names, of=np.full(len(pixels), 1 / len(pixels)))
        if changes == "all":
            assert nats > truth + 0.1, "a flow of all channels mixes the views"
        else:
            assert np.abs(second - pixels[:, 1:].flatten(1).numpy()).mean() > 0.05, "the flow changes the view"
            assert nats == pytest.approx(truth, abs=0.01)
