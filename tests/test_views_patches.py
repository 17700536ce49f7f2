"""Patches at a distance, told by images whose pixels are their own coordinates."""

import pytest
import torch
from settings import load, refusal, run

from annulus.errors import InputError
from annulus.views.patches import views_of
from annulus.views.recipe import augment

PLAIN = {"views": "patches", "view_sets.patches.flip": 0.0}


def coordinates(count, height, width):
    """Images that hold their row, their column and their number."""
    planes = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    same = torch.stack([*planes, torch.zeros(height, width)])
    return (same + torch.tensor([0, 0, 1])[:, None, None] * torch.arange(count)[:, None, None, None]).to(torch.uint8)


def patches(offset, images, size, seeds=(0, 0), **options):
    views = load(PLAIN | {"dataset": "mosaics", "view_sets.patches.patches.offset": offset}).get("view_sets.${views}")
    random = {seed: torch.Generator().manual_seed(seed) for seed in seeds}
    return views_of(images, views, size, [random[seed] for seed in seeds], **options)


@pytest.mark.parametrize("offset", [0, 3, 16])
def test_the_second_patch_is_exactly_the_offset_away_and_the_first_is_anywhere_that_fits(offset):
    images, size = coordinates(200, 40, 40), 8
    first, second = (255 * view for view in patches(offset, images, size))
    corners = first[:, :2, :1, :1].round()
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"))
    torch.testing.assert_close(first[:, :2], corners + grid, atol=1e-3, rtol=0)
    torch.testing.assert_close(second[:, :2], corners + grid + offset, atol=1e-3, rtol=0)
    assert (first[:, 2].round() == torch.arange(200)[:, None, None]).all(), "of its own image"
    free = 40 - 8 - offset
    for places in corners.squeeze().long().T:
        counts = places.bincount(minlength=free + 1)
        assert len(counts) == free + 1, "the farthest place that fits, and none beyond"
        assert (counts > 0).float().mean() > 0.9
    assert (corners[:, 0] != corners[:, 1]).float().mean() > 0.8, "row and column are drawn apart"


def test_both_patches_lie_inside_of_images_of_unequal_sizes():
    images = coordinates(300, 30, 30)
    sizes = torch.tensor([[30, 14], [13, 30], [12, 12]]).repeat(100, 1)
    _, second = (255 * view for view in patches(4, images, 8, sizes=sizes))
    last = second[:, :2, -1, -1].round()
    assert (last < sizes).all()
    assert (last[2::3] == 11).all(), "where there is one place, it is taken"


def test_the_same_generators_give_the_same_patches_and_a_share_of_the_rows_is_that_share():
    images = coordinates(20, 40, 40)
    views, again, other = (patches(5, images, 8, seeds=seeds) for seeds in ((1, 2), (1, 2), (3, 2)))
    parts = patches(5, images, 8, seeds=(1, 2), part=slice(4, 9))
    for view, same, moved, part in zip(views, again, other, parts, strict=True):
        assert torch.equal(view, same)
        assert not torch.equal(view, moved)
        assert torch.equal(view[4:9], part)


def test_the_rest_of_the_view_set_works_on_each_patch_by_its_own_generator():
    images = coordinates(50, 40, 40)
    views = load({"views": "patches", "view_sets.patches.patches.offset": 0}).get("view_sets.${views}")
    first, second = views_of(images, views, 8, [torch.Generator().manual_seed(seed) for seed in (1, 2)])
    flipped = (first != second).flatten(1).any(dim=1)
    assert 10 < flipped.sum() < 40
    assert torch.equal(first[flipped].flip(3), second[flipped])


def test_without_patches_views_are_those_of_augment_with_the_same_draws():
    images, views = coordinates(20, 20, 20), load({"views": "standard"}).get("view_sets.${views}")
    one, plain = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    for view in views_of(images, views, 16, [one, one]):
        assert torch.equal(view, augment(images, views, 16, plain))
    assert torch.equal(one.get_state(), plain.get_state())


def test_what_cannot_be_cut_is_refused_with_the_way_out():
    assert refusal({"views": "patches", "view_sets.patches.patches.offset": 7}) == (
        "patches.offset: 7 puts the second patch of 20 pixels (view_size) outside of images of 20 pixels; "
        "take an offset of at most 0, or larger images"
    )
    small = PLAIN
    with pytest.raises(InputError, match="the method sees one; take method: moco, simclr or simo"):
        run(small | {"method": "ir"})
    for method in ("moco", "simclr", "simo"):
        assert len(run(small | {"method": method, "scales.tiny.pretrain.epochs": 1}).run()) == 1
