"""The memory bank against a plain loop over the papers' update, the queue against a deque, in float64."""

import math
from collections import deque

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import annulus
from annulus.errors import InputError
from annulus.methods.memory import KeyQueue, MemoryBank, most_keys

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def embeddings(count, generator):
    return F.normalize(torch.randn(count, 4, generator=generator, dtype=torch.float64), dim=1)


def plain_update(rows, rate, index, embedding):
    """M[i] <- normalize(rate * M[i] + (1 - rate) * mean of image i's embeddings), one image at a time."""
    rows = [row[:] for row in rows.tolist()]
    for image in set(index.tolist()):
        own = [vector for vector, i in zip(embedding.tolist(), index.tolist(), strict=True) if i == image]
        mean = [sum(values) / len(own) for values in zip(*own, strict=True)]
        mixed = [rate * old + (1 - rate) * new for old, new in zip(rows[image], mean, strict=True)]
        rows[image] = [value / math.hypot(*mixed) for value in mixed]
    return torch.tensor(rows, dtype=torch.float64)


def test_bank_and_queue_start_on_the_unit_sphere_in_every_direction_by_their_generator(generator):
    for build in (lambda random: MemoryBank(2000, 8, 0.5, random).rows, lambda random: KeyQueue(2000, 8, random).keys):
        rows = build(torch.Generator().manual_seed(1))
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(2000))
        assert rows.mean(dim=0).abs().max() < 0.05  # six standard deviations of 1 / sqrt(2000 * 8)
        torch.testing.assert_close(rows.T @ rows / 2000, torch.eye(8) / 8, atol=0.02, rtol=0)
        assert torch.equal(build(torch.Generator().manual_seed(1)), rows)
        assert not torch.equal(build(generator), rows)


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.9])
def test_update_equals_the_plain_loop_and_an_embedding_that_is_not_finite_spoils_its_own_row_alone(rate, generator):
    bank = MemoryBank(images=9, dim=4, rate=rate, generator=generator).double()
    for images in ([3], [8, 0, 5], [2, 7, 2, 2, 7, 1]):
        index, embedding = torch.tensor(images), embeddings(len(images), generator)
        expected = plain_update(bank.rows, rate, index, embedding)
        bank.update(index, embedding.requires_grad_())
        torch.testing.assert_close(bank.rows, expected)
    before, new = bank.rows.clone(), embeddings(2, generator)
    new[0, 0] = torch.nan
    bank.update(torch.tensor([2, 7]), new)
    assert bank.rows.isnan().any(dim=1).nonzero().flatten().tolist() == [2]
    assert (bank.rows != before).any(dim=1).nonzero().flatten().tolist() == [2, 7]
    assert not bank.rows.requires_grad
    assert list(bank.parameters()) == []


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor that an operator returns."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count = max(
            [self.count, *(each.numel() for each in tree_leaves(result) if isinstance(each, torch.Tensor))]
        )
        return result


def test_an_update_makes_nothing_that_grows_with_the_square_of_the_batch(generator):
    bank, index = MemoryBank(999, 4, 0.5, generator), torch.randperm(999, generator=generator)
    with Largest() as largest:
        bank.update(index, embeddings(999, generator).float())
    assert largest.count == 4 * 999


def test_embeddings_of_any_precision_are_taken_as_the_rows_are(generator):
    index, vectors = torch.tensor([2, 0, 2]), embeddings(3, generator).bfloat16()
    rows = []
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        bank = MemoryBank(3, 4, 0.5, torch.Generator().manual_seed(0))
        bank.update(index, vectors.to(dtype))
        rows.append(bank.rows)
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])


# --- the queue ----------------------------------------------------------------------------------------


def oldest_first(queue):
    """Pairs (key, image)."""
    pairs, place = list(zip(queue.keys.tolist(), queue.images.tolist(), strict=True)), queue.next.item()
    return pairs[place:] + pairs[:place]


@pytest.mark.parametrize(("length", "sizes"), [(10, [4] * 12), (10, [3, 10, 1, 8, 2, 2, 9, 5]), (1, [1] * 3)])
def test_the_queue_holds_what_a_plain_deque_holds_after_every_batch(length, sizes, generator):
    queue = KeyQueue(length, 4, generator).double()
    expected = deque(oldest_first(queue), maxlen=length)
    assert (queue.images == -1).all()
    for size, index in zip(sizes, torch.arange(sum(sizes)).split(sizes), strict=True):
        keys, place = embeddings(size, generator), queue.next.item()
        queue.push(keys, index)
        expected.extend(zip(keys.tolist(), index.tolist(), strict=True))
        assert oldest_first(queue) == list(expected)
        assert torch.equal(queue.keys[place], keys[0]), "on the oldest one's place"
    with pytest.raises(InputError, match=f"{length + 1} keys does not fit a queue of {length}; take a longer queue or"):
        queue.push(embeddings(length + 1, generator), torch.arange(length + 1))


def test_a_batch_of_none_stores_none(generator):
    bank, queue, none = MemoryBank(5, 4, 0.5, generator), KeyQueue(5, 4, generator), torch.empty(0, dtype=torch.int64)
    rows, keys = bank.rows.clone(), queue.keys.clone()
    bank.update(none, torch.empty(0, 4))
    queue.push(torch.empty(0, 4), none)
    assert (torch.equal(bank.rows, rows), torch.equal(queue.keys, keys), int(queue.next)) == (True, True, 0)


def test_keys_of_mixed_precision_are_taken_without_their_gradient(generator):
    queue, keys = KeyQueue(5, 4, generator), embeddings(2, generator).bfloat16().requires_grad_()
    queue.push(keys, torch.tensor([8, 9], dtype=torch.int32))
    assert (queue.keys.dtype, queue.keys.requires_grad, list(queue.parameters())) == (torch.float32, False, [])
    assert torch.equal(queue.keys[:2], keys.float())
    assert queue.images.tolist() == [8, 9, -1, -1, -1]


@pytest.mark.parametrize("length", [5, 10, 31])
def test_own_are_the_places_of_all_keys_of_an_image_newest_first_at_every_turn(length, generator):
    """Batches of 4 cross the borders of epochs of 15 images; the queue holds none, one or several keys of an image."""
    most = most_keys(length, epoch_images=15)
    queue, images, held = KeyQueue(length, 4, generator, most), torch.arange(15), set()
    assert (queue.own(images) == -1).all(), "before the first batch no image has a key"
    for index in torch.cat([torch.randperm(15, generator=generator) for _ in range(12)]).split(4):
        queue.push(embeddings(len(index), generator), index)
        newest_first = [(queue.next.item() - step) % length for step in range(1, length + 1)]
        for image, places in zip(images.tolist(), queue.own(images).tolist(), strict=True):
            expected = [place for place in newest_first if queue.images[place] == image]
            held.add(len(expected))
            assert places == expected + [-1] * (most - len(expected))
    assert max(held) == most


def test_a_queue_of_whole_epochs_holds_at_most_so_many_keys_of_an_image():
    """17 keys may hold an image three times: last in one epoch, anywhere in the next of 15, first in the one after."""
    for length, most in ((1, 1), (2, 2), (15, 2), (16, 2), (17, 3), (31, 3), (32, 4)):
        assert most_keys(length, epoch_images=15) == most


@pytest.mark.parametrize(("batch", "queue"), [(24, 40), (36, 150), (10, 1)])
def test_a_loop_that_leaves_out_the_last_batch_or_keeps_it_finds_all_keys_of_an_image(batch, queue, generator):
    """An epoch of a DataLoader shows 48, 36 or 50 of 50 images; the queue is at least as long as a batch."""
    network = nn.Sequential(nn.Flatten(), nn.utils.skip_init(nn.Linear, 12, 4))
    method = annulus.MoCo.create(network, images=50, dim=4, queue=max(queue, batch), shuffle_groups=1)
    [held] = method.queues
    for drop_last in (True, False):
        for _ in range(8):
            for index in torch.randperm(50, generator=generator).split(batch):
                if drop_last and len(index) < batch:
                    continue
                held.push(embeddings(len(index), generator), index)
                places = held.own(torch.arange(50))
                assert sorted(places[places >= 0].tolist()) == (held.images >= 0).nonzero()[:, 0].tolist()


def test_more_keys_of_an_image_than_its_queue_was_told_are_refused_and_can_be_told(generator):
    network = nn.Sequential(nn.Flatten(), nn.utils.skip_init(nn.Linear, 12, 4))
    [held] = annulus.MoCo.create(network, images=50, dim=4, queue=26, shuffle_groups=1).queues
    index = torch.tensor([7, 7, 7, 8])
    held.push(embeddings(4, generator), index)
    assert held.own(torch.tensor([8])).tolist() == [[3, -1]]
    with pytest.raises(InputError, match="more than 2 keys in the queue of 26; give `keys_per_image`"):
        held.own(index)
    method = annulus.MoCo.create(network, images=50, dim=4, queue=40, shuffle_groups=1, keys_per_image=3)
    method.queues[0].push(embeddings(4, generator), index)
    assert method.queues[0].own(index[2:]).tolist() == [[2, 1, 0], [3, -1, -1]]
