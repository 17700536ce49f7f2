"""Crop retrieval: share of crops whose nearest crop is of the same image, for networks with a known share."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from annulus.device.rng import generator
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.errors import InputError
from annulus.evals.crops import CROP, MOST_IMAGES, REPEATS, crop_retrieval, unseen_crop_retrieval
from annulus.files.images import UNLABELLED, ImageSet
from annulus.files.store import Resident
from annulus.views.recipe import augment


def noise(count: int, side: int = 16, seed: int = 0) -> torch.Tensor:
    """Images of one colour each, with noise, so that all shares lie between chance and certainty."""
    random = torch.Generator().manual_seed(seed)
    colour = torch.randint(110, 140, (count, 3, 1, 1), generator=random)
    return (colour + torch.randint(-40, 40, (count, 3, side, side), generator=random)).to(torch.uint8)


def image_set(count: int, seed: int = 0) -> ImageSet:
    rows = torch.arange(count)
    return ImageSet(Resident(noise(count, seed=seed)), torch.full((count,), UNLABELLED), rows, ())


def test_shares_are_those_of_a_plain_search_crop_by_crop():
    images, network = noise(12), nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 5))
    encoder = ModuleEncoder(network)
    actual = crop_retrieval(encoder, images, queries=7, seed=3)
    random = generator(3, "crops")
    stored = augment(images, CROP, 16, random)
    hits = {"pooled": 0, "pixels": 0, "colour": 0}
    with torch.no_grad():
        for _ in range(REPEATS):
            for place, crop in enumerate(augment(images[:7], CROP, 16, random)):
                likeness = {name: [] for name in hits}
                for other in stored:
                    pair = network(crop[None])[0], network(other[None])[0]
                    likeness["pooled"].append(F.cosine_similarity(*pair, dim=0).item())
                    likeness["pixels"].append(-(crop - other).square().sum().item())
                    likeness["colour"].append(-(crop.mean(dim=(1, 2)) - other.mean(dim=(1, 2))).norm().item())
                for name, values in likeness.items():
                    hits[name] += values.index(max(values)) == place
    assert actual == {name: 100 * count / (7 * REPEATS) for name, count in hits.items()}
    assert 10 < actual["colour"] < 100


def test_a_network_that_knows_the_image_finds_all_and_a_constant_one_is_at_chance():
    images = torch.arange(0, 250, 25, dtype=torch.uint8)[:, None, None, None].expand(10, 3, 16, 16)
    level = ModuleEncoder(lambda crops: F.one_hot((crops.mean(dim=(1, 2, 3)) * 10.2).round().long(), 11).float())
    constant = ModuleEncoder(lambda crops: torch.ones(len(crops), 4))
    assert crop_retrieval(level, images) == {"pooled": 100.0, "pixels": 100.0, "colour": 100.0}
    assert crop_retrieval(constant, images)["pooled"] == 10.0


def test_each_layer_and_size_and_no_global_randomness(untouched_global_randomness):
    sizes = []
    encoder = ModuleEncoder(lambda crops: sizes.append(crops.shape[-1]) or crops.flatten(1))
    shares = crop_retrieval(encoder, noise(6), size=40, layers=["pooled", "embedding"])
    assert {*sizes} == {40}
    assert list(shares) == ["pooled", "embedding", "pixels", "colour"]
    assert shares["pooled"] == shares["embedding"], "a layer's length is not compared"
    assert crop_retrieval(encoder, noise(6), size=40, layers=["pooled", "embedding"]) == shares


def test_of_a_set_test_images_are_searched_for_among_all():
    encoder = ModuleEncoder(nn.Flatten())
    train, test = image_set(20, seed=1), image_set(5, seed=2)
    actual = unseen_crop_retrieval(encoder, train, test, ["pooled"], torch.device("cpu"), seed=0)
    images = torch.cat([noise(5, seed=2), noise(20, seed=1)])
    shares = crop_retrieval(encoder, images, queries=5, seed=0)
    expected = {f"{name}_percent": share for name, share in shares.items()}
    assert actual == expected | {"chance_percent": 4.0, "images": 5}


def test_a_large_set_gives_its_evenly_spaced_images(monkeypatch):
    call = {}

    def record(encoder, images, queries, **_):
        call["images"], call["queries"] = images, queries
        return {}

    monkeypatch.setattr("annulus.evals.crops.crop_retrieval", record)
    train, test = image_set(3000), image_set(1200)
    metrics = unseen_crop_retrieval(ModuleEncoder(nn.Flatten()), train, test, ["pooled"], torch.device("cpu"), seed=0)
    assert (len(call["images"]), call["queries"], metrics) == (MOST_IMAGES, 500, {"chance_percent": 0.1, "images": 500})
    assert torch.equal(call["images"][2], test.images.take(torch.tensor([4]))[0])
    assert torch.equal(call["images"][501], train.images.take(torch.tensor([6]))[0])


@pytest.mark.parametrize(("count", "queries"), [(1, None), (4, 0), (4, 5)])
def test_too_few_images_are_refused(count, queries):
    with pytest.raises(InputError, match="images; give at least two images, and queries of them"):
        crop_retrieval(ModuleEncoder(nn.Flatten()), noise(count), queries=queries)
