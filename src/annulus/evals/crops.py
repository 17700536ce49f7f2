"""Crop retrieval: share of crops whose nearest neighbour is a crop of the same image. It needs no labels."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from annulus.device.rng import generator
from annulus.encoders.extract import extract_features
from annulus.encoders.features import Layer
from annulus.encoders.module_encoder import AnyEncoder
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.files.store import squares
from annulus.views.crop import Crop
from annulus.views.recipe import augment
from annulus.views.settings import ViewSet

CROP = ViewSet(crop=Crop(scale_min=0.2, scale_max=1.0, ratio_min=0.75, ratio_max=1.3333))
REPEATS = 4  # query crops of an image
PIXELS = 32  # pixels a side of the crops that are compared as pixels
MOST_QUERIES, MOST_IMAGES, MOST_BYTES = 500, 1000, 2**29  # of `unseen_crop_retrieval`: seconds for one encoder
AT_ONCE = 250  # images


def crop_retrieval(
    encoder: AnyEncoder,
    images: UInt8[Tensor, "n 3 h w"],
    queries: int | None = None,
    size: int | None = None,
    seed: int = 0,
    layers: Sequence[Layer] = ("pooled",),
    device: torch.device | str = "cpu",
) -> dict[str, float]:
    """Shares, in percent, of crops whose nearest crop is of the same image: by each layer, by pixels, by mean colour.

    Each image has one crop in the bank and four query crops, each of a random fifth to the whole of its area.
    `queries`: only the first images have query crops, for example images that the encoder did not train on. Crops have
    `size` pixels a side, by default the encoder's view size or else the image's. Layers are compared by cosine, pixels
    (32 a side) and mean colours by distance. At chance a share is 100 / n. An encoder that has learned something is
    above pixels and mean colour.

    Raises:
        InputError: for fewer than two images, or more queries than images; as `augment` and `extract_features`.

    >>> images = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8)
    >>> list(annulus.evals.crop_retrieval(annulus.ModuleEncoder(nn.Flatten()), images))
    ['pooled', 'pixels', 'colour']
    """
    count = len(images) if queries is None else queries
    if len(images) < 2 or not 1 <= count <= len(images):
        raise InputError(f"{count} queries among {len(images)} images; give at least two images, and queries of them")
    size = size or getattr(encoder, "view_size", None) or min(images.shape[2:])
    random = generator(seed, "crops")

    def represented(some: UInt8[Tensor, "k 3 h w"]) -> dict[str, Float[Tensor, "k _"]]:
        crops = augment(some, CROP, size, random)
        features = extract_features(encoder, crops, layers=layers, device=device).layers
        small = F.adaptive_avg_pool2d(crops, min(size, PIXELS))
        by_layer = {layer: F.normalize(features[layer].flatten(1)) for layer in layers}
        return by_layer | {"pixels": small.flatten(1), "colour": small.mean(dim=(2, 3))}

    def in_parts(some: UInt8[Tensor, "k 3 h w"]) -> dict[str, Float[Tensor, "k _"]]:
        parts = [represented(part) for part in some.split(AT_ONCE)]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    bank, own = in_parts(images), torch.arange(count)
    hits = dict.fromkeys(bank, 0)
    for _ in range(REPEATS):
        for name, rows in in_parts(images[:count]).items():
            hits[name] += int((torch.cdist(rows, bank[name]).argmin(dim=1) == own).sum())
    return {name: 100 * hit / (REPEATS * count) for name, hit in hits.items()}


def unseen_crop_retrieval(
    encoder: AnyEncoder, train: ImageSet, test: ImageSet, layers: Sequence[Layer], device: torch.device, seed: int
) -> dict[str, Number]:
    """`crop_retrieval` of test images among test and training images, at most `MOST_IMAGES`, evenly spaced in the sets.

    Returns the shares as `LAYER_percent`, `pixels_percent`, `colour_percent` and `chance_percent`, and the number of
    test images.
    """
    most = max(2, min(MOST_IMAGES, MOST_BYTES // (3 * test.images.side**2)))
    queries = _spaced(len(test), min(MOST_QUERIES, most // 2))
    others = _spaced(len(train), most - len(queries))
    images = torch.cat([squares(test.images, queries), squares(train.images, others)])
    shares = crop_retrieval(encoder, images, len(queries), seed=seed, layers=layers, device=device)
    percents: dict[str, Number] = {f"{name}_percent": share for name, share in shares.items()}
    return percents | {"chance_percent": 100 / len(images), "images": len(queries)}


def _spaced(count: int, most: int) -> Int64[Tensor, " k"]:
    """At most `most` of `count` positions, evenly spaced."""
    chosen = min(count, most)
    return torch.arange(chosen) * count // chosen
