"""Picks: queries over the classes, their neighbours against sorting by hand, and negatives from the sets alone."""

import pytest
import torch
import torch.nn.functional as F

from annulus.diagnostics.examples import drawn, nearest_images, picked_negatives, spread_queries
from annulus.diagnostics.membership import candidate_sets
from annulus.encoders.features import Features
from annulus.negatives.samplers import Ring

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def directions(*shape, seed=0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_queries_are_eight_at_most_spread_over_the_classes_and_the_seed_s_own():
    for classes, images, expected in ((10, 100, 8), (8, 80, 8), (3, 30, 3), (2, 5, 2)):
        labels = torch.arange(images) % classes
        chosen = spread_queries(labels, 0, "test")
        assert len(chosen.unique()) == len(chosen) == min(8, images)
        assert len(labels[chosen].unique()) == expected
        counts = torch.bincount(labels[chosen], minlength=classes)
        assert counts.max() - counts.min() <= 1
        assert torch.equal(chosen, spread_queries(labels, 0, "test"))
    of_two_seeds = [spread_queries(torch.arange(100) % 10, seed, "test") for seed in (0, 1)]
    assert not torch.equal(*of_two_seeds)


@pytest.mark.parametrize("layer", ["pooled", "embedding"])
@pytest.mark.parametrize("bank", [40, 5])
def test_neighbours_are_the_most_similar_training_images_of_the_layer(layer, bank):
    def features(count, seed):
        layers = {"pooled": 3 * directions(count, 6, seed=seed), "embedding": directions(count, 4, seed=seed + 9)}
        return Features(layers, torch.arange(count) % 4, ("a", "b", "c", "d"))

    train, test = features(bank, 0), features(20, 1)
    examples = nearest_images(train, test, layer, seed=0)
    for place, query in enumerate(examples["test_queries"].tolist()):
        cosines = F.cosine_similarity(train.layers[layer], test.layers[layer][query][None])
        order = sorted(range(bank), key=lambda row, cosines=cosines: -cosines[row].item())[:8]
        assert examples["test_neighbours"][place].tolist() == order
        torch.testing.assert_close(examples["test_similarity"][place], cosines[order])


SAMPLERS = {"uniform": Ring(0.0, 1.0), "ball": Ring(0.0, 0.3), "ring": Ring(0.2, 0.3)}
IMAGES = torch.arange(50) * 3 + 1  # positions in a larger split
QUERY_ROWS = torch.arange(0, 50, 2)
LABELS = torch.arange(50) // 2 % 5


@pytest.fixture
def sets():
    rows = directions(50, 6)
    queries = F.normalize(rows[QUERY_ROWS] + 0.2 * directions(25, 6, seed=1), dim=1)
    samplers = {name: (sampler, 1.0) for name, sampler in SAMPLERS.items()}
    return candidate_sets([(queries, rows)], QUERY_ROWS, samplers, seed=0)


def picked(sets, names=tuple(SAMPLERS), seed=0):
    return picked_negatives(sets, names, LABELS, images=IMAGES, query_images=IMAGES[QUERY_ROWS], seed=seed)


def test_negatives_are_different_members_of_the_query_s_set_the_most_similar_first(sets):
    examples = picked(sets)
    assert set(examples) == {"train_queries", "negatives_uniform", "negatives_ball", "negatives_ring"}
    rows = (examples["train_queries"] - 1) // 3  # among the 50
    assert len(LABELS[rows].unique()) == 5
    for name in SAMPLERS:
        for row, negatives in zip(rows.tolist(), examples[f"negatives_{name}"].tolist(), strict=True):
            query = QUERY_ROWS.tolist().index(row)
            allowed = IMAGES[sets.chosen[name][0][query]].tolist()
            found = [number for number in negatives if number != -1]
            assert set(found) <= set(allowed)
            assert len(set(found)) == len(found) == min(8, len(allowed))
            closeness = [sets.similarity[0][query, (number - 1) // 3].item() for number in found]
            assert closeness == sorted(closeness, reverse=True)


def test_the_seed_decides_which_and_a_sampler_without_a_set_is_left_out(sets):
    one, again, other = picked(sets), picked(sets), picked(sets, seed=1)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["train_queries"], other["train_queries"])
    assert "negatives_cave" not in picked(sets, (*SAMPLERS, "cave"))


def test_a_small_set_is_shown_whole_and_filled_up_with_minus_one():
    similarity = torch.tensor([[0.1, 0.9, -0.5, 0.3]])
    members = torch.tensor([[True, False, True, True]])
    assert drawn(similarity, members, torch.Generator()).tolist() == [[3, 0, 2, -1, -1, -1, -1, -1]]


def test_every_member_is_as_likely_as_any_other():
    """8 of 16 members, 4,000 times: each 2,000 times, with a standard deviation of 32."""
    members = (torch.arange(20) < 16).expand(4000, 20)
    found = drawn(directions(4000, 20), members, torch.Generator().manual_seed(0))
    counts = torch.bincount(found.flatten(), minlength=20)
    assert counts[16:].sum() == 0
    assert (counts[:16] - 2000).abs().max() < 160
