"""Few-shot episodes: classification of a few classes from a few images of each, by frozen features."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from annulus.errors import InputError

log = logging.getLogger("annulus")

EPISODES_AT_ONCE = 64  # episodes of one batched computation


class Episodes(NamedTuple):
    """Row numbers of the images of each episode's classes; an image occurs once in an episode."""

    support: Int[Tensor, "e w s"]
    query: Int[Tensor, "e w q"]


def draw_episodes(
    labels: Int[Tensor, "n"],
    classes: Sequence[int],
    ways: int,
    shots: int,
    queries: int,
    episodes: int,
    generator: torch.Generator,
) -> Episodes:
    """Draws episodes of `ways` of these classes, with `shots` support and `queries` query images of each class.

    Classes with fewer than shots + queries images are left out.

    Source: Triantafillou et al. 2020, arXiv:1903.03096, Section 2 (episodes of fixed ways and shots).

    Raises:
        InputError: when fewer than `ways` classes are left.
    """
    needed = shots + queries
    rows = [members for label in classes if len(members := (labels == label).nonzero().squeeze(1)) >= needed]
    if len(rows) < ways:
        raise InputError(
            f"few_shot: an episode has {ways} classes with {shots} + {queries} images each, and only {len(rows)} of "
            f"the {len(classes)} classes have enough test images; lower few_shot.ways, shots or queries"
        )
    if len(rows) < len(classes):
        log.warning(
            "WARNING: few_shot: %d of %d classes have fewer than %d test images and are in no episode",
            len(classes) - len(rows), len(classes), needed,
        )  # fmt: skip
    drawn = torch.stack([_episode(rows, ways, needed, generator) for _ in range(episodes)])
    return Episodes(drawn[:, :, :shots], drawn[:, :, shots:])


def accuracies(
    features: Float[Tensor, "n d"], center: Float[Tensor, "d"], episodes: Episodes, classifier: str
) -> Float[Tensor, "e"]:
    """Share of correctly classified queries of each episode; chance is 1 / ways.

    `center`, the mean feature of the target's training images, is subtracted, and features are scaled to unit length.
    prototype: a query has the class of the nearest mean of support features.
    neighbour: a query has the class of the nearest support image.

    Source: Snell et al. 2017, arXiv:1703.05175, Eq. 1 and 2 (prototype); Triantafillou et al. 2020, arXiv:1903.03096,
    Section 2 (nearest neighbour).
    """
    directions = F.normalize(features - center, dim=1)
    shares = []
    for support, query in zip(*(part.split(EPISODES_AT_ONCE) for part in episodes), strict=True):
        support_features, query_features = (
            directions[support],
            directions[query].flatten(1, 2),
        )  # (e, w, s, d), (e, w q, d)
        if classifier == "prototype":
            distances = torch.cdist(query_features, support_features.mean(dim=2))  # (e, w q, w)
        else:
            pairwise = torch.cdist(query_features, support_features.flatten(1, 2))
            distances = pairwise.unflatten(2, support_features.shape[1:3]).amin(dim=3)
        truth = torch.arange(query.shape[1]).repeat_interleave(query.shape[2])
        shares.append((distances.argmin(dim=2) == truth).double().mean(dim=1).float())
    return torch.cat(shares)


def _episode(rows: Sequence[Tensor], ways: int, images: int, generator: torch.Generator) -> Int[Tensor, "w i"]:
    chosen = torch.randperm(len(rows), generator=generator)[:ways].tolist()
    return torch.stack([rows[at][torch.randperm(len(rows[at]), generator=generator)[:images]] for at in chosen])
