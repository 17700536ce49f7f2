"""Geometry of embeddings: loops over pairs and closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from annulus.evals import geometry
from annulus.evals.geometry import alignment, effective_rank, tolerance, uniformity


def directions(*shape, seed=0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_alignment_is_the_mean_squared_distance():
    one, other = directions(9, 5), directions(9, 5, seed=1)
    distances = [math.dist(a, b) ** 2 for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert alignment(one, other) == pytest.approx(sum(distances) / 9, rel=1e-5)
    assert alignment(one, one) == 0
    assert alignment(one, -one) == pytest.approx(4)


@pytest.mark.parametrize("rows_at_once", [4, 1024])
def test_uniformity_is_the_log_of_the_mean_over_pairs_of_different_images(rows_at_once, monkeypatch):
    monkeypatch.setattr(geometry, "ROWS_AT_ONCE", rows_at_once)
    embeddings = directions(11, 4)
    rows = embeddings.tolist()
    pairs = [math.exp(-2 * math.dist(rows[a], rows[b]) ** 2) for a in range(11) for b in range(a)]
    assert uniformity(embeddings) == pytest.approx(math.log(sum(pairs) / len(pairs)), abs=1e-5)
    assert uniformity(torch.eye(1, 3).expand(5, 3)) == pytest.approx(0, abs=1e-6)  # one direction
    assert uniformity(directions(400, 512)) == pytest.approx(-4, abs=0.02)  # many dimensions


def test_the_effective_rank_is_exp_of_the_entropy_of_the_singular_values():
    matrix = directions(30, 6) * torch.tensor([1.0, 0.5, 0.5, 0.1, 0.1, 0.01])
    values = np.linalg.svd(matrix.double().numpy(), compute_uv=False)
    shares = values / values.sum()
    assert effective_rank(matrix) == pytest.approx(math.exp(-(shares * np.log(shares)).sum()))
    assert effective_rank(7 * matrix) == pytest.approx(effective_rank(matrix))
    assert effective_rank(directions(1, 6).expand(20, 6)) == pytest.approx(1)  # one line
    assert effective_rank(torch.eye(6)[:2].repeat(3, 1)) == pytest.approx(2)  # two axes alike


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
