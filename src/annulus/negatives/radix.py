"""The columns of given ranks by a radix select in Triton: `annulus.negatives.threshold` on a GPU, without a sort.

A score's key is an integer of 32 bits in the scores' order. Three readings of a query's scores count its keys by 11, 11
and 10 bits, from the highest, and so find the keys at both ends of the ranks; a fourth finds where equal keys are cut,
and lists the members, or counts them for each block of columns. A draw then looks up its block, and counts in that.

Beyond the scores this needs 4 bytes for each block of each query. All of it is whole numbers: the same scores give the
same columns on every run.
"""

from typing import no_type_check  # Triton compiles a kernel's own source, and a checker around it would hide that

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

BITS = 11  # of a key that a reading counts by, and in the last one what is left of 32
TILE = 4096  # columns that a program reads at a time
BLOCK = 256  # columns among which a draw counts
DRAWS = 16  # places that a program looks up together
WARPS = 16  # of 32 threads, in a program

# Keys of a query's own columns: below those of all scores, -inf included.
LOWEST = tl.constexpr(0)


@triton.jit
@no_type_check
def _keys(scores, own, width, columns, count):
    """The keys of a query's columns, uint32; whatever is beyond the last column gets some key."""
    # -0 becomes 0, which it equals.
    score = tl.load(scores + columns, mask=columns < count, other=0.0).to(tl.float32) + 0.0
    bits = score.to(tl.uint32, bitcast=True)
    negative = (bits >> 31) != 0
    keys = bits ^ tl.where(negative, 0xFFFFFFFF, 0x80000000).to(tl.uint32)
    for place in range(width):
        keys = tl.where(columns == tl.load(own + place), LOWEST, keys).to(tl.uint32)
    return keys


@triton.jit
@no_type_check
def _narrowed(border, left, histogram, BINS: tl.constexpr, SHIFT: tl.constexpr):
    """The border with its next bits, and how many of the ranks are left among the keys that begin so."""
    bins = tl.arange(0, BINS)
    from_top = tl.cumsum(histogram, reverse=True)
    digit = tl.sum((from_top >= left).to(tl.int32)) - 1
    left -= tl.sum(tl.where(bins > digit, histogram, 0))
    return border | (digit.to(tl.uint32) << SHIFT), left


@triton.jit
@no_type_check
def _counted(
    scores,
    own,
    width,
    count,
    outer,
    outer_left,
    inner,
    inner_left,
    OPEN: tl.constexpr,
    BITS: tl.constexpr,
    TILE: tl.constexpr,
):
    """One reading: both borders with their next bits, the highest of the OPEN ones."""
    # Conditional expressions: Triton 3.5 takes no min or max of its constants into a power.
    SHIFT: tl.constexpr = OPEN - BITS if OPEN > BITS else 0
    BINS: tl.constexpr = 2**BITS if OPEN > BITS else 2**OPEN
    DECIDED: tl.constexpr = 2**32 - 2**OPEN  # a mask
    of_outer = tl.zeros([BINS], tl.int32)
    of_inner = tl.zeros([BINS], tl.int32)
    for start in range(0, count, TILE):
        columns = start + tl.arange(0, TILE)
        keys = _keys(scores, own, width, columns, count)
        digits = ((keys >> SHIFT) & (BINS - 1)).to(tl.int32)
        begun = keys & DECIDED
        of_outer += tl.histogram(digits, BINS, mask=(columns < count) & (begun == outer))
        if inner_left > 0:
            of_inner += tl.histogram(digits, BINS, mask=(columns < count) & (begun == inner))
    outer, outer_left = _narrowed(outer, outer_left, of_outer, BINS, SHIFT)
    inner, inner_left = _narrowed(inner, inner_left, of_inner, BINS, SHIFT)
    return outer, outer_left, inner, inner_left


@triton.jit(do_not_specialize=["width", "count", "first", "last"])
@no_type_check
def _members(
    scores,
    own,
    listed,
    starts,
    borders,
    stride,
    width,
    count,
    first,
    last,
    LIST: tl.constexpr,
    BITS: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Of one query: its members, listed by column; or `starts`, the members before each block, and the `borders`."""
    query = tl.program_id(0).to(tl.int64)
    scores += query * stride
    own += query * width
    listed += query * (last - first)
    blocks = tl.cdiv(count, BLOCK)
    starts += query * blocks

    outer, inner = tl.zeros([], tl.uint32), tl.zeros([], tl.uint32)
    outer_left, inner_left = last, first
    for reading in tl.static_range((31 + BITS) // BITS):
        outer, outer_left, inner, inner_left = _counted(
            scores, own, width, count, outer, outer_left, inner, inner_left, 32 - BITS * reading, BITS, TILE
        )

    # Of the keys that equal a border, those of the lowest columns come first: up to a cut.
    outer_seen, inner_seen, outer_cut, inner_cut, found = 0, 0, 0, 0, 0
    for start in range(0, count, TILE):
        columns = start + tl.arange(0, TILE)
        keys = _keys(scores, own, width, columns, count)
        there = columns < count
        at_outer, at_inner = there & (keys == outer), there & (keys == inner)
        before_outer = at_outer & (outer_seen + tl.cumsum(at_outer.to(tl.int32)) <= outer_left)
        before_inner = at_inner & (inner_seen + tl.cumsum(at_inner.to(tl.int32)) <= inner_left)
        outer_seen += tl.sum(at_outer.to(tl.int32))
        inner_seen += tl.sum(at_inner.to(tl.int32))
        outer_cut = tl.maximum(outer_cut, tl.max(tl.where(before_outer, columns + 1, 0)))
        inner_cut = tl.maximum(inner_cut, tl.max(tl.where(before_inner, columns + 1, 0)))
        member = there & ((keys > outer) | before_outer) & ~((keys > inner) | before_inner)
        if LIST:
            upto = found + tl.cumsum(member.to(tl.int32))
            tl.store(listed + upto - 1, columns.to(tl.int64), mask=member)
        else:
            counts = tl.sum(member.to(tl.int32).reshape(TILE // BLOCK, BLOCK), axis=1)
            block = start // BLOCK + tl.arange(0, TILE // BLOCK)
            tl.store(starts + block, found + tl.cumsum(counts) - counts, mask=block < blocks)
        found += tl.sum(member.to(tl.int32))
    if not LIST:
        borders += query * 4
        tl.store(borders, outer.to(tl.int64))
        tl.store(borders + 1, outer_cut.to(tl.int64))
        tl.store(borders + 2, inner.to(tl.int64))
        tl.store(borders + 3, inner_cut.to(tl.int64))


@triton.jit(do_not_specialize=["width", "count", "draws", "steps"])
@no_type_check
def _drawn(
    scores,
    own,
    starts,
    borders,
    picked,
    drawn,
    stride,
    width,
    count,
    draws,
    steps,
    DRAWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The members at some places of a query's list, which nobody has written; `steps` halve the blocks to one."""
    query = tl.program_id(0).to(tl.int64)
    scores += query * stride
    own += query * width
    starts += query * tl.cdiv(count, BLOCK)
    borders += query * 4
    outer, outer_cut = tl.load(borders).to(tl.uint32), tl.load(borders + 1).to(tl.int32)
    inner, inner_cut = tl.load(borders + 2).to(tl.uint32), tl.load(borders + 3).to(tl.int32)

    draw = tl.program_id(1) * DRAWS + tl.arange(0, DRAWS)
    place = tl.load(picked + query * draws + draw, mask=draw < draws, other=0).to(tl.int32)
    # The last block that starts at this place or before it: blocks without members start where the next one does.
    block = tl.zeros([DRAWS], tl.int32)
    beyond = block + tl.cdiv(count, BLOCK)
    for _ in range(steps):
        middle = (block + beyond) // 2
        reached = tl.load(starts + middle) <= place
        block, beyond = tl.where(reached, middle, block), tl.where(reached, beyond, middle)

    columns = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    keys = _keys(scores, own, width, columns, count)
    in_ball = (keys > outer) | ((keys == outer) & (columns < outer_cut))
    in_hole = (keys > inner) | ((keys == inner) & (columns < inner_cut))
    member = (columns < count) & in_ball & ~in_hole
    within = place - tl.load(starts + block)
    before = tl.sum((tl.cumsum(member.to(tl.int32), axis=1) <= within[:, None]).to(tl.int32), axis=1)
    tl.store(drawn + query * draws + draw, (block * BLOCK + before).to(tl.int64), mask=draw < draws)


def select(
    scores: Float[Tensor, "b n"],
    own: Int[Tensor, "b w"],
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None,
) -> Int[Tensor, "b m"]:
    """The members by column, or those at the `picked` places of that list."""
    scores, own = scores.detach(), own.contiguous()
    scores = scores if scores.stride(1) == 1 else scores.contiguous()
    (queries, count), width = scores.shape, own.shape[1]
    blocks = triton.cdiv(count, BLOCK)
    members = scores.new_empty((queries, last - first) if picked is None else (0,), dtype=torch.int64)
    starts = scores.new_empty((0,) if picked is None else (queries, blocks), dtype=torch.int32)
    borders = scores.new_empty(queries, 4, dtype=torch.int64)
    sizes = scores.stride(0), width, count
    _members[(queries,)](
        scores, own, members, starts, borders, *sizes, first, last,
        LIST=picked is None, BITS=BITS, TILE=TILE, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    if picked is None:
        return members
    picked, draws = picked.contiguous(), picked.shape[1]  # the kernel goes by row and place
    drawn = torch.empty_like(picked)
    grid = queries, triton.cdiv(draws, DRAWS)
    steps = (blocks - 1).bit_length()
    _drawn[grid](
        scores, own, starts, borders, picked, drawn, *sizes, draws, steps, DRAWS=DRAWS, BLOCK=BLOCK,
        num_warps=WARPS,
    )  # fmt: skip
    return drawn
