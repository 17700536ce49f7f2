"""State between steps: one stored embedding per image (bank), or the keys of the last batches (queue)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.errors import InputError


class MemoryBank(nn.Module):
    """One unit embedding per training image, an average over its recent views.

    `rows` is a persistent buffer, so that checkpoints hold it. Read it directly; write it with `update`,
    after the optimiser's step: backward still needs the rows that the scores were made from.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 2 and Eq. 7. The paper does not say whether rows are
    normalised again; here they are.
    """

    rows: Float[Tensor, "n d"]

    def __init__(self, images: int, dim: int, rate: float, generator: torch.Generator) -> None:
        """`rate` in [0, 1) is the share of the old row that an update keeps; with 0 a row is its last view."""
        super().__init__()
        if not 0 <= rate < 1:
            raise InputError(f"rate {rate:g}: an update keeps this share of the old row; give 0 or more, and below 1")
        self.rate = rate
        self.register_buffer("rows", _random_rows(images, dim, generator))

    @torch.no_grad()
    def fill(self, embeddings: Float[Tensor, "n d"]) -> None:
        """Take these rows, before the first step."""
        self.rows.copy_(F.normalize(embeddings, dim=1))

    @torch.no_grad()
    def update(self, index: Int[Tensor, "b"], embedding: Float[Tensor, "b d"]) -> None:
        """rows[i] <- normalize(rate * rows[i] + (1 - rate) * embedding).

        An image that stands several times in the batch gets the mean of its embeddings, whatever their order. An
        embedding that is not finite spoils only its own image's row, and so the loss names that image.
        """
        same = index[:, None] == index
        broken = (embedding - embedding != 0).any(dim=1)  # infinity and NaN alone differ from themselves
        weights = same.to(embedding.dtype)
        mean = weights @ embedding.masked_fill(broken[:, None], 0.0) / weights.sum(dim=1, keepdim=True)
        mean = mean.masked_fill((same & broken).any(dim=1, keepdim=True), torch.nan)
        mixed = self.rate * self.rows[index] + (1 - self.rate) * mean
        # Equal indices write equal values, so the order of writing does not matter.
        self.rows[index] = F.normalize(mixed, dim=1)


class KeyQueue(nn.Module):
    """The last `length` keys, first in, first out, and the image that each was made from.

    All three buffers are persistent, so that a resumed run goes on at the same place. Read `keys` directly; write
    them with `push`, after the optimiser's step: backward still needs the keys that the scores were made from.

    A batch need not divide the length: at the end it goes on at the start. The queue may be longer than an epoch, and
    then holds several keys of an image.

    Source: He et al. 2020, arXiv:1911.05722, Algorithm 1.
    """

    keys: Float[Tensor, "n d"]
    images: Int[Tensor, "n"]  # -1: a random key of the start, of no image
    next: Int[Tensor, ""]  # where the next key goes: on the oldest one

    def __init__(self, length: int, dim: int, generator: torch.Generator, keys_per_image: int = 2) -> None:
        """`length` keys of `dim` numbers, on the unit sphere at random until real ones come.

        `keys_per_image`: the most keys that one image may have here. That is 2 in a queue no longer than an epoch,
        which holds the end of one epoch and the start of the next; `most_keys` says it for any length.
        """
        super().__init__()
        self.keys_per_image = keys_per_image
        self.register_buffer("keys", _random_rows(length, dim, generator))
        self.register_buffer("images", torch.full((length,), -1, device=generator.device))
        self.register_buffer("next", torch.zeros((), dtype=torch.int64, device=generator.device))

    @torch.no_grad()
    def push(self, keys: Float[Tensor, "b d"], index: Int[Tensor, "b"]) -> None:
        """Put the keys of the images `index` in the oldest ones' places, in the batch's order, as they are.

        Raises:
            InputError: when the batch is longer than the queue, and would overwrite itself.
        """
        length = len(self.keys)
        if len(keys) > length:
            raise InputError(
                f"a batch of {len(keys)} keys does not fit a queue of {length}; take a longer queue or a smaller batch"
            )
        places = (self.next + torch.arange(len(keys), device=self.next.device)) % length
        self.keys[places] = keys.to(self.keys.dtype)
        self.images[places] = index.to(self.images.dtype)
        self.next.add_(len(keys)).remainder_(length)

    def own(self, index: Int[Tensor, "b"]) -> Int[Tensor, "b w"]:
        """Where the keys of each image in `index` are, newest first, padded with -1."""
        length = len(self.images)
        newest_first = (self.next - 1 - torch.arange(length, device=self.next.device)) % length
        # Sorting and looking up takes a tenth of the time of comparing each image with each place.
        # The sort is stable, so that the first of equal images is the newest.
        images, order = self.images[newest_first].sort(stable=True)
        found = torch.searchsorted(images, index.to(images.dtype))[:, None]
        found = (found + torch.arange(self.keys_per_image, device=found.device)).clamp(max=length - 1)
        places = torch.where(images[found] == index[:, None], newest_first[order[found]], -1)
        # Beyond the last place, the clamp repeats it.
        repeated = torch.zeros_like(places, dtype=torch.bool)
        repeated[:, 1:] = found[:, 1:] == found[:, :-1]
        return places.masked_fill(repeated, -1)


def most_keys(length: int, epoch_images: int) -> int:
    """How many keys of one image a queue of this length can hold, where an epoch shows each image at most once.

    1 for one key; 2 up to one key more than an epoch; 3 from there to two epochs and one key.
    """
    return 1 + -(-(length - 1) // epoch_images)


def _random_rows(count: int, dim: int, generator: torch.Generator) -> Float[Tensor, "n d"]:
    """What a memory starts with: random unit vectors, on the generator's device."""
    if count < 1 or dim < 1:
        raise InputError(f"a memory of {count} rows of {dim} numbers holds nothing; give 1 or more of both")
    if not isinstance(generator, torch.Generator):
        raise InputError(f"generator {generator!r}: a memory's first rows are random; give a torch.Generator")
    return F.normalize(torch.randn(count, dim, generator=generator, device=generator.device), dim=1)
