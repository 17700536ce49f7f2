"""Views against torchvision on equal parameters, and their parameters against the distributions they promise."""

import math
from dataclasses import replace

import pytest
import torch
from compilers import needs_compiler
from settings import read
from torchvision import transforms
from torchvision.transforms.v2 import functional as oracle

from annulus.device import threads as pool
from annulus.errors import InputError
from annulus.views import colour, large
from annulus.views import recipe as views
from annulus.views.batch_share import BatchShare
from annulus.views.blur import Blur, kernel_size
from annulus.views.colour import ColourJitter
from annulus.views.crop import LARGE as MATRICES_END
from annulus.views.crop import Crop, CropBoxes, center_boxes, center_crop, middle, resized, resized_crop
from annulus.views.gaussian import gaussian_blur
from annulus.views.parameters import numbered, pick
from annulus.views.recipe import augment, center_view
from annulus.views.settings import ViewSet

CROP = Crop(scale_min=0.2, scale_max=1.0, ratio_min=3 / 4, ratio_max=4 / 3)
JITTER = ColourJitter(probability=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, strength=1.0)
BLUR = Blur(probability=0.5, sigma_min=0.1, sigma_max=2.0)
NOTHING = ViewSet()
STANDARD = replace(NOTHING, crop=CROP, flip=0.5, jitter=JITTER, grayscale=0.2)
STRONG = replace(STANDARD, blur=BLUR)


@pytest.fixture
def photos(generator):
    """Twelve 20 x 28 uint8 images: noise, smooth colour, and the corners of the cube (greys, pure hues, ties)."""
    noise = torch.randint(0, 256, (4, 3, 20, 28), generator=generator, dtype=torch.uint8)
    coarse = torch.rand(4, 3, 3, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (20, 28), mode="bicubic").clamp(0, 1)
    levels = torch.tensor([0, 1, 128, 255], dtype=torch.uint8)
    corners = levels[torch.randint(0, 4, (3, 3, 20, 28), generator=generator)]
    grey = torch.randint(0, 256, (1, 1, 20, 28), generator=generator, dtype=torch.uint8).expand(1, 3, 20, 28)
    return torch.cat([noise, (smooth * 255).round().to(torch.uint8), corners, grey])


@pytest.fixture
def set_threads():
    """Sets the number of torch's threads and of this process's own threads."""
    before = torch.get_num_threads()
    yield lambda count: (torch.set_num_threads(count), pool._threads.cache_clear())
    torch.set_num_threads(before)
    pool._threads.cache_clear()


@pytest.fixture(params=["in batches", "each image by itself", pytest.param("each image in C", marks=needs_compiler)])
def way(request, monkeypatch):
    """Views in batches, image by image, or in C. Resizing stays in floats; the crop's own test covers 8 bits."""
    monkeypatch.setattr(views, "LARGE", views.LARGE if request.param == "in batches" else 1)
    monkeypatch.setattr(large, "trusted", lambda *_: request.param == "each image in C")
    monkeypatch.setattr(large, "resized", lambda image, box, size: resized(image.float(), box, size))


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def sides(height, width, count):
    """Heights and widths of `count` images."""
    return torch.tensor([[height, width]]).expand(count, 2)


def assert_uniform(values, low, high):
    """Kolmogorov-Smirnov at the 0.1 % level; the seed is fixed, so it passes always or never."""
    ordered = ((values.flatten().double() - low) / (high - low)).sort().values
    assert -1e-5 <= ordered[0] <= ordered[-1] <= 1 + 1e-5
    ranks = torch.arange(len(ordered) + 1, dtype=torch.float64) / len(ordered)
    gap = torch.maximum((ordered - ranks[:-1]).abs().max(), (ordered - ranks[1:]).abs().max())
    assert gap < 1.95 / math.sqrt(len(ordered))


def assert_share(chosen, share):
    """The share is within four standard deviations."""
    assert abs(chosen.double().mean() - share) < 4 * math.sqrt(share * (1 - share) / len(chosen))


def assert_uncorrelated(*fields):
    correlations = torch.corrcoef(torch.stack(fields)) - torch.eye(len(fields))
    assert correlations.abs().max() < 4 / math.sqrt(len(fields[0]))


# --- crops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "size"), [(20, 28, 40), (60, 45, 16), (80, 90, 96), (128, 100, 48)])
def test_resized_crop_equals_torchvision(height, width, size, generator):
    images = torch.randint(0, 256, (24, 3, height, width), generator=generator, dtype=torch.uint8)
    boxes = CROP.draw(sides(height, width, 22), generator)
    extremes = CropBoxes(*(torch.tensor(pair) for pair in ((0, height - 1), (0, 2), (height, 1), (width, 5))))
    boxes = CropBoxes(*(torch.cat(pair) for pair in zip(boxes, extremes, strict=True)))
    mirrored = torch.rand(24, generator=generator) < 0.5
    ours, floats = (resized_crop(some, boxes, mirrored.nonzero().squeeze(1), size) for some in (images, images / 255))
    eight_bits = max(height, width) * size > MATRICES_END  # a CPU then computes in 8 bits
    for image, box, flipped, *both in zip(images, zip(*boxes, strict=True), mirrored, ours, floats, strict=True):
        exact = oracle.resized_crop(image / 255, *map(int, box), [size, size], antialias=True)
        expected = (
            oracle.resized_crop(image, *map(int, box), [size, size], antialias=True) / 255 if eight_bits else exact
        )
        for our, their in zip(both, (expected, exact), strict=True):
            torch.testing.assert_close(our, oracle.horizontal_flip(their) if flipped else their, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours, floats, atol=1.001 / 255 if eight_bits else 1e-6, rtol=0)


@pytest.mark.parametrize("in_c", [False, pytest.param(True, marks=needs_compiler)])
@pytest.mark.parametrize("size", [96, 40])
def test_a_view_of_a_large_image_is_the_same_in_planes_and_as_jpeg_lies(size, in_c, generator, monkeypatch):
    monkeypatch.setattr(large, "trusted", lambda *_: in_c)
    images = torch.randint(0, 256, (6, 3, 130, 140), generator=generator, dtype=torch.uint8)
    lying = images.contiguous(memory_format=torch.channels_last)
    one, other = (augment(some, STANDARD, size, torch.Generator().manual_seed(3)) for some in (images, lying))
    torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_boxes_have_uniform_area_log_uniform_aspect_and_uniform_place(generator):
    crop = Crop(scale_min=0.2, scale_max=0.5, ratio_min=0.75, ratio_max=4 / 3)  # every try fits
    side = 100_000  # so large that rounding to pixels does not show
    boxes = CropBoxes(*(field.double() for field in crop.draw(sides(side, side, 5000), generator)))
    area, aspect = boxes.height * boxes.width / side**2, (boxes.width / boxes.height).log()
    down, along = boxes.top / (side - boxes.height), boxes.left / (side - boxes.width)
    assert_uniform(area, 0.2, 0.5)
    assert_uniform(aspect, math.log(0.75), math.log(4 / 3))
    assert_uniform(down, 0, 1)
    assert_uniform(along, 0, 1)
    assert_uncorrelated(area, aspect, down, along)


def test_boxes_of_small_images_are_distributed_as_torchvisions(generator):
    image, draws = torch.zeros(3, 32, 24), 3000
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = [transforms.RandomResizedCrop.get_params(image, [0.2, 1.0], [3 / 4, 4 / 3]) for _ in range(draws)]
    theirs = torch.tensor(theirs, dtype=torch.float64)
    ours = torch.stack(CROP.draw(sides(32, 24, draws), generator), dim=1).double()
    assert (ours[:, :2] + ours[:, 2:]).amax(dim=0).tolist() == [32, 24], "the last row is reached, and none beyond"
    assert ours[:, :2].min() == 0
    spread = ((ours.var(0) + theirs.var(0)) / draws).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 4 * spread).all()
    torch.testing.assert_close(ours.std(0), theirs.std(0), rtol=0.06, atol=0)
    square = Crop(scale_min=0.9, scale_max=1.0, ratio_min=1.0, ratio_max=1.0)
    assert set(square.draw(sides(30, 30, 100), generator).height.tolist()) == {28, 29, 30}  # the whole side fits


def test_a_box_that_never_fits_falls_back_to_the_central_one(generator):
    whole = Crop(scale_min=1.0, scale_max=1.0, ratio_min=3 / 4, ratio_max=4 / 3)
    slim = Crop(scale_min=1.0, scale_max=1.0, ratio_min=3.0, ratio_max=4.0)
    flat = Crop(scale_min=1.0, scale_max=1.0, ratio_min=0.2, ratio_max=0.3)
    for crop, size in ((slim, (10, 1)), (flat, (1, 10))):
        assert crop.draw(sides(*size, 1), generator).height.tolist() == [1]
        assert crop.draw(sides(*size, 1), generator).width.tolist() == [1]
    for size in ((10, 100), (100, 10), (37, 90)):
        expected = transforms.RandomResizedCrop.get_params(torch.zeros(3, *size), [1.0, 1.0], [3 / 4, 4 / 3])
        assert torch.stack(whole.draw(sides(*size, 3), generator), dim=1).tolist() == [list(expected)] * 3
    mixed = torch.stack(CROP.draw(torch.cat([sides(1, 100, 5), sides(100, 100, 50)]), generator), dim=1)
    assert mixed[:5].tolist() == [[0, 49, 1, 1]] * 5, "beside others that fit"
    assert len(mixed[5:].unique(dim=0)) == 50


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("params", [STRONG, NOTHING], ids=["strong", "nothing"])
def test_images_of_several_sizes_are_seen_as_each_by_itself_whatever_lies_beside_them(params, generator):
    shapes = torch.tensor([[20, 28], [33, 20], [20, 20], [40, 20]])
    whole = [torch.randint(256, (1, 3, *shape), generator=generator, dtype=torch.uint8) for shape in shapes.tolist()]
    recipe = views.draw_recipe(params, shapes, seeded(5))
    for junk in (0, 255):
        batch = torch.full((4, 3, 40, 28), junk, dtype=torch.uint8)
        for place, (height, width) in enumerate(shapes.tolist()):
            batch[place, :, :height, :width] = whole[place][0]
        results, plain = augment(batch, params, 16, seeded(5), sizes=shapes), center_view(batch, 16, shapes)
        for place, image in enumerate(whole):
            own = numbered(pick(recipe, slice(place, place + 1)))
            ends = [] if own.jitter is None else views.hue_ends(own.jitter.hue_after)
            torch.testing.assert_close(results[place], views.apply_recipe(image, own, ends, 16)[0], atol=2e-5, rtol=0)
            assert torch.equal(plain[place], oracle.center_crop(image, [16, 16])[0] / 255)
    with pytest.raises(InputError, match="a centre crop of 24 x 24 does not fit images of 20 x 20 pixels"):
        augment(batch, NOTHING, 24, generator, sizes=shapes)


@pytest.mark.parametrize("in_c", [False, pytest.param(True, marks=needs_compiler)])
def test_a_view_does_not_depend_on_which_images_of_the_batch_lie_beside_it(in_c, generator, monkeypatch):
    """The batch's longest image decides between the ways, even if the share does not contain it."""
    monkeypatch.setattr(large, "trusted", lambda *_: in_c)
    sizes = torch.tensor([[96, 96], [96, 192]])
    images = torch.randint(256, (2, 3, 96, 192), generator=generator, dtype=torch.uint8)
    whole = augment(images, "infomin", 64, seeded(5), sizes=sizes)
    for layout in (torch.contiguous_format, torch.channels_last):
        own = images[:1, :, :, :96].contiguous(memory_format=layout)
        share = augment(own, "infomin", 64, seeded(5), BatchShare(torch.tensor([0]), 2), sizes=sizes)
        torch.testing.assert_close(share[0], whole[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("in_c", [False, pytest.param(True, marks=needs_compiler)])
def test_large_images_have_the_same_views_with_several_threads(in_c, generator, set_threads, monkeypatch):
    monkeypatch.setattr(large, "trusted", lambda *_: in_c)
    images = torch.randint(256, (6, 3, 200, 230), generator=generator, dtype=torch.uint8)
    results = []
    for count in (1, 3):
        set_threads(count)
        results.append(augment(images, STANDARD, 192, seeded(2)))
    assert torch.equal(*results)


@needs_compiler
def test_views_by_c_and_by_operators_are_a_level_of_255_apart_and_those_by_operators_have_eight_bits(
    generator, monkeypatch
):
    images = torch.randint(256, (6, 3, 200, 230), generator=generator, dtype=torch.uint8)
    crops, results = replace(STANDARD, jitter=None, grayscale=0.0), []
    for in_c in (True, False):
        monkeypatch.setattr(large, "trusted", lambda *_, in_c=in_c: in_c)
        results.append(augment(images, crops, 192, seeded(2)))
    fine, coarse = results
    torch.testing.assert_close(coarse * 255, (coarse * 255).round(), atol=1e-3, rtol=0)
    torch.testing.assert_close(coarse, fine, atol=1.01 / 255, rtol=0)
    assert (coarse - fine).abs().max() > 0.4 / 255


@pytest.mark.usefixtures("way")
def test_center_view_equals_torchvision_and_no_larger_one_fits(photos, generator):
    for size in (7, 17, 20):
        expected = oracle.center_crop(photos, [size, size]) / 255
        assert torch.equal(center_view(photos, size), expected)
        torch.testing.assert_close(augment(photos, NOTHING, size, generator), expected, atol=1e-7, rtol=0)
    assert center_crop(photos, 4).untyped_storage().data_ptr() == photos.untyped_storage().data_ptr()
    with pytest.raises(
        InputError, match=r"crop of 24 x 24 does not fit images of 20 x 28 .*lower the view's size to 20"
    ):
        center_view(photos, 24)


def test_the_middles_of_images_of_several_sizes_are_those_of_each_by_itself():
    sizes = torch.tensor([[20, 28], [33, 23], [19, 40]])
    boxes = center_boxes(sizes, 16)
    expected = [middle(*each, 16) for each in sizes.tolist()]
    assert list(zip(boxes.top.tolist(), boxes.left.tolist(), strict=True)) == expected


# --- colours and blur ---------------------------------------------------------------------------------

FACTORS = {
    "brightness": (colour.brightness, oracle.adjust_brightness, [0.0, 0.3, 1.0, 1.4, 3.0]),
    "contrast": (colour.contrast, oracle.adjust_contrast, [0.0, 0.3, 1.0, 1.4, 3.0]),
    "saturation": (colour.saturation, oracle.adjust_saturation, [0.0, 0.3, 1.0, 1.4, 3.0]),
    "hue": (colour.hue, oracle.adjust_hue, [-0.5, -0.37, -0.1, 0.0, 0.05, 1 / 3, 0.5]),
}


@pytest.mark.parametrize("name", FACTORS)
def test_operator_equals_torchvisions_on_tensors(name, photos):
    ours, theirs, factors = FACTORS[name]
    images = photos / 255
    for factor in factors:
        result = ours(images, torch.full((len(images),), factor))
        torch.testing.assert_close(result, theirs(images, factor), atol=1e-5, rtol=0)


@pytest.mark.parametrize("strength", [1.0, 2.0])
def test_drawn_jitter_is_uniform_in_factors_turn_and_order_times_its_strength(strength, generator):
    settings = {"brightness": 0.4 / strength, "contrast": 0.2 / strength, "saturation": 1.5 / strength}
    params = ColourJitter(probability=0.8, hue=0.1 / strength, strength=strength, **settings)
    jitter = params.draw(24_000, generator)
    chosen = jitter.hue_after != colour.NEVER
    assert_share(chosen, 0.8)
    by_kind = torch.empty_like(jitter.factor).scatter(1, jitter.kind, jitter.factor)
    assert_uniform(by_kind[:, colour.BRIGHTNESS], 0.6, 1.4)
    assert_uniform(by_kind[:, colour.CONTRAST], 0.8, 1.2)
    assert_uniform(by_kind[:, colour.SATURATION], 0.0, 2.5)  # 1 - 1.5 is held at 0
    assert_uniform(jitter.turn, -0.1, 0.1)
    orders = jitter.kind @ torch.tensor([16, 4, 1]) + 64 * jitter.hue_after
    _, counts = orders[chosen].unique(return_counts=True)
    expected = chosen.sum() / 24
    assert len(counts) == 24
    assert ((counts - expected) ** 2 / expected).sum() < 49.7  # chi-squared, 23 degrees of freedom, 0.1 %
    assert_uncorrelated(*by_kind.T, jitter.turn, jitter.hue_after)
    assert_uncorrelated(by_kind[:-1, 0], by_kind[1:, 0])


def test_blur_equals_torchvision_with_the_odd_number_of_taps_nearest_to_a_tenth_of_the_view(photos, generator):
    assert [kernel_size(size) for size in (8, 32, 64, 96, 224)] == [3, 3, 7, 9, 23]
    images, sigma = photos / 255, 0.1 + 1.9 * torch.rand(len(photos), generator=generator)
    for taps in (3, 9):
        for image, width, our in zip(images, sigma.tolist(), gaussian_blur(images, sigma, taps), strict=True):
            expected = oracle.gaussian_blur(image, [taps, taps], [width, width])
            torch.testing.assert_close(our, expected, atol=1e-6, rtol=0)
    assert torch.equal(gaussian_blur(images[:, :, :1, :1], sigma, 9), images[:, :, :1, :1])
    row = gaussian_blur(images[:, :, :1], sigma, 3)  # one pixel high: along the row alone
    torch.testing.assert_close(row, gaussian_blur(images[:, :, :1].expand(-1, -1, 9, -1), sigma, 3)[:, :, 4:5])
    blur = BLUR.draw(10_000, generator)
    assert_share(blur.chosen, 0.5)
    assert_uniform(blur.sigma, 0.1, 2.0)


def in_torchvision(image, jitter, row):
    """Applies the drawn jitter to one image, operator by operator."""
    if jitter.hue_after[row] == colour.NEVER:
        return image
    adjust = {
        colour.BRIGHTNESS: oracle.adjust_brightness,
        colour.CONTRAST: oracle.adjust_contrast,
        colour.SATURATION: oracle.adjust_saturation,
    }
    drawn = zip(jitter.kind[row].tolist(), jitter.factor[row].tolist(), strict=True)
    steps = [(adjust[kind], factor) for kind, factor in drawn]
    steps.insert(int(jitter.hue_after[row]), (oracle.adjust_hue, float(jitter.turn[row])))
    for operator, amount in steps:
        image = operator(image, amount)
    return image


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("crop", [CROP, None])
def test_a_view_equals_torchvisions_operators_one_by_one(crop, photos, generator):
    """The images cover each of the 24 orders of a jitter, and no jitter."""
    params = replace(STRONG, crop=crop)
    noise = torch.randint(0, 256, (60, 3, 20, 28), generator=generator, dtype=torch.uint8)
    images = torch.cat([noise, photos.repeat(5, 1, 1, 1)])
    ours, recipe = augment(images, params, 18, seeded(1)), views.draw_recipe(params, sides(20, 28, 120), seeded(1))
    for row in range(120):
        expected = images[row] / 255
        if crop is None:
            expected = oracle.center_crop(expected, [18, 18])
        else:
            box = [int(field[row]) for field in recipe.boxes]
            expected = oracle.resized_crop(expected, *box, [18, 18], antialias=True)
        if recipe.mirrored[row]:
            expected = oracle.horizontal_flip(expected)
        expected = in_torchvision(expected.clamp(0, 1), recipe.jitter, row)
        if recipe.grey[row]:
            expected = oracle.rgb_to_grayscale(expected, 3)
        if recipe.blur.chosen[row]:
            expected = oracle.gaussian_blur(expected, [3, 3], [float(recipe.blur.sigma[row])] * 2)
        torch.testing.assert_close(ours[row], expected, atol=5e-5, rtol=0)


# --- whole views --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
def test_bright_views_do_not_exceed_1(generator):
    white = torch.full((64, 3, 32, 32), 255, dtype=torch.uint8)
    view = augment(white, replace(STRONG, jitter=None), 27, generator)
    assert view.max() <= 1
    torch.testing.assert_close(view, torch.ones_like(view), atol=2e-4, rtol=0)  # grey weights sum to 0.9999


@pytest.mark.usefixtures("untouched_global_randomness")
def test_views_differ_between_equal_images_and_depend_on_the_seed_alone(photos):
    """Autocast does not reduce their precision, and the images stay unchanged."""
    same, before = photos[:1].expand(50, 3, 20, 28), photos.clone()
    first, other = (augment(same, STRONG, 16, seeded(seed)) for seed in (3, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(augment(same, STRONG, 16, seeded(3)), first)
    assert not torch.equal(first, other)
    assert first.dtype == torch.float32
    assert 0 <= first.min() < first.max() <= 1
    assert (torch.cdist(first.flatten(1), first.flatten(1)) + torch.eye(50)).min() > 0.01
    for params in (STRONG, NOTHING, replace(NOTHING, flip=1.0, grayscale=1.0)):
        augment(photos, params, 20, seeded(3)).zero_()
    center_view(photos, 20).zero_()
    assert torch.equal(photos, before)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("params", [STRONG, NOTHING, replace(NOTHING, flip=0.5, jitter=JITTER)])
def test_a_part_equals_those_rows_of_the_whole_and_leaves_the_generator_where_it_does(params, photos, monkeypatch):
    """The size of the chunks does not change the views."""
    whole_generator = seeded(3)
    whole = augment(photos, params, 16, whole_generator)
    monkeypatch.setattr(views, "CPU_CHUNK", 1)
    batch = len(photos)
    for rows in ([0, 1, 2, 3], range(4, batch), [], [1, 4, 5, batch - 1]):
        rows, part_generator = torch.tensor(rows, dtype=torch.int64), seeded(3)
        part = augment(photos[rows], params, 16, part_generator, BatchShare(rows, batch))
        torch.testing.assert_close(part, whole[rows], atol=1e-6, rtol=0)
        assert torch.equal(part_generator.get_state(), whole_generator.get_state())


def test_flip_and_grayscale_happen_as_often_as_asked(generator):
    images = torch.zeros(4000, 3, 2, 2, dtype=torch.uint8)
    images[:, 0, :, 0] = 255  # red on the left
    view = augment(images, replace(NOTHING, flip=0.5, grayscale=0.2), 2, generator)
    assert_share(view[:, 0, 0, 1] > 0, 0.5)
    assert_share(view[:, 1].amax(dim=(1, 2)) > 0, 0.2)


@pytest.mark.parametrize("size", [16, 160])
def test_views_in_inference_mode_are_the_same(size, generator):
    """Threads compute large views, and do not inherit the mode."""
    strong = read({"views": "strong"}).views
    images = torch.randint(0, 256, (3, 3, size, size), generator=generator, dtype=torch.uint8)
    expected = augment(images, strong, size, torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(augment(images, strong, size, torch.Generator().manual_seed(1)), expected)
