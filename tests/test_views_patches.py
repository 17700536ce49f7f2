"""Patches at a distance, in images whose pixels are their own coordinates."""

import pytest
import torch
from settings import load, refusal, run

from annulus.errors import InputError
from annulus.views.batch_share import BatchShare, rows_in
from annulus.views.patches import draw_views
from annulus.views.recipe import augment, center_view
from annulus.views.settings import Patches, ViewSet

PLAIN = {"views": "patches", "view_sets.patches.flip": 0.0}


def coordinates(count, side):
    """Images whose channels hold the row, the column and the image's number."""
    grid = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    numbers = torch.arange(count)[:, None, None].expand(count, side, side)
    return torch.stack([*(plane.expand(count, side, side) for plane in grid), numbers], dim=1).to(torch.uint8)


def patches(offset, images, seeds=(1, 2), changes=PLAIN, **options):
    changes = changes | {"dataset": "mosaics", "view_sets.patches.patches.offset": offset}
    random = {seed: torch.Generator().manual_seed(seed) for seed in seeds}
    return draw_views(images, load(changes).get("view_sets.${views}"), 8, [random[seed] for seed in seeds], **options)


@pytest.mark.parametrize("offset", [0, 3, 16])
def test_the_second_patch_is_exactly_the_offset_away_and_the_first_is_anywhere_that_fits(offset):
    images = coordinates(200, 40)
    first, second = (255 * view for view in patches(offset, images, seeds=(0, 0)))
    corners = first[:, :2, :1, :1].round()
    torch.testing.assert_close(first[:, :2], corners + images[:1, :2, :8, :8], atol=1e-3, rtol=0)
    torch.testing.assert_close(second[:, :2], first[:, :2] + offset, atol=2e-3, rtol=0)
    assert (first[:, 2].round() == torch.arange(200)[:, None, None]).all(), "of its own image"
    free = 40 - 8 - offset
    for places in corners.squeeze().long().T:
        counts = places.bincount(minlength=free + 1)
        assert len(counts) == free + 1, "none beyond the farthest place that fits"
        assert counts[[0, -1]].min() > 0, "the first place and the farthest one"
        assert (counts > 0).float().mean() > 0.9
    assert (corners[:, 0] != corners[:, 1]).float().mean() > 0.8, "row and column are drawn apart"


def test_both_patches_lie_inside_of_images_of_unequal_sizes():
    sizes = torch.tensor([[30, 14], [13, 30], [12, 12]]).repeat(100, 1)
    _, second = patches(4, coordinates(300, 30), seeds=(0, 0), sizes=sizes)
    last = (255 * second[:, :2, -1, -1]).round()
    assert (last < sizes).all()
    assert (last[2::3] == 11).all(), "where there is one place, it is taken"


def test_each_patch_has_its_own_generator_s_view_and_a_share_of_the_rows_is_that_share():
    images = coordinates(50, 40)
    views, again, other = (patches(5, images, seeds) for seeds in ((1, 2), (1, 2), (3, 2)))
    shares = [BatchShare(torch.tensor(rows), len(images)) for rows in ([4, 5, 6, 7], [0, 5, 49])]
    parts = patches(5, images[rows_in(shares)], shares=shares)
    for view, same, moved, part, own in zip(views, again, other, parts, shares, strict=True):
        assert torch.equal(view, same)
        assert not torch.equal(view, moved)
        assert torch.equal(view[own.rows], part)
    first, second = patches(0, images, changes={"views": "patches"})
    flipped = (first != second).flatten(1).any(dim=1)
    assert 10 < flipped.sum() < 40
    assert torch.equal(first[flipped].flip(3), second[flipped])


def test_of_no_image_there_are_no_patches_and_no_centre():
    assert [tuple(view.shape) for view in patches(4, coordinates(3, 40)[:0])] == [(0, 3, 8, 8)] * 2
    assert center_view(coordinates(3, 40)[:0], 8, sizes=torch.zeros(0, 2, dtype=torch.int64)).shape == (0, 3, 8, 8)


def test_without_patches_views_are_those_of_augment_with_the_same_draws():
    images, views = coordinates(20, 20), load({"views": "standard"}).get("view_sets.${views}")
    one, plain = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    for view in draw_views(images, views, 16, [one, one]):
        assert torch.equal(view, augment(images, views, 16, plain))
    assert torch.equal(one.get_state(), plain.get_state())


def test_of_a_list_each_view_has_its_own_set_and_the_first_one_s_patches():
    images, random = coordinates(20, 20), torch.Generator
    first, second = draw_views(images, ["standard", "none"], 16, [random().manual_seed(seed) for seed in (1, 2)])
    assert torch.equal(first, augment(images, "standard", 16, random().manual_seed(1)))
    assert torch.equal(second, augment(images, "none", 16, random().manual_seed(2)))
    sets = [ViewSet(patches=Patches(offset=4)), ViewSet(flip=1.0)]
    patch, mirrored = draw_views(images, sets, 16, [random().manual_seed(seed) for seed in (1, 2)])
    assert torch.equal(patch[:, :, 4:, 4:], mirrored.flip(3)[:, :, :12, :12])
    with pytest.raises(InputError, match=r"^1 sets of views for 2 generators: give as many$"):
        draw_views(images, ["standard"], 16, [random(), random()])


def test_each_view_is_of_its_own_rows_whose_images_are_given_once_and_differ_in_size():
    images, sizes = coordinates(9, 30), torch.tensor([[30, 14], [13, 30], [12, 12]]).repeat(3, 1)
    views = load({"views": "standard"}).get("view_sets.${views}")
    shares = [BatchShare(torch.tensor(rows), 9) for rows in ([0, 1, 5], [1, 4, 8])]
    assert rows_in(shares).tolist() == [0, 1, 4, 5, 8]

    def draw(images, shares):
        return draw_views(images, views, 12, [torch.Generator().manual_seed(3)] * 2, shares, sizes)

    for part, whole, own in zip(draw(images[rows_in(shares)], shares), draw(images, None), shares, strict=True):
        torch.testing.assert_close(part, whole[own.rows], atol=1e-6, rtol=0)


def test_what_cannot_be_cut_is_refused_with_the_way_out():
    assert refusal({"views": "patches", "view_sets.patches.patches.offset": 7}) == (
        "view_sets.patches.patches: offset 7 puts the second patch of 20 pixels outside of images of "
        "20 pixels; take an offset of at most 0, or larger images"
    )
    pytest.importorskip("fcntl", reason="a training has file locks, which Windows has not")
    with pytest.raises(InputError, match="the method sees one; take method: moco, simclr or simo"):
        run(PLAIN | {"method": "ir"})
    assert len(run(PLAIN | {"method": "simclr", "scales.tiny.pretrain.epochs": 1}).run()) == 1


def test_three_patches_lie_inside_of_the_image_or_are_refused():
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    images = coordinates(20, 40)
    views = ViewSet(patches=Patches(offset=4))
    first, _, third = (255 * view for view in draw_views(images, views, 32, generators))
    assert torch.equal(first[:, :, 8:, 8:], third[:, :, :24, :24])
    with pytest.raises(InputError, match=r"5 puts the third patch of 32 .* of 40 pixels; take an offset of at most 4,"):
        draw_views(images, ViewSet(patches=Patches(offset=5)), 32, generators)
    with pytest.raises(
        InputError, match=r"the first patch of 41 pixels outside of images of 40 .*; take larger images"
    ):
        draw_views(images, views, 41, generators[:1])
    with pytest.raises(InputError, match=r"images of 38 pixels; take an offset of at most 3,"):
        draw_views(images, views, 32, generators, sizes=torch.tensor([[40, 38]] * 20))
