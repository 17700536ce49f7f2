"""Batch-norm of consecutive groups of a batch by two Triton kernels: `shuffled_batchnorm` on a GPU, without gradient.

A program of `_parted` computes mean and spread of some channels over a part of a group's rows. A program of
`_normalised` merges the parts of its group and normalises its own. Each pixel is a row, since memory is channels-last.
Two launches serve any number of groups. The order in which programs end has no effect: each run has the same bits.

Source of the merge: Chan, Golub and LeVeque 1983, The American Statistician 37(3), eq. 2.1.
"""

from typing import no_type_check  # Triton compiles a kernel's source, which a type checker's wrapper would hide

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from annulus.device.machine_code import Form

ROWS, CHANNELS = 64, 32  # of a tile: in bfloat16 16 bytes for each thread
PARTED, NORMALISED = 4, 2  # tiles that a program of each kernel reads at a time
WARPS = 8  # of 32 threads, in a program
PROGRAMS = 512  # of each kernel, if there are enough rows: a GPU's processor has registers for four
PARTS = 64  # at most, of a group's rows


@triton.jit
@no_type_check
def _stretch(rows, channels, length, CHANNELS: tl.constexpr):
    """Returns the starts of this program's group and part, the number of rows of its part, and its channels."""
    group = tl.program_id(2).to(tl.int64) * rows
    start = tl.program_id(1) * length
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    return group * channels, (group + start) * channels, tl.minimum(rows - start, length), channel


@triton.jit(do_not_specialize=["rows", "length"])
@no_type_check
def _parted(
    x,
    parts,
    rows,
    channels,
    length,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
    TILES: tl.constexpr,
):
    """Computes each channel's mean of a part, minus the group's first value, and sum of squared distances."""
    group, start, count, channel = _stretch(rows, channels, length, CHANNELS)
    inside = channel < channels
    first = tl.load(x + group + channel, mask=inside, other=0.0).to(tl.float32)  # avoids cancellation in the variance
    x += start
    row = tl.arange(0, ROWS)
    place = row[:, None] * channels + channel[None, :]

    # Each place of a tile has its own statistics, so threads exchange sums only at the end.
    mean, squares = tl.zeros([ROWS, CHANNELS], tl.float32), tl.zeros([ROWS, CHANNELS], tl.float32)
    for before in range(0, count, ROWS * TILES):
        for tile in tl.static_range(TILES):
            there = (before + tile * ROWS + row < count)[:, None] & inside[None, :]
            value = tl.load(x + tile * ROWS * channels + place, mask=there, other=0.0).to(tl.float32) - first[None, :]
            distance = tl.where(there, value - mean, 0.0)
            mean += distance * (1.0 / (before // ROWS + tile + 1))
            squares += distance * (value - mean)
        x += ROWS * TILES * channels

    counts = tl.maximum(tl.cdiv(count - row, ROWS), 0).to(tl.float32)[:, None]
    merged = tl.sum(counts * mean, axis=0) / count
    away = mean - merged[None, :]
    parts += (tl.program_id(2) * 2 * tl.num_programs(1) + tl.program_id(1)) * channels + channel
    tl.store(parts, merged, mask=inside)
    tl.store(parts + tl.num_programs(1) * channels, tl.sum(squares + counts * away * away, axis=0), mask=inside)


@triton.jit(do_not_specialize=["rows", "length", "stride"])
@no_type_check
def _normalised(
    x,
    parts,
    weight,
    bias,
    measured,
    result,
    eps,
    rows,
    channels,
    length,
    stride,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
    TILES: tl.constexpr,
):
    """Normalises one part; the first part of each group also stores the group's mean and unbiased variance."""
    group, start, count, channel = _stretch(rows, channels, length, CHANNELS)
    inside = channel < channels
    first = tl.load(x + group + channel, mask=inside, other=0.0).to(tl.float32)

    part = tl.arange(0, PARTS)
    stored = (part < tl.num_programs(1))[:, None] & inside[None, :]
    parts += tl.program_id(2) * 2 * tl.num_programs(1) * channels + part[:, None] * channels + channel[None, :]
    means = tl.load(parts, mask=stored, other=0.0)
    squares = tl.load(parts + tl.num_programs(1) * channels, mask=stored, other=0.0)
    counts = tl.minimum(tl.maximum(rows - part * length, 0), length).to(tl.float32)[:, None]
    mean = tl.sum(counts * means, axis=0) / rows
    away = means - mean[None, :]
    squared = tl.sum(squares + counts * away * away, axis=0)
    measured += tl.program_id(2) * stride + channel
    if tl.program_id(1) == 0:
        tl.store(measured, first + mean, mask=inside)
        tl.store(measured + channels, squared / (rows - 1), mask=inside)

    scale = tl.load(weight + channel, mask=inside, other=0.0) * tl.rsqrt(squared / rows + eps)
    shift = tl.load(bias + channel, mask=inside, other=0.0)
    row = tl.arange(0, ROWS * TILES)
    place = row[:, None] * channels + channel[None, :]
    x += start
    result += start
    for before in range(0, count, ROWS * TILES):
        there = (before + row < count)[:, None] & inside[None, :]
        value = tl.load(x + place, mask=there, other=0.0).to(tl.float32) - first[None, :] - mean[None, :]
        value = value * scale[None, :] + shift[None, :]
        tl.store(result + place, value.to(result.dtype.element_ty), mask=there)
        x += ROWS * TILES * channels
        result += ROWS * TILES * channels


def normalised(
    x: Float[Tensor, "b c *space"],
    weight: Float[Tensor, "c"],
    bias: Float[Tensor, "c"],
    eps: float,
    measured: Float[Tensor, "groups 2 c"],
) -> Float[Tensor, "b c *space"]:
    """Normalises each group of channels-last rows; `measured` gets the groups' means and unbiased variances."""
    groups, channels = len(measured), x.shape[1]
    rows, blocks = x.numel() // (groups * channels), triton.cdiv(channels, CHANNELS)
    tiles = triton.cdiv(rows, ROWS)
    length = triton.cdiv(tiles, max(1, min(PROGRAMS // (groups * blocks), PARTS))) * ROWS
    grid = blocks, triton.cdiv(rows, length), groups
    parts, result = x.new_empty(groups, 2, grid[1], channels, dtype=torch.float32), torch.empty_like(x)
    fixed = {"ROWS": ROWS, "CHANNELS": CHANNELS, "num_warps": WARPS}
    _parted[grid](x, parts, rows, channels, length, TILES=PARTED, **fixed)
    _normalised[grid](
        x, parts, weight, bias, measured, result, eps, rows, channels, length, measured.stride(0),
        PARTS=PARTS, TILES=NORMALISED, **fixed,
    )  # fmt: skip
    return result


def forms(x: str = "*bf16") -> list[Form]:
    """Forms of the kernels of `normalised`, for a batch of this type."""
    pointers = dict.fromkeys(("x", "result"), x) | dict.fromkeys(("parts", "weight", "bias", "measured"), "*fp32")
    aligned, fixed = frozenset({*pointers, "channels"}), {"ROWS": ROWS, "CHANNELS": CHANNELS, "PARTS": PARTS}
    chosen = {"parted": (_parted, PARTED), "normalised": (_normalised, NORMALISED)}
    return [
        Form(f"batch-norm {name}", kernel, pointers | {"eps": "fp32"}, fixed | {"TILES": tiles}, WARPS, aligned)
        for name, (kernel, tiles) in chosen.items()
    ]
