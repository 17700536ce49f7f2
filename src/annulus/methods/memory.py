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

    Source: Wu et al. 2020, arXiv:2005.13149, section 2 and eq. 7. The paper does not say whether rows are
    normalised again; here they are.
    """

    rows: Float[Tensor, "n d"]

    def __init__(self, images: int, dim: int, rate: float, generator: torch.Generator) -> None:
        """`rate` in [0, 1) is the share of the old row that an update keeps; with 0 a row is its last view."""
        super().__init__()
        self.rate = rate
        drawn = torch.randn(images, dim, generator=generator, device=generator.device)
        self.register_buffer("rows", F.normalize(drawn, dim=1))

    @torch.no_grad()
    def fill(self, embeddings: Float[Tensor, "n d"]) -> None:
        """Take these rows, before the first step."""
        self.rows.copy_(F.normalize(embeddings, dim=1))

    @torch.no_grad()
    def update(self, index: Int[Tensor, "b"], embedding: Float[Tensor, "b d"]) -> None:
        """rows[i] <- normalize(rate * rows[i] + (1 - rate) * embedding).

        An image that stands several times in the batch gets the mean of its embeddings, whatever their order.
        """
        same = (index[:, None] == index).to(embedding.dtype)
        mean = same @ embedding / same.sum(dim=1, keepdim=True)
        mixed = self.rate * self.rows[index] + (1 - self.rate) * mean
        # Equal indices write equal values, so the order of writing does not matter.
        self.rows[index] = F.normalize(mixed, dim=1)


class KeyQueue(nn.Module):
    """The last `length` keys, first in, first out, and the image that each was made from.

    All three buffers are persistent, so that a resumed run goes on at the same place. Read `keys` directly; write
    them with `push`, after the optimiser's step: backward still needs the keys that the scores were made from.

    A batch need not divide the length: at the end it goes on at the start.

    Source: He et al. 2020, arXiv:1911.05722, Algorithm 1.
    """

    keys: Float[Tensor, "n d"]
    images: Int[Tensor, "n"]  # -1: a random key of the start, of no image
    next: Int[Tensor, ""]  # where the next key goes: on the oldest one

    def __init__(self, length: int, dim: int, generator: torch.Generator) -> None:
        """`length` keys of `dim` numbers, on the unit sphere at random until real ones come."""
        super().__init__()
        drawn = torch.randn(length, dim, generator=generator, device=generator.device)
        self.register_buffer("keys", F.normalize(drawn, dim=1))
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

    def newest(self, index: Int[Tensor, "b"]) -> Int[Tensor, "b"]:
        """Where the newest key of each image in `index` is, or -1 where the queue holds none."""
        length = len(self.images)
        newest_first = (self.next - 1 - torch.arange(length, device=self.next.device)) % length
        # Sorting and looking up takes a tenth of the time of comparing each image with each place.
        # The sort is stable, so that the first of equal images is the newest.
        images, order = self.images[newest_first].sort(stable=True)
        found = torch.searchsorted(images, index.to(images.dtype)).clamp(max=length - 1)
        return torch.where(images[found] == index, newest_first[order[found]], -1)
