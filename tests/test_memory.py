"""The memory bank against a plain loop over the papers' update, in float64."""

import math

import pytest
import torch
import torch.nn.functional as F

from annulus.memory import MemoryBank

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


@pytest.fixture
def bank(generator):
    return MemoryBank(images=9, dim=4, rate=0.5, generator=generator).double()


def embeddings(count, generator):
    return F.normalize(torch.randn(count, 4, generator=generator, dtype=torch.float64), dim=1)


def plain_update(rows, rate, index, embedding):
    """M[i] <- normalize(rate * M[i] + (1 - rate) * mean of image i's embeddings), one image at a time."""
    rows = [row[:] for row in rows.tolist()]
    for image in set(index.tolist()):
        own = [vector for vector, i in zip(embedding.tolist(), index.tolist(), strict=True) if i == image]
        mean = [sum(values) / len(own) for values in zip(*own, strict=True)]
        mixed = [rate * old + (1 - rate) * new for old, new in zip(rows[image], mean, strict=True)]
        length = math.sqrt(sum(value * value for value in mixed))
        rows[image] = [value / length for value in mixed]
    return torch.tensor(rows, dtype=torch.float64)


def test_rows_start_on_the_unit_sphere_in_every_direction(generator):
    rows = MemoryBank(2000, 8, 0.5, generator).rows
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(2000))
    assert rows.mean(dim=0).abs().max() < 0.05  # four standard deviations of 1 / sqrt(2000 * 8)
    torch.testing.assert_close(rows.T @ rows / 2000, torch.eye(8) / 8, atol=0.02, rtol=0)


def test_the_same_generator_gives_the_same_rows():
    first, second, other = (MemoryBank(5, 3, 0.5, torch.Generator().manual_seed(s)).rows for s in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("index", [[3], [8, 0, 5], [2, 7, 2, 2, 7, 1]])
def test_update_equals_the_plain_loop(bank, generator, rate, index):
    bank.rate = rate
    index, embedding = torch.tensor(index), embeddings(len(index), generator)
    expected = plain_update(bank.rows, rate, index, embedding)
    bank.update(index, embedding)
    torch.testing.assert_close(bank.rows, expected)
    torch.testing.assert_close(bank.rows.norm(dim=1), torch.ones(9, dtype=torch.float64))


def test_rate_0_keeps_the_last_view_alone(bank, generator):
    bank.rate = 0.0
    embedding = embeddings(2, generator)
    bank.update(torch.tensor([4, 6]), embedding)
    torch.testing.assert_close(bank.rows[[4, 6]], embedding)


def test_a_high_rate_hardly_moves_a_row(bank, generator):
    bank.rate = 0.999
    before, embedding = bank.rows.clone(), embeddings(1, generator)
    bank.update(torch.tensor([4]), embedding)
    assert 0 < (bank.rows[4] - before[4]).norm() < 0.01


def test_rows_of_other_images_keep_every_bit(bank, generator):
    before = bank.rows.clone()
    bank.update(torch.tensor([2, 7]), embeddings(2, generator))
    others = [0, 1, 3, 4, 5, 6, 8]
    assert torch.equal(bank.rows[others], before[others])
    assert not torch.equal(bank.rows[[2, 7]], before[[2, 7]])


def test_an_image_twice_in_a_batch_gets_the_mean_whatever_the_order(generator):
    index, embedding = torch.tensor([2, 7, 2, 2, 7, 1]), embeddings(6, generator)
    results = []
    for _ in range(20):
        order = torch.randperm(6, generator=generator)
        bank = MemoryBank(9, 4, 0.5, torch.Generator().manual_seed(1)).double()
        bank.update(index[order], embedding[order])
        results.append(bank.rows)
    for rows in results:
        torch.testing.assert_close(rows, results[0])


def test_update_leaves_no_trace_in_autograd(bank, generator):
    bank.update(torch.tensor([1]), embeddings(1, generator).requires_grad_())
    assert not bank.rows.requires_grad


def test_rows_are_saved_and_loaded_bit_for_bit(bank, generator):
    bank.update(torch.tensor([1, 3]), embeddings(2, generator))
    other = MemoryBank(9, 4, 0.5, torch.Generator().manual_seed(5)).double()
    other.load_state_dict(bank.state_dict())
    assert torch.equal(other.rows, bank.rows)


def test_rows_are_no_parameter_for_the_optimiser(bank):
    assert list(bank.parameters()) == []
