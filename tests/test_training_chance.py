"""One sentence names the seeds whose training ends near chance, and the way out."""

import pytest
from settings import run

from annulus.training.chance import near_chance


def rows(*pairs):
    return [{"loss_nats": loss, "bound_nats": bound} for loss, bound in pairs]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (rows((2.8, 0.03), (1.4, 1.45)), False),
        (rows((2.8, 0.03), (3.4, 0.2)), False),  # harder negatives raise a loss
        (rows((2.8, 0.5), (2.795, 0.505)), True),  # has not moved
        (rows((2.8, 0.5), (2.78, 0.52)), False),
        (rows((2.8, 0.1), (2.9, 0.0)), True),
        (rows((2.8, 0.1)), False),  # a single epoch shows no change
        (rows((2.8, -0.1)), True),
        (rows((2.8, 0.5), (1.9, 0.9), (2.795, 0.505)), True),  # is back where it was
        (rows((2.8, -0.1), (2.8, -0.1), (1.4, 1.4)), False),  # has started late
        ([], False),
    ],
)
def test_a_bound_of_0_and_a_loss_that_stays_are_near_chance(history, expected):
    assert (near_chance({0: history}) is not None) == expected


def test_the_sentence_names_the_seeds_and_the_way_out():
    sentence = near_chance({3: rows((2.9, 0.0), (3.0, -0.1)), 4: rows((2.8, 0.0), (1.4, 1.4)), 7: rows((2.8, -1.0))})
    assert sentence.startswith("seeds 3, 7 end near chance: bound -0.10 nats (0 by chance), loss 2.90 to 3.00 nats")
    assert "raise scales.SCALE.pretrain.epochs" in sentence


def test_few_steps_of_a_training_are_told_and_many_are_not():
    few, many = (run({"scales.tiny.pretrain.epochs": epochs, "method": "ir"}).run() for epochs in (1, 40))
    assert near_chance({0: few}) is not None
    assert near_chance({0: many}) is None
