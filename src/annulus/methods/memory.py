"""State between steps: one stored embedding per image (bank), or the keys of the last batches (queue)."""

from numbers import Integral, Real

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from annulus.device.checks import require, require_range
from annulus.errors import InputError

LENGTH_ERROR = 0.05  # of a batch's mean squared length: bfloat16 rounds to 0.01


class MemoryBank(nn.Module):
    """One unit embedding per training image, an average over its recent views.

    `rows` is a persistent buffer, so that checkpoints hold it. Read it directly; write it with `update`,
    after the optimiser's step: backward still reads the rows of the scores.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 2 and Eq. 7. The paper leaves open whether updated
    rows are normalised; here they are.

    >>> bank = annulus.MemoryBank(images=100, dim=16, rate=0.0, generator=torch.Generator().manual_seed(0))
    >>> index, embeddings = torch.tensor([3, 7]), torch.eye(16)[:2]
    >>> bank.update(index, embeddings)
    >>> torch.equal(bank.rows[index], embeddings)
    True
    """

    rows: Float[Tensor, "n d"]

    def __init__(self, images: int, dim: int, rate: float, generator: torch.Generator) -> None:
        """`rate` in [0, 1) is the share of the old row that an update keeps; with 0 a row is its last view."""
        super().__init__()
        if not (isinstance(rate, Real) and 0 <= rate < 1):
            raise InputError(f"rate {rate}: an update keeps this share of the old row; give 0 or more, and below 1")
        self.rate = rate
        self.register_buffer("rows", _random_rows(images, dim, generator))

    @torch.no_grad()
    def fill(self, embeddings: Float[Tensor, "n d"]) -> None:
        """Replaces all rows by these embeddings, normalised, before the first step.

        Raises:
            InputError: unless there is one for each row.
        """
        if not isinstance(embeddings, Tensor) or not embeddings.is_floating_point():
            kind = embeddings.dtype if isinstance(embeddings, Tensor) else f"a {type(embeddings).__name__}"
            raise InputError(f"embeddings are {kind}; give a tensor of floating-point numbers")
        if embeddings.shape != self.rows.shape:
            raise InputError(
                f"embeddings of shape {tuple(embeddings.shape)} do not fill a memory of {tuple(self.rows.shape)}; give "
                "one of each image, in the images' order"
            )
        self.rows.copy_(F.normalize(embeddings, dim=1))

    @torch.no_grad()
    def update(self, index: Int[Tensor, "b"], embedding: Float[Tensor, "b d"]) -> None:
        """rows[i] <- normalize(rate * rows[i] + (1 - rate) * embedding).

        An image that the batch holds several times gets the mean of its embeddings, in any order. An embedding that is
        not finite makes only its own image's row NaN, so that the error of the loss names that image.

        Raises:
            InputError: unless each image of the batch has a unit vector and a row in the bank.
        """
        embedding = _unit_vectors("embedding", embedding, index, self.rows)
        require_range("index", index, 0, len(self.rows), f"give each image's row in this memory of {len(self.rows)}")
        images = index.sort().values
        first = torch.searchsorted(images, index)  # equal for all entries of an image
        count = torch.searchsorted(images, index, right=True) - first
        mean = torch.zeros_like(embedding).index_add_(0, first, embedding)[first] / count[:, None]
        broken = (mean - mean != 0).any(dim=1, keepdim=True)  # True for infinity and NaN alone
        mixed = self.rate * self.rows[index] + (1 - self.rate) * mean.masked_fill(broken, torch.nan)
        # Equal indices write equal values, so the order of writing does not matter.
        self.rows[index] = F.normalize(mixed, dim=1)


class KeyQueue(nn.Module):
    """The last `length` keys, first in, first out, and the image of each.

    All three buffers are persistent, so that a resumed run continues at the same place. Read `keys` directly; write
    them with `push`, after the optimiser's step: backward still reads the keys of the scores.

    The length can be any number from a batch on: a batch wraps around at the end. A queue longer than an epoch holds
    several keys of an image.

    Source: He et al. 2020, arXiv:1911.05722, Algorithm 1.

    >>> queue = annulus.KeyQueue(length=4, dim=16, generator=torch.Generator().manual_seed(0))
    >>> queue.push(torch.eye(16)[:3], index=torch.tensor([5, 6, 7]))
    >>> queue.images
    tensor([ 5,  6,  7, -1])
    >>> queue.own(torch.tensor([7, 8]))  # positions of their keys
    tensor([[ 2, -1],
            [-1, -1]])
    """

    keys: Float[Tensor, "n d"]
    images: Int[Tensor, "n"]  # -1: a random initial key, without an image
    next: Int[Tensor, ""]  # position of the next key: the place of the oldest

    def __init__(self, length: int, dim: int, generator: torch.Generator, keys_per_image: int = 2) -> None:
        """Starts with `length` random unit vectors of `dim` numbers.

        `keys_per_image`: largest number of keys of one image. It is 2 in a queue no longer than an epoch, which holds
        the end of one epoch and the start of the next. `most_keys` computes it for any length.
        """
        super().__init__()
        if not (isinstance(keys_per_image, Integral) and keys_per_image > 0):
            raise InputError(f"keys_per_image {keys_per_image!r}: give a whole number, 1 or more")
        self.keys_per_image = keys_per_image
        self.register_buffer("keys", _random_rows(length, dim, generator))
        self.register_buffer("images", torch.full((length,), -1, device=generator.device))
        self.register_buffer("next", torch.zeros((), dtype=torch.int64, device=generator.device))

    @torch.no_grad()
    def push(self, keys: Float[Tensor, "b d"], index: Int[Tensor, "b"]) -> None:
        """Writes the keys of the images `index` over the oldest keys, in the batch's order, unchanged.

        Raises:
            InputError: unless each image of the batch has a unit vector; if the batch is longer than the queue, where
                it would overwrite itself.
        """
        keys, length = _unit_vectors("keys", keys, index, self.keys), len(self.keys)
        if len(keys) > length:
            raise InputError(
                f"a batch of {len(keys)} keys does not fit a queue of {length}; take a longer queue or a smaller batch"
            )
        places = (self.next + torch.arange(len(keys), device=self.next.device)) % length
        self.keys[places] = keys
        self.images[places] = index.to(self.images.dtype)
        self.next.add_(len(keys)).remainder_(length)

    def own(self, index: Int[Tensor, "b"]) -> Int[Tensor, "b w"]:
        """Positions of the keys of each image in `index`, newest first, padded with -1.

        Raises:
            InputError: on a CPU, if an image has more than `keys_per_image` keys.
        """
        length = len(self.images)
        newest_first = (self.next - 1 - torch.arange(length, device=self.next.device)) % length
        # Sorting and looking up takes a tenth of the time of comparing each image with each place.
        # The sort is stable, so that the first of equal images is the newest.
        images, order = self.images[newest_first].sort(stable=True)
        ranks = torch.searchsorted(images, index.to(images.dtype))[:, None]
        ranks = (ranks + torch.arange(self.keys_per_image, device=ranks.device)).clamp(max=length - 1)
        require(
            lambda: ~_goes_on(images, index, ranks[:, -1]).any(),
            index.device,
            lambda: f"an image of the batch has more than {self.keys_per_image} keys in the queue of {length}",
            "give `keys_per_image`, the most that one may have, as where images are drawn with replacement",
        )
        places = torch.where(images[ranks] == index[:, None], newest_first[order[ranks]], -1)
        # Beyond the last place, the clamp repeats it.
        repeated = torch.zeros_like(places, dtype=torch.bool)
        repeated[:, 1:] = ranks[:, 1:] == ranks[:, :-1]
        return places.masked_fill(repeated, -1)


def _goes_on(images: Int[Tensor, "n"], index: Int[Tensor, "b"], last: Int[Tensor, "b"]) -> Bool[Tensor, "b"]:
    """True where the sorted images hold the image again beyond the place `last`."""
    further = (last + 1).clamp(max=len(images) - 1)
    return (images[further] == index) & (further > last)


def most_keys(length: int, epoch_images: int) -> int:
    """Largest number of keys of one image in a queue of this length, where an epoch shows each image at most once.

    1 for one key; 2 up to one key more than an epoch; 3 from there to two epochs and one key.
    """
    return 1 + -(-(length - 1) // epoch_images)


def _random_rows(count: int, dim: int, generator: torch.Generator) -> Float[Tensor, "n d"]:
    """First contents of a memory: random unit vectors, on the generator's device."""
    if not all(isinstance(number, Integral) and number > 0 for number in (count, dim)):
        raise InputError(f"a memory of {count} rows of {dim} numbers holds nothing; give 1 or more of both")
    if not isinstance(generator, torch.Generator):
        raise InputError(f"generator {generator!r}: a memory's first rows are random; give a torch.Generator")
    return F.normalize(torch.randn(count, dim, generator=generator, device=generator.device), dim=1)


def _unit_vectors(name: str, vectors: Tensor, index: Tensor, rows: Float[Tensor, "n d"]) -> Float[Tensor, "b d"]:
    """Returns the vectors in the memory's precision.

    One product checks the mean squared length of all: a missing normalisation affects all vectors. NaN passes.

    Raises:
        InputError: unless each image has a unit vector of the memory's width, on its device.
    """
    if not (isinstance(vectors, Tensor) and isinstance(index, Tensor)):
        raise InputError(f"{name} is a {type(vectors).__name__} and index a {type(index).__name__}; give two tensors")
    whole = index.dtype in (torch.int32, torch.int64)
    if not whole or index.ndim != 1 or vectors.shape != (len(index), rows.shape[1]):
        raise InputError(
            f"{name} of shape {tuple(vectors.shape)}, index of shape {tuple(index.shape)} and {index.dtype}: give a "
            f"vector of {rows.shape[1]} numbers and the number of its image for each of a batch"
        )
    if {vectors.device, index.device} != {rows.device}:
        raise InputError(
            f"{name} on {vectors.device} and index on {index.device}, but the memory is on {rows.device}; move the "
            "memory by .to(device), or these"
        )
    vectors = vectors.detach().to(rows.dtype)
    if len(index) == 0:  # an empty batch
        return vectors

    require(
        lambda: ~((_mean_square(vectors) - 1).abs() > LENGTH_ERROR),
        rows.device,
        lambda: f"{name} of mean squared length {_mean_square(vectors):.3g}",
        "a memory holds unit vectors: give torch.nn.functional.normalize(VECTORS, dim=1)",
    )
    return vectors


def _mean_square(vectors: Float[Tensor, "b d"]) -> Float[Tensor, ""]:
    flat = vectors.reshape(-1)
    return flat.dot(flat) / len(vectors)
