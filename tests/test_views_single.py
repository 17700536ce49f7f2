"""The transform of a data set against the batched path: the same draws, the same pixels, in workers too."""

import pickle
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from annulus.errors import InputError
from annulus.views import colour, large
from annulus.views.crop import Crop
from annulus.views.operators import Solarize
from annulus.views.recipe import augment, draw_recipe
from annulus.views.sets import SETS
from annulus.views.settings import ViewSet
from annulus.views.single import TwoViews, draw_one

FLAT = ViewSet(crop=Crop(scale_min=0.9, scale_max=1.0, ratio_min=2.0, ratio_max=2.5))  # no box fits a high image
OWN = replace(SETS["moco-v2"], operators={"solarize": Solarize(probability=0.5, threshold=0.5)})
WITHOUT_PATCHES = {name: views for name, views in SETS.items() if views.patches is None}


def picture(height, width, seed=0):
    """A uint8 image, smooth enough that resizing in bytes and in floats agree."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 5, 6, generator=random)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0]
    return (255 * smooth).round().to(torch.uint8)


def as_pillow(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


@pytest.mark.parametrize("views", [*WITHOUT_PATCHES.values(), FLAT], ids=[*WITHOUT_PATCHES, "flat"])
@pytest.mark.parametrize(("height", "width"), [(256, 341), (300, 40), (33, 32)])
def test_the_draws_of_one_image_are_those_of_a_batch_of_one(views, height, width, generator):
    for seed in range(100):
        own = draw_one(views, height, width, 32, generator.manual_seed(seed))
        left = generator.get_state()
        batch = draw_recipe(views, torch.tensor([[height, width]]), generator.manual_seed(seed))
        assert torch.equal(left, generator.get_state())
        if batch.boxes is not None:
            assert own.box == tuple(int(value) for value in batch.boxes), seed
        assert (own.mirrored, own.grey) == (bool(batch.mirrored), bool(batch.grey))
        expected = [] if batch.jitter is None else colour.in_order(batch.jitter)[0]
        assert [kind for kind, _ in own.jitter] == [kind for kind, _ in expected]
        assert [amount for _, amount in own.jitter] == pytest.approx([amount for _, amount in expected], abs=1e-6)
        sigma = 0.0 if batch.blur is None else float(batch.blur.sigma.where(batch.blur.chosen, 0.0))
        assert own.sigma == pytest.approx(sigma, abs=1e-6)


@pytest.mark.parametrize("name", [*WITHOUT_PATCHES, "own"])
@pytest.mark.parametrize(("height", "width", "size"), [(256, 341, 224), (150, 120, 64), (40, 48, 32)])
@pytest.mark.parametrize("compiled", [True, False], ids=["C", "operators"])
def test_the_views_are_those_of_augment(name, height, width, size, compiled):
    """Without a compiler both resize large images in bytes and agree to one level; with one, to rounding."""
    views, image, random = OWN if name == "own" else SETS[name], picture(height, width), torch.Generator()
    transform = TwoViews(views, size, count=3)
    with mock.patch.object(large, "trusted", return_value=compiled), torch.random.fork_rng(devices=[]):
        for source in (image, as_pillow(image), image.contiguous(memory_format=torch.contiguous_format)):
            torch.manual_seed(5)
            random.manual_seed(5)
            results = transform(source)
            expected = [augment(image[None], views, size, random)[0] for _ in range(3)]
            assert [each.shape for each in results] == [(3, size, size)] * 3
            assert torch.equal(random.get_state(), torch.get_rng_state())
            for one, other in zip(results, expected, strict=True):
                far = ((one - other).abs() > (1e-4 if compiled else 0.01)).float().mean()
                assert far < 0.005, "a threshold turns a level into a jump"


def test_a_set_is_called_for_one_view():
    image = picture(64, 50)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        [expected] = TwoViews("standard", 32, count=1)(image)
        torch.manual_seed(3)
        assert torch.equal(SETS["standard"](image, 32), expected)


def test_a_picture_of_another_mode_is_taken_as_rgb():
    grey = Image.fromarray(np.arange(48 * 40, dtype=np.uint8).reshape(48, 40))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        results = TwoViews("crop", 32)(grey)
        torch.manual_seed(0)
        expected = TwoViews("crop", 32)(grey.convert("RGB"))
    assert all(map(torch.equal, results, expected))
    assert results[0].std() > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("folder")
    for number in range(6):
        path = root / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        as_pillow(picture(60, 70)).save(path)  # all are equal, so their views differ only by draws
    return root


def epochs(folder, workers, seed, count=2):
    """All views of `count` epochs, one a row."""
    images = ImageFolder(folder, transform=TwoViews("moco-v2", size=16))
    context = "fork" if workers else None
    draws = torch.Generator().manual_seed(seed)
    loader = DataLoader(images, batch_size=2, generator=draws, num_workers=workers, multiprocessing_context=context)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        batches = [torch.stack(views) for _ in range(count) for views, _ in loader]
    return torch.cat(batches, dim=1).flatten(0, 1).flatten(1)


def test_workers_draw_by_the_seed_by_worker_and_by_epoch(folder):
    first, again, other = (epochs(folder, 2, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert len(torch.cat([first, other]).unique(dim=0)) == 2 * len(first) == 48, "no view stands twice"


def test_a_spawned_worker_gets_the_same_transform():
    assert pickle.loads(pickle.dumps(TwoViews("infomin", 32))) == TwoViews("infomin", 32)


def test_without_workers_the_global_generator_draws(folder):
    first, again = (epochs(folder, 0, 0) for _ in range(2))
    assert torch.equal(first, again)
    assert len(first.unique(dim=0)) == len(first)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: TwoViews("mocov2", 32), r"views: 'mocov2' is none of gentle, .*did you mean 'moco-v2'\?"),
        (lambda: TwoViews("patches", 32), "a set with patches makes several views of each image together; call"),
        (lambda: TwoViews("crop", 0), "size 0: give the side of a view in pixels"),
        (lambda: TwoViews("crop", 32, count=0), "count 0: give the number of views of an image"),
        (lambda: TwoViews("none", 32)(picture(31, 40)), "a centre crop of 32 x 32 does not fit images of 31 x 40"),
        (lambda: TwoViews("crop", 8)(picture(9, 9) / 255), r"image is torch.float32 of shape \(3, 9, 9\): give a pict"),
        (lambda: TwoViews("crop", 8)(picture(9, 9)[None]), r"image is torch.uint8 of shape \(1, 3, 9, 9\): give a pic"),
        (lambda: TwoViews("crop", 8)(b"jpeg"), "image is a bytes: give a picture of Pillow, or uint8 RGB"),
        (lambda: TwoViews("crop", 8)(picture(9, 9).to("meta")), "image is on meta: give one on the CPU"),
    ],
)
def test_a_mistake_is_a_sentence(call, sentence):
    with pytest.raises((InputError, TypeCheckError), match=sentence):
        call()
