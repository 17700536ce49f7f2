"""Views of large images on a CPU: the blur against its definition, in C and by PyTorch's operators."""

import math

import pytest
import torch
from compilers import UNOPTIMISED, needs_compiler

from annulus.device import c_library
from annulus.views import augment, large
from annulus.views.blur import kernel_size
from annulus.views.crop import resized
from annulus.views.large import ImageRecipe, by_images, c_agrees, view_by_operators, view_in_c

WAYS = [pytest.param(view_in_c, marks=needs_compiler), view_by_operators]


def weights(sigma, reach):
    """Weights of the kernel's pixels, by their distance from its middle."""
    density = [math.exp(-0.5 * (apart / sigma) ** 2) for apart in range(reach + 1)]
    return [each / (2 * sum(density) - density[0]) for each in density]


def blur(image, sigma, taps):
    """Blur by definition, in double precision: one matrix for rows and columns, mirrored without the border's pixel."""
    size, own = image.shape[1], weights(sigma, taps // 2)
    there_and_back = [*range(size), *range(size - 2, 0, -1)]
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for place in range(size):
        for apart in range(-(taps // 2), taps // 2 + 1):
            matrix[place, there_and_back[(place + apart) % len(there_and_back)]] += own[abs(apart)]
    return matrix @ image.double() @ matrix.T


def view_with_blur(show, image, sigma):
    """Returns the whole square image with blur only."""
    size = image.shape[1]
    view = torch.full((3, size, size), torch.nan)
    show(image, ImageRecipe((0, 0, size, size), False, [], False, sigma), view)
    return view


@pytest.mark.parametrize("show", WAYS)
@pytest.mark.parametrize("sigma", [1e-6, 0.1, 0.77, 2.0, 1000.0])
@pytest.mark.parametrize("size", [2, 3, 9, 41, 79, 128, 131, 224])
def test_a_blur_is_its_definition_s(size, sigma, show, generator):
    image = torch.randint(256, (3, size, size), generator=generator, dtype=torch.uint8)
    expected = blur(image / 255, sigma, kernel_size(size)).float()
    last = image.permute(1, 2, 0).contiguous()
    in_fours = torch.nn.functional.pad(last, (1, 0), value=255)[..., 1:]  # the last pixel ends the memory
    for lying in (image, last.permute(2, 0, 1), in_fours.permute(2, 0, 1)):
        torch.testing.assert_close(view_with_blur(show, lying, sigma), expected, atol=1e-6, rtol=0)


@needs_compiler
def test_a_blur_of_one_pixel_is_that_pixel_though_the_kernel_has_three():
    assert kernel_size(1) == 3
    image = torch.tensor([51, 102, 255], dtype=torch.uint8).view(3, 1, 1)
    torch.testing.assert_close(view_with_blur(view_in_c, image, 1.0), image / 255)


@pytest.mark.parametrize("show", WAYS)
def test_the_chosen_images_of_a_batch_are_blurred_each_by_its_own_sigma(show, generator, monkeypatch):
    monkeypatch.setattr(large, "trusted", lambda *_: show is view_in_c)
    images = torch.randint(256, (6, 3, 133, 133), generator=generator, dtype=torch.uint8)
    own = torch.tensor([0.5, 1.0, 1.5, 2.0, 0.1, 1.2])
    drawn = large.DrawnBlur(torch.tensor([True, False, True, True, False, True]), own)
    views = by_images(
        images, None, torch.zeros(6, dtype=torch.bool), None, torch.zeros(6, dtype=torch.bool), drawn, 133
    )
    for image, view, chosen, sigma in zip(images / 255, views, drawn.chosen, own.tolist(), strict=True):
        expected = blur(image, sigma, 13).float() if chosen else image
        torch.testing.assert_close(view, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("show", WAYS)
def test_a_blurred_white_image_does_not_exceed_1(show):
    white = torch.full((3, 140, 140), 255, dtype=torch.uint8)
    for sigma in torch.linspace(0.1, 4, 40).tolist():
        view = view_with_blur(show, white, sigma)
        assert 1 - 1e-6 < view.min() <= view.max() <= 1


@needs_compiler
@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("? -angle", "? angle"),
        ("0.114f", "0.115f"),
        ("mirrored ?", "!mirrored ?"),
        ("apart ? total : 2 * total", "total"),  # the middle twice
        ("middle[size - 1 - apart];", "middle[size - apart];"),  # the border's pixel twice
        ("last + (long)apart * size, last - (long)apart * size", "last + (long)apart * size, last"),
        ("< 1e-8", "< 0.1"),
        ("reach < size ? reach", "reach < size ? reach / 2"),
    ],
)
def test_a_fault_in_c_is_seen_before_it_is_used(was, becomes, tmp_path, monkeypatch):
    text = large.SOURCE.read_text()
    assert text.count(was) == 1
    monkeypatch.setattr(c_library, "FLAGS", UNOPTIMISED)
    for name, content, agrees in (("right", text, True), ("faulty", text.replace(was, becomes), False)):
        monkeypatch.setattr(large, "SOURCE", tmp_path / f"{name}.c")
        large.SOURCE.write_text(content)
        assert c_agrees(torch.device("cpu")) is agrees


@needs_compiler
def test_a_view_of_moco_v2_in_c_is_the_operators_but_for_their_eight_bits(generator, monkeypatch):
    images, views = torch.randint(256, (8, 3, 140, 171), generator=generator, dtype=torch.uint8), []
    monkeypatch.setattr(large, "resized", lambda image, box, size: resized(image.float(), box, size))
    for in_c in (True, False):
        monkeypatch.setattr(large, "trusted", lambda *_, in_c=in_c: in_c)
        views.append(augment(images, "moco-v2", 129, torch.Generator().manual_seed(2)))
    torch.testing.assert_close(*views, atol=5e-5, rtol=0)
