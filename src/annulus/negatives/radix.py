"""The columns of given ranks by a radix select in Triton: `annulus.negatives.threshold` on a GPU, without a sort.

A score's key is an integer of 32 bits in the scores' order. Four readings of a query's scores count its keys by 8 bits,
from the highest, and so find the keys at both ends of the ranks; a fifth finds where equal keys are cut, and lists the
members, or counts them for each block of columns. A draw then looks up its block, and counts in that.

Several programs read a query's scores, each a part, and every part has counts of its own, which the next reading adds:
a batch of 64 fills a GPU, and nothing depends on which program ends first.

Beyond the scores this needs 8 KB for each part of each query, and 4 bytes for each block. All of it is whole numbers:
the same scores give the same columns on every run.
"""

from typing import no_type_check  # Triton compiles a kernel's own source, and a checker around it would hide that

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.machine_code import Form

BITS = 8  # of a key that a reading counts by: Triton before 3.8 counts by ballots, and spills registers with more
READINGS = 32 // BITS
TILE = 2048  # columns that a program reads at a time
BLOCK = 256  # columns among which a draw counts
DRAWS = 16  # places that a program looks up together
WARPS = 8  # of 32 threads, in a program
PROGRAMS = 1024  # that a reading is split into, where there are columns enough: several for each of a GPU's processors
PARTS = 16  # at most, of a query's columns

# Keys of a query's own columns and of NaN: below those of all scores, -inf included.
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
    keys = tl.where(score != score, LOWEST, keys).to(tl.uint32)
    for place in range(width):
        keys = tl.where(columns == tl.load(own + place), LOWEST, keys).to(tl.uint32)
    return keys


@triton.jit
@no_type_check
def _stretch(count, PARTS: tl.constexpr, TILE: tl.constexpr):
    """The columns of this program's part: tiles from the first one on, up to the second."""
    length = tl.cdiv(tl.cdiv(count, TILE), PARTS) * TILE
    start = tl.program_id(1) * length
    return start, tl.minimum(start + length, count)


@triton.jit
@no_type_check
def _border(counts, queries, left, side, READINGS: tl.constexpr, BITS: tl.constexpr, PARTS: tl.constexpr):
    """One border after some readings: its key, how many of the ranks are left among the keys that begin like it, how
    many keys of earlier parts are above it, and how many of them begin like it.

    `counts` holds, by reading, query, side and part, how many keys of the part have each next digit.
    """
    query, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    bins, parts = tl.arange(0, 2**BITS), tl.arange(0, PARTS)[:, None]
    border, above, alike = tl.zeros([], tl.uint32), 0, 0
    for reading in tl.static_range(READINGS):
        # Nothing is decided before the first reading, and both sides count the same.
        row = (reading * queries + query) * 2 + (side if reading > 0 else 0)
        of_parts = tl.load(counts + row * (PARTS * 2**BITS) + parts * 2**BITS + bins[None, :])
        of_all = tl.sum(of_parts, axis=0)
        of_earlier = tl.sum(tl.where(parts < part, of_parts, 0), axis=0)
        from_top = tl.cumsum(of_all, reverse=True)
        digit = tl.sum((from_top >= left).to(tl.int32)) - 1
        left -= tl.sum(tl.where(bins > digit, of_all, 0))
        above += tl.sum(tl.where(bins > digit, of_earlier, 0))
        alike = tl.sum(tl.where(bins == digit, of_earlier, 0))
        border |= digit.to(tl.uint32) << (32 - BITS * (reading + 1))
    return border, left, above, alike


@triton.jit(do_not_specialize=["queries", "width", "count", "first", "last"])
@no_type_check
def _counted(
    scores,
    own,
    counts,
    queries,
    stride,
    width,
    count,
    first,
    last,
    READING: tl.constexpr,
    BITS: tl.constexpr,
    PARTS: tl.constexpr,
    TILE: tl.constexpr,
):
    """One reading of one part: how many keys that begin like each border have each next digit."""
    query, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    scores += query * stride
    own += query * width
    SHIFT: tl.constexpr = 32 - BITS * (READING + 1)
    DECIDED: tl.constexpr = 2**32 - 2 ** (SHIFT + BITS)  # a mask
    outer, _, _, _ = _border(counts, queries, last, 0, READING, BITS, PARTS)
    inner, _, _, _ = _border(counts, queries, first, 1, READING, BITS, PARTS)
    of_outer = tl.zeros([2**BITS], tl.int32)
    of_inner = tl.zeros([2**BITS], tl.int32)
    start, end = _stretch(count, PARTS, TILE)
    for tile in range(start, end, TILE):
        columns = tile + tl.arange(0, TILE)
        keys = _keys(scores, own, width, columns, count)
        digits = ((keys >> SHIFT) & (2**BITS - 1)).to(tl.int32)
        at_outer = (columns < count) & ((keys & DECIDED) == outer)
        # Where few keys begin like a border, most tiles have none.
        if READING == 0 or tl.max(at_outer.to(tl.int32)) > 0:
            of_outer += tl.histogram(digits, 2**BITS, mask=at_outer)
        if READING > 0:
            at_inner = (columns < count) & ((keys & DECIDED) == inner)
            if tl.max(at_inner.to(tl.int32)) > 0:
                of_inner += tl.histogram(digits, 2**BITS, mask=at_inner)
    bins = tl.arange(0, 2**BITS)
    row = (READING * queries + query) * 2
    tl.store(counts + (row * PARTS + part) * 2**BITS + bins, of_outer)
    if READING > 0:
        tl.store(counts + ((row + 1) * PARTS + part) * 2**BITS + bins, of_inner)


@triton.jit(do_not_specialize=["queries", "width", "count", "first", "last"])
@no_type_check
def _members(
    scores,
    own,
    counts,
    listed,
    starts,
    borders,
    cuts,
    queries,
    stride,
    width,
    count,
    first,
    last,
    LIST: tl.constexpr,
    BITS: tl.constexpr,
    PARTS: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Of one part: its members, listed by column; or `starts`, the members before each block, the `borders`, and
    `cuts`."""
    query, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    scores += query * stride
    own += query * width
    listed += query * (last - first)
    blocks = tl.cdiv(count, BLOCK)
    starts += query * blocks

    outer, outer_left, outer_above, outer_seen = _border(counts, queries, last, 0, 32 // BITS, BITS, PARTS)
    inner, inner_left, inner_above, inner_seen = _border(counts, queries, first, 1, 32 // BITS, BITS, PARTS)
    # Of the keys that equal a border, those of the lowest columns come first: up to a cut.
    found = outer_above + tl.minimum(outer_seen, outer_left) - inner_above - tl.minimum(inner_seen, inner_left)
    outer_cut, inner_cut = 0, 0
    start, end = _stretch(count, PARTS, TILE)
    for tile in range(start, end, TILE):
        columns = tile + tl.arange(0, TILE)
        keys = _keys(scores, own, width, columns, count)
        there = columns < count
        at_outer, at_inner = there & (keys == outer), there & (keys == inner)
        before_outer, before_inner = at_outer, at_inner
        if tl.max((at_outer | at_inner).to(tl.int32)) > 0:  # as in few tiles
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
            in_blocks = tl.sum(member.to(tl.int32).reshape(TILE // BLOCK, BLOCK), axis=1)
            block = tile // BLOCK + tl.arange(0, TILE // BLOCK)
            tl.store(starts + block, found + tl.cumsum(in_blocks) - in_blocks, mask=block < blocks)
        found += tl.sum(member.to(tl.int32))
    if not LIST:
        if part == 0:
            tl.store(borders + query * 2, outer.to(tl.int64))
            tl.store(borders + query * 2 + 1, inner.to(tl.int64))
        tl.store(cuts + (query * 2) * PARTS + part, outer_cut)
        tl.store(cuts + (query * 2 + 1) * PARTS + part, inner_cut)


@triton.jit(do_not_specialize=["width", "count", "draws", "steps"])
@no_type_check
def _drawn(
    scores,
    own,
    starts,
    borders,
    cuts,
    picked,
    drawn,
    stride,
    width,
    count,
    draws,
    steps,
    PARTS: tl.constexpr,
    DRAWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The members at some places of a query's list, which nobody has written; `steps` halve the blocks to one."""
    query = tl.program_id(0).to(tl.int64)
    scores += query * stride
    own += query * width
    starts += query * tl.cdiv(count, BLOCK)
    outer, inner = tl.load(borders + query * 2).to(tl.uint32), tl.load(borders + query * 2 + 1).to(tl.uint32)
    parts = cuts + query * 2 * PARTS + tl.arange(0, PARTS)
    outer_cut, inner_cut = tl.max(tl.load(parts)), tl.max(tl.load(parts + PARTS))

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
    blocks, parts = triton.cdiv(count, BLOCK), parts_of(queries, count)
    members = scores.new_empty((queries, last - first) if picked is None else (0,), dtype=torch.int64)
    starts = scores.new_empty((0,) if picked is None else (queries, blocks), dtype=torch.int32)
    counts = scores.new_empty(READINGS, queries, 2, parts, 2**BITS, dtype=torch.int32)
    borders = scores.new_empty(queries, 2, dtype=torch.int64)
    cuts = scores.new_empty(queries, 2, parts, dtype=torch.int32)
    sizes, grid = (scores.stride(0), width, count), (queries, parts)
    fixed = {"BITS": BITS, "PARTS": parts, "TILE": TILE, "num_warps": WARPS}
    for reading in range(READINGS):
        _counted[grid](scores, own, counts, queries, *sizes, first, last, READING=reading, **fixed)
    _members[grid](
        scores, own, counts, members, starts, borders, cuts, queries, *sizes, first, last,
        LIST=picked is None, BLOCK=BLOCK, **fixed,
    )  # fmt: skip
    if picked is None:
        return members
    picked, draws = picked.contiguous(), picked.shape[1]  # the kernel goes by row and place
    drawn = torch.empty_like(picked)
    grid = queries, triton.cdiv(draws, DRAWS)
    steps = (blocks - 1).bit_length()
    _drawn[grid](
        scores, own, starts, borders, cuts, picked, drawn, *sizes, draws, steps,
        PARTS=parts, DRAWS=DRAWS, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return drawn


def parts_of(queries: int, count: int) -> int:
    """Number of parts of each query's columns, a power of 2: so many programs read, each at least a tile."""
    wanted = min(PROGRAMS // max(queries, 1), count // TILE, PARTS)
    return 1 << (max(wanted, 1).bit_length() - 1)


def forms(scores: str = "*fp32", parts: int = PARTS) -> list[Form]:
    """All that `select` starts, by name, for scores of this type in so many parts."""
    pointers = {"scores": scores} | dict.fromkeys(("own", "listed", "borders", "picked", "drawn"), "*i64")
    pointers |= dict.fromkeys(("counts", "starts", "cuts"), "*i32")
    fixed = {"BITS": BITS, "PARTS": parts, "TILE": TILE, "BLOCK": BLOCK, "DRAWS": DRAWS}
    chosen = {f"counted {reading}": (_counted, {"READING": reading}) for reading in range(READINGS)}
    chosen |= {"listed": (_members, {"LIST": True}), "members": (_members, {"LIST": False}), "drawn": (_drawn, {})}
    return [Form(f"radix {name}", kernel, pointers, fixed | own, WARPS) for name, (kernel, own) in chosen.items()]
