"""The memory bank against a plain loop over the papers' update, the queue against a deque, in float64."""

import itertools
import math
from collections import deque

import pytest
import torch
import torch.nn.functional as F

from annulus.errors import InputError
from annulus.methods.memory import KeyQueue, MemoryBank, most_keys

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


def test_bank_and_queue_start_on_the_unit_sphere_in_every_direction_by_their_generator(generator):
    for made in (lambda drawn: MemoryBank(2000, 8, 0.5, drawn).rows, lambda drawn: KeyQueue(2000, 8, drawn).keys):
        rows = made(torch.Generator().manual_seed(1))
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(2000))
        assert rows.mean(dim=0).abs().max() < 0.05  # four standard deviations of 1 / sqrt(2000 * 8)
        torch.testing.assert_close(rows.T @ rows / 2000, torch.eye(8) / 8, atol=0.02, rtol=0)
        assert torch.equal(made(torch.Generator().manual_seed(1)), rows)
        assert not torch.equal(made(generator), rows)
    assert (KeyQueue(5, 4, generator).images == -1).all()


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.9])
def test_update_equals_the_plain_loop(bank, generator, rate):
    bank.rate = rate
    for images in ([3], [8, 0, 5], [2, 7, 2, 2, 7, 1]):
        index, embedding = torch.tensor(images), embeddings(len(images), generator)
        expected = plain_update(bank.rows, rate, index, embedding)
        bank.update(index, embedding)
        torch.testing.assert_close(bank.rows, expected)


def test_an_update_touches_its_own_rows_only_and_nothing_learns(bank, generator):
    """An embedding that is not finite spoils only its own row."""
    before, new = bank.rows.clone(), embeddings(2, generator)
    new[0, 0] = torch.nan
    bank.update(torch.tensor([2, 7]), new.requires_grad_())
    assert bank.rows.isnan().any(dim=1).nonzero().flatten().tolist() == [2]
    assert (bank.rows != before).any(dim=1).nonzero().flatten().tolist() == [2, 7]
    assert not bank.rows.requires_grad
    assert list(bank.parameters()) == []


# --- the queue ----------------------------------------------------------------------------------------


def queue_of(length, seed=3):
    return KeyQueue(length, 4, torch.Generator().manual_seed(seed)).double()


def plain_queue(queue):
    """The same as pairs (key, image), oldest first, in a list that forgets its oldest entry by itself."""
    place = queue.next.item()
    pairs = list(zip(queue.keys.tolist(), queue.images.tolist(), strict=True))
    return deque(pairs[place:] + pairs[:place], maxlen=len(pairs))


def batches(sizes, generator):
    images = itertools.count()
    for size in sizes:
        yield embeddings(size, generator), torch.tensor([next(images) for _ in range(size)])


@pytest.mark.parametrize(("length", "sizes"), [(10, [4] * 12), (10, [3, 10, 1, 8, 2, 2, 9, 5]), (1, [1] * 3)])
def test_the_queue_holds_what_a_plain_deque_holds_after_every_batch(length, sizes, generator):
    queue = queue_of(length)
    expected = plain_queue(queue)
    for keys, index in batches(sizes, generator):
        place = queue.next.item()
        queue.push(keys, index)
        expected.extend(zip(keys.tolist(), index.tolist(), strict=True))
        assert list(plain_queue(queue)) == list(expected)
        assert torch.equal(queue.keys[place], keys[0]), "on the oldest one's place"


def test_a_batch_longer_than_the_queue_is_refused(generator):
    with pytest.raises(InputError, match="6 keys does not fit a queue of 5; take a longer queue or a smaller batch"):
        queue_of(5).push(embeddings(6, generator), torch.arange(6))


def test_keys_of_mixed_precision_are_taken_without_their_gradient(generator):
    queue, keys = KeyQueue(5, 4, generator), embeddings(2, generator).bfloat16().requires_grad_()
    queue.push(keys, torch.tensor([8, 9], dtype=torch.int32))
    assert queue.keys.dtype == torch.float32
    assert not queue.keys.requires_grad
    assert list(queue.parameters()) == []
    assert torch.equal(queue.keys[:2], keys.float())
    assert queue.images.tolist() == [8, 9, -1, -1, -1]


def plain_own(queue, image):
    """Walk back from the newest key."""
    length = len(queue.images)
    places = [(queue.next.item() - step) % length for step in range(1, length + 1)]
    return [place for place in places if queue.images[place] == image]


@pytest.mark.parametrize("length", [5, 10, 31])
def test_own_are_the_places_of_all_keys_of_an_image_newest_first_at_every_turn(length, generator):
    """Epochs of 15 images in batches of 4 that cross their borders: the queue holds none, one or several of one."""
    most = most_keys(length, epoch_images=15)
    queue, images, held = KeyQueue(length, 4, generator, most), torch.arange(15), set()
    assert (queue.own(images) == -1).all(), "before the first batch no image has a key"
    shown = torch.cat([torch.randperm(15, generator=generator) for _ in range(12)])
    for index in shown.split(4):
        queue.push(embeddings(len(index), generator), index)
        own = queue.own(images)
        assert own.shape == (15, most)
        for image, places in zip(images.tolist(), own.tolist(), strict=True):
            expected = plain_own(queue, image)
            held.add(len(expected))
            assert places == expected + [-1] * (most - len(expected))
    assert max(held) == most


@pytest.mark.parametrize(("length", "most"), [(1, 1), (2, 2), (15, 2), (16, 2), (17, 3), (31, 3), (32, 4)], ids=str)
def test_a_queue_of_whole_epochs_holds_at_most_so_many_keys_of_an_image(length, most):
    """17 keys: an image is last in one epoch, anywhere in the next of 15, and first in the one after."""
    assert most_keys(length, epoch_images=15) == most
