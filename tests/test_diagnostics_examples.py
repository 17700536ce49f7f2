"""Picks: queries over the classes, their neighbours against sorting by hand, and negatives from the sets alone."""

import pytest
import torch
import torch.nn.functional as F

from annulus.diagnostics.examples import draw_members, nearest_images, picked_negatives, spread_queries
from annulus.diagnostics.membership import candidate_sets
from annulus.encoders.features import Features
from annulus.negatives.samplers import Ball, Ring, Uniform

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def directions(*shape, seed=0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_queries_are_eight_at_most_spread_over_the_classes_and_the_seed_s_own():
    for classes, images, expected in ((10, 100, 8), (8, 80, 8), (3, 30, 3), (2, 5, 2)):
        labels = torch.arange(images) % classes
        chosen = spread_queries(labels, 0, "test")
        assert len(chosen.unique()) == len(chosen) == min(8, images)
        counts = torch.bincount(labels[chosen], minlength=classes)
        assert (counts > 0).sum() == expected
        assert counts.max() - counts.min() <= 1
        assert torch.equal(chosen, spread_queries(labels, 0, "test"))
    assert not torch.equal(*(spread_queries(torch.arange(100) % 10, seed, "test") for seed in (0, 1)))


@pytest.mark.parametrize(("layer", "bank"), [("pooled", 40), ("embedding", 40), ("embedding", 5)])
def test_neighbours_are_the_most_similar_training_images_of_the_layer(layer, bank):
    def features(count, seed):
        layers = {"pooled": 3 * directions(count, 6, seed=seed), "embedding": directions(count, 4, seed=seed + 9)}
        return Features(layers, torch.arange(count) % 4, ("a", "b", "c", "d"))

    train, test = features(bank, 0), features(20, 1)
    examples = nearest_images(train, test, layer, seed=0)
    for place, query in enumerate(examples["test_queries"].tolist()):
        cosines = F.cosine_similarity(train.layers[layer], test.layers[layer][query][None])
        order = sorted(range(bank), key=cosines.tolist().__getitem__, reverse=True)[:8]
        assert examples["test_neighbours"][place].tolist() == order
        torch.testing.assert_close(examples["test_similarity"][place], cosines[order])


def test_negatives_are_different_members_of_the_query_s_set_the_most_similar_first_and_of_the_seed():
    samplers = {
        "uniform": Uniform(),
        "ball": Ball(0.3),
        "ring": Ring(inner=0.2, outer=0.3),
    }
    images, own, labels = torch.arange(50) * 3 + 1, torch.arange(0, 50, 2), torch.arange(50) // 2 % 5
    rows = directions(50, 6)
    queries = F.normalize(rows[own] + 0.2 * directions(25, 6, seed=1), dim=1)
    sets = candidate_sets([(queries, rows)], own, {name: (each, 1.0) for name, each in samplers.items()}, 0, 0.2)
    one, again, other = (
        picked_negatives(sets, (*samplers, "cave"), labels, images=images, query_images=images[own], seed=seed)
        for seed in (0, 0, 1)
    )
    assert set(one) == {"train_queries", "negatives_uniform", "negatives_ball", "negatives_ring"}, "cave has no set"
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["train_queries"], other["train_queries"])
    places = (one["train_queries"] - 1) // 3  # among the 50, which are positions in a larger split
    assert len(labels[places].unique()) == 5
    for name in samplers:
        for row, negatives in zip(places.tolist(), one[f"negatives_{name}"].tolist(), strict=True):
            query = own.tolist().index(row)
            allowed = images[sets.chosen[name][0][query]].tolist()
            numbers = [number for number in negatives if number != -1]
            assert set(numbers) <= set(allowed)
            assert len(set(numbers)) == len(numbers) == min(8, len(allowed))
            closeness = [sets.similarity[0][query, (number - 1) // 3].item() for number in numbers]
            assert closeness == sorted(closeness, reverse=True)


def test_a_small_set_is_shown_whole_and_filled_up_with_minus_one():
    similarity = torch.tensor([[0.1, 0.9, -0.5, 0.3]])
    members = torch.tensor([[True, False, True, True]])
    assert draw_members(similarity, members, torch.Generator()).tolist() == [[3, 0, 2, -1, -1, -1, -1, -1]]


def test_every_member_is_as_likely_as_any_other():
    """8 of 16 members, 4,000 times: each 2,000 times, with a standard deviation of 32."""
    members = (torch.arange(20) < 16).expand(4000, 20)
    counts = torch.bincount(
        draw_members(directions(4000, 20), members, torch.Generator().manual_seed(0)).flatten(), minlength=20
    )
    assert counts[16:].sum() == 0
    assert (counts[:16] - 2000).abs().max() < 160


def test_of_counted_draws_the_more_frequent_rows_are_shown_more_often_and_those_of_none_never():
    counts = torch.tensor([9, 1] * 10 + [0, 0]).expand(4000, 22)
    rows = draw_members(directions(4000, 22), counts, torch.Generator().manual_seed(0))
    often = torch.bincount(rows.flatten(), minlength=22)
    assert often[20:].sum() == 0
    first, second = often[:20:2].float(), often[1:20:2].float()
    # By plain loops: eight of ten rows of weight 9 and ten of weight 1, one after the other, without replacement.
    random, plain = torch.Generator().manual_seed(1), torch.zeros(20)
    for _ in range(2000):
        weights = counts[0, :20].double()
        for _ in range(8):
            row = int(torch.multinomial(weights, 1, generator=random))
            plain[row] += 2
            weights[row] = 0
    assert first.mean().item() == pytest.approx(plain[::2].mean().item(), rel=0.02)
    assert second.mean().item() == pytest.approx(plain[1::2].mean().item(), rel=0.06)
