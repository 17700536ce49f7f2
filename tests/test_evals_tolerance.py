"""Tolerance against a loop over pairs, and its ends."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from annulus.evals.tolerance import tolerance


def test_tolerance_is_the_mean_cosine_over_pairs_of_different_images_of_one_class(generator):
    embeddings = F.normalize(torch.randn(40, 6, generator=generator), dim=1)
    labels = torch.randint(-1, 4, (40,), generator=generator)
    cosines = [
        sum(a * b for a, b in zip(embeddings[i].tolist(), embeddings[j].tolist(), strict=True))
        for i, j in itertools.combinations(range(40), 2)
        if labels[i] == labels[j] >= 0
    ]
    assert tolerance(embeddings, labels) == pytest.approx(sum(cosines) / len(cosines), abs=1e-6)


def test_a_direction_for_each_class_is_tolerant_and_even_spread_is_not():
    labels = torch.arange(3).repeat(4)
    assert tolerance(torch.eye(3)[labels], labels) == pytest.approx(1)
    assert tolerance(torch.eye(12), labels) == pytest.approx(0)
    assert tolerance(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 0])) == pytest.approx(-1)


@pytest.mark.parametrize("labels", [[0, 1, 2], [-1, -1, -1], [0, -1, 1]])
def test_without_two_images_of_one_class_no_number_stands(labels):
    assert tolerance(torch.eye(3), torch.tensor(labels)) is None
