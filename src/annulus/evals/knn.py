"""k nearest neighbours: accuracy of frozen features without a trained classifier."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.device import without_autocast
from annulus.encoders.features import Features, check_same_classes
from annulus.errors import InputError
from annulus.evals.accuracy import class_percents, label_ranks, percent
from annulus.files.results import Number
from annulus.settings import Section, Steps, Temperature

log = logging.getLogger("annulus")

SHORTEST = 1e-12  # least divisor of F.normalize
SIMILARITIES_AT_ONCE = 2**24  # 64 MB


@dataclass(frozen=True)
class KnnOutcome:
    """kNN numbers of the test images, and masks of the correctly classified ones.

    `right` has a mask for each accuracy: a row for `annulus.over_seeds_and_images`.

    >>> labels = torch.arange(40) % 2
    >>> train = annulus.Features({"pooled": nn.functional.one_hot(labels).float()}, labels, classes=("cat", "dog"))
    >>> int(annulus.evaluate_knn(train, train).right["top1_percent"].sum())
    40
    """

    metrics: dict[str, Number]
    right: dict[str, Bool[np.ndarray, "n"]]


def search(
    bank: Float[Tensor, "n d"], queries: Float[Tensor, "q d"], k: int
) -> tuple[Float[Tensor, "q k"], Int[Tensor, "q k"]]:
    """Cosine similarities and rows of each query's k nearest in the bank, most similar first. The search is exact.

    A zero vector has similarity 0 to all rows; NaN and infinity raise InputError. torch chooses among rows that tie for
    the k-th place, and orders equal rows; on a CPU the choice is always the same. A GPU computes if there is one; the
    result is on the CPU.

    >>> bank = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> annulus.evals.search(bank, torch.tensor([[1.0, 0.0]]), k=2)
    (tensor([[1.0000, 0.7071]]), tensor([[0, 2]]))

    Raises:
        InputError: if the bank has fewer than k rows, or its rows have another length than the queries; if a row of
            either holds NaN or infinity, or complex numbers.
    """
    for name, rows in (("bank", bank), ("queries", queries)):
        if not isinstance(rows, Tensor) or rows.ndim != 2 or rows.is_complex():
            kind = f"{rows.dtype} of shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise InputError(f"{name} {kind}: give a tensor, a row of real numbers for each")
    if not isinstance(k, Integral) or not 1 <= k <= len(bank) or bank.shape[1] != queries.shape[1]:
        raise InputError(
            f"k {k!r} with a bank of shape {tuple(bank.shape)} and queries of shape {tuple(queries.shape)}: give k "
            "from 1 to the bank's rows, and rows of the same width"
        )
    nearest_by_part = [nearest for _, *nearest in _in_turn(bank, queries, k)]
    similarity, nearest_rows = (torch.cat(parts) for parts in zip(*nearest_by_part, strict=True))
    return similarity, nearest_rows


def vote(
    similarity: Float[Tensor, "q k"], labels: Int[Tensor, "q k"], classes: int, temperature: float
) -> Float[Tensor, "q {classes}"]:
    """Votes for each class: the sum of its neighbours' exp(similarity / temperature).

    They are scaled so that the nearest neighbour's vote is 1. A class without a neighbour has -inf, not 0, so it is
    never predicted.

    Source: Wu et al. 2018, arXiv:1805.01978, Section 3.4.
    """
    weight = ((similarity - similarity.amax(dim=1, keepdim=True)).double() / temperature).exp()
    shape = (len(labels), classes)
    votes = torch.zeros(shape, dtype=torch.double).scatter_add_(1, labels, weight)
    absent = torch.ones(shape, dtype=torch.bool).scatter_(1, labels, False)
    return votes.masked_fill(absent, -torch.inf)


def nearest_labels(
    similarity: Float[Tensor, "q k"], rows: Int[Tensor, "q k"], bank_labels: Int[Tensor, "n"]
) -> Int[Tensor, "q"]:
    """Label of each query's nearest row; among equally similar rows the lowest."""
    farther = similarity < similarity.amax(dim=1, keepdim=True)
    return bank_labels[rows.masked_fill(farther, len(bank_labels)).amin(dim=1)]


@dataclass(frozen=True, kw_only=True)
class KnnSettings(Section):
    """Settings of kNN: k neighbours in a layer's features, weighted by exp(similarity / temperature).

    The defaults of k and temperature are from Wu et al. 2018, arXiv:1805.01978, Section 3.4.

    >>> annulus.KnnSettings(k=20)
    KnnSettings(k=20, temperature=0.07, layer='pooled')
    """

    k: Steps = 200
    temperature: Temperature = 0.07
    layer: Literal["pooled", "embedding"] = "pooled"


def evaluate_knn(train: Features, test: Features, params: KnnSettings | None = None) -> KnnOutcome:
    """kNN accuracy of the test images as queries against the training images as bank, in percent.

    `params`: by default `KnnSettings()`. If the bank has fewer than k images, all of them vote, with a warning. Top-5
    counts a label among the five classes with the most votes; with five classes or fewer, every class with a neighbour
    is among them.

    Raises:
        InputError: if the two splits name different classes, or features hold NaN or infinity; for a layer of maps.

    >>> train = annulus.Features({"pooled": torch.eye(4)}, labels=torch.tensor([0, 0, 1, 1]), classes=("cat", "dog"))
    >>> test = annulus.Features({"pooled": torch.eye(4)[[0, 3]]}, labels=torch.tensor([0, 1]), classes=("cat", "dog"))
    >>> annulus.evaluate_knn(train, test, annulus.KnnSettings(k=1)).metrics["top1_percent"]
    100.0
    """
    params = params or KnnSettings()
    if not isinstance(params, KnnSettings):
        raise InputError(f"params is a {type(params).__name__}; give annulus.KnnSettings(...)")
    check_same_classes(train, test)
    k = _neighbours(params.k, len(train.labels))
    # The training split's classes, since the test images may lack one.
    classes = len(train.classes)
    bank, queries = train.layer(params.layer), test.layer(params.layer)
    for name, rows in (("train", bank), ("test", queries)):
        if rows.ndim != 2:
            raise InputError(
                f"{params.layer} of {name} has shape {tuple(rows.shape)}: kNN compares vectors; give a row of numbers "
                "for each image, such as features.flatten(2).mean(dim=2) of a map (n, c, h, w)"
            )
    places, first = [], []
    for some, similarity, rows in _in_turn(bank, queries, k):
        labels = test.labels[some]
        votes = vote(similarity, train.labels[rows], classes, params.temperature)
        places.append(label_ranks(votes, labels))
        first.append(nearest_labels(similarity, rows, train.labels) == labels)
    ranks, nearest = torch.cat(places), torch.cat(first)
    metrics = {
        "nn1_top1_percent": percent(nearest),
        "top1_percent": percent(ranks < 1),
        "top5_percent": percent(ranks < 5),
        "k": k,
        "temperature": params.temperature,
        "images": len(test.labels),
        "bank_images": len(train.labels),
        **class_percents(ranks < 1, test.labels, train.classes),
    }
    return KnnOutcome(metrics, {"top1_percent": (ranks < 1).numpy(), "nn1_top1_percent": nearest.numpy()})


def _neighbours(k: int, bank: int) -> int:
    """k, or all images of a smaller bank."""
    if k > bank:
        log.warning("WARNING: kNN: k %d is more than the bank's %d training images; all of them vote", k, bank)
    return min(k, bank)


def _in_turn(
    bank: Float[Tensor, "n d"], queries: Float[Tensor, "q d"], k: int
) -> Iterator[tuple[slice, Float[Tensor, "_ k"], Int[Tensor, "_ k"]]]:
    """Yields some queries at a time: their slice, and similarities and rows of their k nearest, on the CPU.

    Raises:
        InputError: if a row of the bank or of the queries holds NaN or infinity.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    columns = _unit(bank, device).T
    start = 0
    for some in queries.split(max(1, SIMILARITIES_AT_ONCE // len(bank))):
        with without_autocast(device):
            similarity, rows = (_unit(some, device) @ columns).topk(k, dim=1)
        similarity = similarity.cpu()
        if similarity[:, 0].isnan().any():  # topk ranks NaN first, so this needs no pass over the rows
            raise _not_finite(bank, queries)
        yield slice(start, start := start + len(some)), similarity, rows.cpu()


def _unit(rows: Float[Tensor, "n d"], device: torch.device) -> Float[Tensor, "n d"]:
    """Scales rows to unit length, also if the square of the length over- or underflows float32."""
    rows = rows.to(device).float()
    lowest, highest = rows.aminmax(dim=1)
    largest, length = highest.maximum(-lowest), rows.norm(dim=1)
    lost = (length.isinf() & largest.isfinite()) | ((length < SHORTEST) & (largest > 0))
    if lost.any():
        rows = rows / largest.where(lost, 1.0)[:, None]
    return F.normalize(rows, dim=1)


def _not_finite(bank: Float[Tensor, "n d"], queries: Float[Tensor, "q d"]) -> InputError:
    tables = {"bank": bank, "queries": queries}
    wrong = {name: (~rows.float().isfinite().all(dim=1)).nonzero().flatten().tolist() for name, rows in tables.items()}
    name = "bank" if wrong["bank"] else "queries"
    return InputError(
        f"{name} holds NaN or infinity in row {wrong[name][0]} ({len(wrong[name])} of {len(tables[name])} rows do), "
        "which have no neighbours; omit such rows, or embed their images by an encoder that gives finite numbers"
    )
