import time

import pytest
import torch

from annulus.files.subset import even_counts, even_subset, first_by_class, held_out


def counts(labels: torch.Tensor, rows: torch.Tensor) -> list[int]:
    return torch.bincount(labels[rows], minlength=int(labels.max()) + 1).tolist()


@pytest.fixture
def labels(generator) -> torch.Tensor:
    """Classes of 50, 10, 30 and 1, in a random order."""
    blocks = torch.arange(4).repeat_interleave(torch.tensor([50, 10, 30, 1]))
    return blocks[torch.randperm(91, generator=generator)]


def test_a_subset_is_as_even_as_the_classes_allow(labels, generator):
    evenly = {4: [1, 1, 1, 1], 41: [15, 10, 15, 1], 20: [7, 6, 6, 1], 61: [25, 10, 25, 1], 91: [50, 10, 30, 1]}
    for total, expected in evenly.items():
        rows = even_subset(labels, total, generator)
        assert len(rows) == total
        assert counts(labels, rows) == expected
        assert rows.tolist() == sorted(set(rows.tolist()))


def test_even_counts_by_hand():
    assert even_counts(torch.tensor([5, 1, 5]), 8).tolist() == [3, 1, 4]
    assert even_counts(torch.tensor([5, 5, 5]), 99).tolist() == [5, 5, 5]


def test_a_smaller_subset_is_part_of_a_larger_one(labels, generator):
    draws = ((12, 3), (40, 3), (40, 4))
    small, large, other = (set(even_subset(labels, n, generator.manual_seed(s)).tolist()) for n, s in draws)
    assert small <= large != other


def test_validation_takes_the_same_share_of_every_class_but_never_the_last_image(labels, generator):
    even = torch.arange(10).repeat(100)
    for fraction in (0.0, 0.1, 0.29, 0.5):
        assert counts(even, held_out(even, fraction, generator)) == [round(100 * fraction)] * 10
    rows = held_out(labels, 0.25, generator)
    assert len(rows) == round(0.25 * 91)
    assert counts(labels, rows) == [13, 3, 7, 0]  # 12.5, 2.5, 7.5, 0.25: the rest goes to the first of equal remainders
    assert held_out(torch.arange(4), 0.5, generator).tolist() == []


def test_every_row_can_be_drawn(generator):
    labels = torch.arange(2).repeat(5)
    drawn = {row for _ in range(60) for row in even_subset(labels, 4, generator).tolist()}
    assert drawn == set(range(10))


@pytest.mark.parametrize("classes", [1, 3, 40])
def test_the_first_of_each_class_are_those_of_one_comparison_a_class(classes, generator):
    labels = torch.randint(-1, classes, (200,), generator=generator)  # -1: without a class, and not in the order
    order = torch.randperm(200, generator=generator)
    order = order[labels[order] >= 0]
    counts = torch.randint(0, 9, (classes,), generator=generator)
    plain = [order[labels[order] == label][:count] for label, count in enumerate(counts.tolist())]
    assert torch.equal(first_by_class(labels, order, counts), torch.cat(plain).sort().values)


@pytest.mark.parametrize(
    "draw", [lambda labels, g: even_subset(labels, 90_000, g), lambda labels, g: held_out(labels, 0.1, g)]
)
def test_two_hundred_thousand_rows_of_twenty_thousand_classes_take_no_minutes(draw, generator):
    start = time.process_time()
    draw(torch.arange(20_000).repeat(10), generator)
    assert time.process_time() - start < 5
