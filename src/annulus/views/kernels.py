"""Crop, flip, colour jitter and greyscale of a batch by two Triton kernels: `annulus.views.recipe` on a GPU.

Each image has its own box, its own order of operators and its own factors. A program of `_cropped` computes some pixels
of a view from the stored pixels around them. A program of `_coloured` reads a whole view twice: contrast blends with
the mean grey after the operators before it, and the first reading computes that mean.
"""

# Triton compiles a kernel's source, which a type checker around it would hide.
from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from annulus.device.machine_code import Form
from annulus.views.colour import CONTRAST, NEVER, SATURATION, DrawnJitter
from annulus.views.crop import CropBoxes

PIXELS = 1024  # of a program at a time
WARPS = 4  # of a program, with 32 threads each

STAGES = tl.constexpr(4)  # three blends and the hue
MEAN_BLEND, GREY_BLEND, NOT_JITTERED = tl.constexpr(CONTRAST), tl.constexpr(SATURATION), tl.constexpr(NEVER)


@triton.jit
@no_type_check
def _axis(start, length, size, order):
    """Returns centre, reach and first weighted pixel of the output pixels `order` along an axis."""
    step = length.to(tl.float32) / size
    reach = tl.maximum(step, 1.0)
    centre = start.to(tl.float32) + step * (order.to(tl.float32) + 0.5)
    return centre, reach, tl.floor(centre - reach).to(tl.int32)


@triton.jit
@no_type_check
def _weight(pixel, centre, reach, start, length):
    """Weight of a pixel: a triangle around the centre, within the box, before division by the sum."""
    inside = (pixel >= start) & (pixel < start + length)
    return tl.where(inside, tl.maximum(1 - tl.abs(pixel.to(tl.float32) + 0.5 - centre) / reach, 0.0), 0.0)


@triton.jit(do_not_specialize=["height", "width", "size"])
@no_type_check
def _cropped(images, tops, lefts, heights, widths, mirrored, views, height, width, size, PIXELS: tl.constexpr):
    """Computes some pixels of one image's view, in [0, 1]."""
    image = tl.program_id(0).to(tl.int64)
    top, left = tl.load(tops + image).to(tl.int32), tl.load(lefts + image).to(tl.int32)
    tall, wide = tl.load(heights + image).to(tl.int32), tl.load(widths + image).to(tl.int32)
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    there = pixel < size * size
    x = pixel % size
    x = tl.where(tl.load(mirrored + image) != 0, size - 1 - x, x)
    y_centre, y_reach, y_first = _axis(top, tall, size, pixel // size)
    x_centre, x_reach, x_first = _axis(left, wide, size, x)

    images += image * 3 * height * width
    red, green, blue = tl.zeros([PIXELS], tl.float32), tl.zeros([PIXELS], tl.float32), tl.zeros([PIXELS], tl.float32)
    total = tl.zeros([PIXELS], tl.float32)
    for down in range(2 * tl.ceil(y_reach).to(tl.int32) + 1):
        row = y_first + down
        row_weight = _weight(row, y_centre, y_reach, top, tall)
        for right in range(2 * tl.ceil(x_reach).to(tl.int32) + 1):
            column = x_first + right
            weight = row_weight * _weight(column, x_centre, x_reach, left, wide)
            total += weight
            place, counts = images + row * width + column, there & (weight > 0)
            red += weight * tl.load(place, mask=counts, other=0).to(tl.float32)
            green += weight * tl.load(place + height * width, mask=counts, other=0).to(tl.float32)
            blue += weight * tl.load(place + 2 * height * width, mask=counts, other=0).to(tl.float32)
    scale = 1 / (total * 255)
    views += image * 3 * size * size + pixel
    tl.store(views, red * scale, mask=there)
    tl.store(views + size * size, green * scale, mask=there)
    tl.store(views + 2 * size * size, blue * scale, mask=there)


@triton.jit
@no_type_check
def _luma(red, green, blue):
    return red * 0.2989 + green * 0.587 + blue * 0.114


@triton.jit
@no_type_check
def _turned(red, green, blue, turn):
    """`annulus.views.colour.turn_hue_`."""
    largest = tl.maximum(tl.maximum(red, green), blue)
    smallest = tl.minimum(tl.minimum(red, green), blue)
    chroma = largest - smallest
    sixfold = chroma * 6
    angle = tl.abs(green + blue - red + largest - 2 * smallest) / tl.maximum(sixfold, 1e-12)
    angle = tl.where(green < blue, -angle, angle) + turn + 1
    angle -= tl.floor(angle)
    red = smallest - chroma + sixfold * tl.abs(angle - 1 / 2)
    green = largest + chroma - sixfold * tl.abs(angle - 1 / 3)
    blue = largest + chroma - sixfold * tl.abs(angle - 2 / 3)
    red = tl.minimum(tl.maximum(red, smallest), largest)
    green = tl.minimum(tl.maximum(green, smallest), largest)
    blue = tl.minimum(tl.maximum(blue, smallest), largest)
    return red, green, blue


@triton.jit
@no_type_check
def _jittered(red, green, blue, factors, kinds, turn, hue_after, mean, upto):
    """Pixels after the first `upto` colour operators; contrast blends with the grey `mean`."""
    for stage in tl.static_range(STAGES):
        if stage < upto:
            if hue_after == stage:
                red, green, blue = _turned(red, green, blue, turn)
            else:
                place = tl.where(hue_after < stage, stage - 1, stage)
                factor, kind = tl.load(factors + place), tl.load(kinds + place)
                grey = tl.where(kind == GREY_BLEND, _luma(red, green, blue), tl.where(kind == MEAN_BLEND, mean, 0.0))
                grey *= 1 - factor
                red = tl.minimum(tl.maximum(red * factor + grey, 0.0), 1.0)
                green = tl.minimum(tl.maximum(green * factor + grey, 0.0), 1.0)
                blue = tl.minimum(tl.maximum(blue * factor + grey, 0.0), 1.0)
    return red, green, blue


@triton.jit
@no_type_check
def _planes(views, count, pixel, there):
    """Loads red, green and blue of some pixels."""
    red = tl.load(views + pixel, mask=there, other=0.0)
    green = tl.load(views + count + pixel, mask=there, other=0.0)
    blue = tl.load(views + 2 * count + pixel, mask=there, other=0.0)
    return red, green, blue


@triton.jit(do_not_specialize=["count"])
@no_type_check
def _coloured(views, factors, kinds, turns, hues_after, greys, count, JITTER: tl.constexpr, PIXELS: tl.constexpr):
    """Applies jitter and greyscale to one view of `count` pixels, in place, and clamps it at 1."""
    image = tl.program_id(0).to(tl.int64)
    views += image * 3 * count
    grey = tl.load(greys + image) != 0
    mean, turn, hue_after = 0.0, 0.0, NOT_JITTERED
    if JITTER:
        factors += image * 3
        kinds += image * 3
        turn, hue_after = tl.load(turns + image), tl.load(hues_after + image).to(tl.int32)
    jittered = hue_after != NOT_JITTERED
    if JITTER and jittered:
        before = 0  # operators before contrast
        for place in tl.static_range(3):
            before += tl.where(tl.load(kinds + place) == MEAN_BLEND, place + (hue_after <= place).to(tl.int32), 0)
        total = tl.zeros([PIXELS], tl.float32)
        for start in range(0, count, PIXELS):
            pixel = start + tl.arange(0, PIXELS)
            there = pixel < count
            red, green, blue = _planes(views, count, pixel, there)
            red, green, blue = _jittered(red, green, blue, factors, kinds, turn, hue_after, mean, before)
            total += tl.where(there, _luma(red, green, blue), 0.0)
        mean = tl.sum(total) / count
    for start in range(0, count, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        there = pixel < count
        red, green, blue = _planes(views, count, pixel, there)
        if JITTER and jittered:
            red, green, blue = _jittered(red, green, blue, factors, kinds, turn, hue_after, mean, STAGES)
        if grey:
            red = _luma(red, green, blue)
            green = red
            blue = red
        tl.store(views + pixel, tl.minimum(red, 1.0), mask=there)
        tl.store(views + count + pixel, tl.minimum(green, 1.0), mask=there)
        tl.store(views + 2 * count + pixel, tl.minimum(blue, 1.0), mask=there)


def view(
    images: UInt8[Tensor, "b 3 h w"],
    boxes: CropBoxes,
    mirrored: Bool[Tensor, "b"],
    jitter: DrawnJitter | None,
    grey: Bool[Tensor, "b"],
    size: int,
) -> Float[Tensor, "b 3 {size} {size}"]:
    """Resizes, mirrors, jitters and greys each image's box, as chosen. All tensors are on one device."""
    images = images.contiguous()
    count, _, height, width = images.shape
    views = torch.empty(count, 3, size, size, device=images.device)
    # Triton reads a bool as an integer of one bit, so bools are passed as bytes.
    mirrored, grey = mirrored.view(torch.uint8), grey.view(torch.uint8)
    tiles = triton.cdiv(size * size, PIXELS)
    settings = {"PIXELS": PIXELS, "num_warps": WARPS}
    _cropped[count, tiles](images, *boxes, mirrored, views, height, width, size, **settings)
    drawn = (views, views, views, views) if jitter is None else jitter  # the kernel does not read them without jitter
    _coloured[count,](views, *drawn, grey, size * size, JITTER=jitter is not None, **settings)
    return views


def forms() -> list[Form]:
    """The kernels that `view` starts."""
    bytes_, floats = ("images", "mirrored", "greys"), ("views", "factors", "turns")
    numbers = ("tops", "lefts", "heights", "widths", "kinds", "hues_after")
    pointers = dict.fromkeys(bytes_, "*u8") | dict.fromkeys(floats, "*fp32") | dict.fromkeys(numbers, "*i64")
    chosen = {"cropped": (_cropped, True), "coloured": (_coloured, True), "greyed": (_coloured, False)}
    return [
        Form(f"views {name}", kernel, pointers, {"PIXELS": PIXELS, "JITTER": jitter}, WARPS)
        for name, (kernel, jitter) in chosen.items()
    ]
