"""Selection of a range of ranks by bisection in Triton: `annulus.negatives.threshold` on a GPU, without a sort.

A score's key is an integer of 32 bits in the scores' order. The ranks end at two borders: the keys of the last rank and
of the rank before the first. A sample of the columns brackets each border. A first pass over all scores counts the keys
above each bracket and collects the keys within; bisection of these yields the border. A second pass lists the members
by column.

A border outside its bracket, one in ten thousand, is bisected over all columns: exact too, and slower. The same holds
for a query whose brackets hold more keys than the memory has room for, for example if many scores are equal.

Several programs read a query's scores, each a part. The order of the collected keys depends on the order in which
programs end. The counts do not, so the same scores give the same columns on every run.

Beyond the scores this takes 4 bytes for each member and 8 for each collected key. For a ring of 1 to 10 % of the
columns this is a third of the scores' bytes, and from 262,144 columns on a fifth.
"""

import math
from typing import no_type_check  # Triton compiles a kernel's source, which a type checker around it would hide

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.machine_code import Form

SAMPLE, LARGE_SAMPLE = 2048, 8192  # columns of a sample: the second from MANY columns on
MANY = 2**18
DEVIATIONS = 4  # standard deviations: of a sample's rank to each side of a bracket, and of the number of collected keys
TILE = 512  # columns that a program reads at a time
COLLECTED_WARPS, LISTED_WARPS = 4, 1  # threads of the programs that read, by 32
CHUNK, CHUNK_WARPS = 2048, 8  # columns and warps of the kernels with few programs
PROGRAMS = 8192  # of a pass at most: several for each of a GPU's processors
PARTS = 32  # of a query's columns at most

# LOWEST is the key of own columns and of NaN, below the keys of all scores, -inf included. No score has HIGHEST.
LOWEST, HIGHEST = tl.constexpr(0), tl.constexpr(0xFFFFFFFF)
PAIR = tl.constexpr(1 << 16)  # two counts share an integer

# A query's work, in integers of 32 bits: two brackets; the number of collected keys; two borders; for each border, by
# part, the counts of keys above its bracket and within it; the counts above the border and equal to it; the collected
# keys; their columns.
COLLECTED, BORDERS, COUNTS = tl.constexpr(4), tl.constexpr(5), tl.constexpr(8)


@triton.jit
@no_type_check
def _keys(scores, own, width, columns, count):
    """The keys of a query's columns, uint32; arbitrary beyond the last column."""
    # -0 becomes 0: the two are equal.
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
def _key(stored):
    """The keys of stored integers."""
    return stored.to(tl.uint32, bitcast=True)


@triton.jit
@no_type_check
def _length(count, PARTS: tl.constexpr, TILE: tl.constexpr):
    """Number of columns of a part; the last parts may have fewer."""
    return tl.cdiv(tl.cdiv(count, TILE), PARTS) * TILE


@triton.jit
@no_type_check
def _stretch(count, part, PARTS: tl.constexpr, TILE: tl.constexpr):
    """The columns of a part, from the first returned number up to the second."""
    length = _length(count, PARTS, TILE)
    start = part * length
    return start, tl.minimum(start + length, count)


@triton.jit(do_not_specialize=["size", "width", "count", "low_0", "high_0", "low_1", "high_1"])
@no_type_check
def _bracketed(
    scores, own, work, stride, size, width, count, low_0, high_0, low_1, high_1,
    PARTS: tl.constexpr, SAMPLE: tl.constexpr,
):  # fmt: skip
    """Computes both brackets of a query's borders, two keys each: the keys of these ranks in a sample, bit by bit."""
    query, ends = tl.program_id(0).to(tl.int64), tl.arange(0, 4)
    work += query * size
    columns = (tl.arange(0, SAMPLE).to(tl.int64) * count // SAMPLE).to(tl.int32)
    keys = _keys(scores + query * stride, own + query * width, width, columns, count)
    ranks = tl.where(ends < 2, tl.where(ends == 0, low_0, high_0), tl.where(ends == 2, low_1, high_1))
    bracket_keys = tl.zeros([4], tl.uint32)
    for bit in range(32):
        tried = bracket_keys | (tl.full([4], 1 << 31, tl.uint32) >> bit)
        bracket_keys = tl.where(_reaching(keys, keys >= 0, tried) >= ranks, tried, bracket_keys)
    tl.store(work + ends, bracket_keys.to(tl.int32, bitcast=True))
    tl.store(work + COLLECTED, 0)
    places = tl.arange(0, 4 * PARTS)
    tl.store(work + COUNTS + 4 * PARTS + places, tl.zeros_like(places))


@triton.jit
@no_type_check
def _reaching(keys, there, tried):
    """Counts the keys that are there and reach each threshold."""
    return tl.sum((there[None, :] & (keys[None, :] >= tried[:, None])).to(tl.int32), axis=1)


@triton.jit(do_not_specialize=["size", "width", "count", "room"])
@no_type_check
def _kept(
    scores, own, work, stride, size, width, count, room, PARTS: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Counts the keys of a part above and within each bracket, and collects the keys within."""
    query, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    scores += query * stride
    own += query * width
    work += query * size
    low_0, high_0 = _key(tl.load(work)), _key(tl.load(work + 1))
    low_1, high_1 = _key(tl.load(work + 2)), _key(tl.load(work + 3))
    counts_0, counts_1 = tl.zeros([TILE], tl.int32), tl.zeros([TILE], tl.int32)
    start, end = _stretch(count, part, PARTS, TILE)
    for tile in range(start, end, TILE):
        columns = tile + tl.arange(0, TILE)
        keys = _keys(scores, own, width, columns, count)
        there = columns < count
        in_0, in_1 = there & (keys >= low_0) & (keys <= high_0), there & (keys >= low_1) & (keys <= high_1)
        counts_0 += (there & (keys > high_0)).to(tl.int32) * PAIR + in_0.to(tl.int32)
        counts_1 += (there & (keys > high_1)).to(tl.int32) * PAIR + in_1.to(tl.int32)
        within = (in_0 | in_1).to(tl.int32)
        within_count = tl.sum(within)
        if within_count > 0:
            place = tl.atomic_add(work + COLLECTED, within_count) + tl.cumsum(within) - 1
            fits = (within > 0) & (place < room)
            slot = work + COUNTS + 8 * PARTS + place
            tl.store(slot, keys.to(tl.int32, bitcast=True), mask=fits)
            tl.store(slot + room, columns, mask=fits)
    counts = work + COUNTS + part
    tl.store(counts, tl.sum(counts_0 // PAIR))
    tl.store(counts + PARTS, tl.sum(counts_0 % PAIR))
    tl.store(counts + 2 * PARTS, tl.sum(counts_1 // PAIR))
    tl.store(counts + 3 * PARTS, tl.sum(counts_1 % PAIR))


@triton.jit(do_not_specialize=["size", "width", "count", "room", "first", "last"])
@no_type_check
def _bisected(
    scores, own, work, stride, size, width, count, room, first, last,
    PARTS: tl.constexpr, TILE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Computes a border, the highest key that `rank` keys reach, and counts each part's keys above and equal."""
    query, side = tl.program_id(0).to(tl.int64), tl.program_id(1)
    scores += query * stride
    own += query * width
    work += query * size
    collected_keys = work + COUNTS + 8 * PARTS
    rank = tl.where(side == 0, last, first)
    counts, parts = work + COUNTS + side * (2 * PARTS), tl.arange(0, PARTS)
    above_parts = tl.load(counts + parts)
    above, within = tl.sum(above_parts), tl.sum(tl.load(counts + PARTS + parts))
    low, high = _key(tl.load(work + 2 * side)), _key(tl.load(work + 2 * side + 1))
    holds = (above < rank) & (rank <= above + within)
    low, high = tl.where(holds, low, LOWEST).to(tl.uint32), tl.where(holds, high, HIGHEST).to(tl.uint32)
    low = tl.where(rank == 0, HIGHEST, low).to(tl.uint32)
    total = tl.load(work + COLLECTED)
    in_collected = holds & (total <= room)
    key_count, column_count = tl.where(in_collected, total, 0), tl.where(in_collected | (rank == 0), 0, count)
    top, beyond = high, tl.where(in_collected, above, 0)  # keys above the bracket are counted, but not collected

    ways = tl.arange(0, 4)
    while low < high:
        # Four thresholds at a time leave a fourth of the interval.
        tried = (low + 1 + (high - low).to(tl.int64) * ways // 4).to(tl.uint32)
        reached = tl.zeros([4], tl.int32)
        for chunk in range(0, key_count, CHUNK):
            places = chunk + tl.arange(0, CHUNK)
            keys = _key(tl.load(collected_keys + places, mask=places < key_count, other=0))
            reached += _reaching(keys, (places < key_count) & (keys <= top), tried)
        for chunk in range(0, column_count, CHUNK):
            columns = chunk + tl.arange(0, CHUNK)
            reached += _reaching(_keys(scores, own, width, columns, count), columns < count, tried)
        enough = tl.sum((beyond + reached >= rank).to(tl.int32))
        least, most = tl.where(ways == enough - 1, tried, 0), tl.where(ways == enough, tried - 1, 0)
        low = tl.where(enough > 0, tl.sum(least), low).to(tl.uint32)
        high = tl.where(enough < 4, tl.sum(most), high).to(tl.uint32)

    # `tl.histogram` miscounts equal keys on GPUs (Triton 3.6); sums of integers are the same in any order.
    border_counts, length = counts + 4 * PARTS, _length(count, PARTS, TILE)
    tl.atomic_add(border_counts + parts, tl.where(in_collected, above_parts, 0))
    for chunk in range(0, key_count, CHUNK):
        places = chunk + tl.arange(0, CHUNK)
        keys = _key(tl.load(collected_keys + places, mask=places < key_count, other=0))
        part = tl.load(collected_keys + room + places, mask=places < key_count, other=0) // length
        counted = (places < key_count) & (keys >= low) & (keys <= top)
        tl.atomic_add(border_counts + tl.where(keys == low, part + PARTS, part), 1, mask=counted)
    for chunk in range(0, column_count, CHUNK):
        columns = chunk + tl.arange(0, CHUNK)
        keys = _keys(scores, own, width, columns, count)
        counted = (columns < count) & (keys >= low)
        tl.atomic_add(border_counts + columns // length + tl.where(keys == low, PARTS, 0), 1, mask=counted)
    tl.store(work + BORDERS + side, low.to(tl.int32, bitcast=True))


@triton.jit
@no_type_check
def _side(work, side, rank, part, PARTS: tl.constexpr):
    """Returns a border's key, the count of equal keys within the ranks, the counts of earlier parts' keys above it and
    equal to it, and True if an equal key is beyond the ranks."""
    counts, parts = work + COUNTS + (4 + 2 * side) * PARTS, tl.arange(0, PARTS)
    more, equal = tl.load(counts + parts), tl.load(counts + PARTS + parts)
    left = rank - tl.sum(more)
    above, earlier_equal = tl.sum(tl.where(parts < part, more, 0)), tl.sum(tl.where(parts < part, equal, 0))
    return _key(tl.load(work + BORDERS + side)), left, above, earlier_equal, tl.sum(equal) > left


@triton.jit(do_not_specialize=["size", "width", "count", "first", "last"])
@no_type_check
def _listed(
    scores, own, work, members, stride, size, width, count, first, last, PARTS: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Lists the members of a part by column."""
    query, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    scores += query * stride
    own += query * width
    work += query * size
    members += query * (last - first)
    outer, outer_left, outer_above, outer_equal, outer_cut = _side(work, 0, last, part, PARTS)
    inner, inner_left, inner_above, inner_equal, inner_cut = _side(work, 1, first, part, PARTS)
    # Among the keys that equal a border, lower columns rank first.
    listed = outer_above + tl.minimum(outer_equal, outer_left) - inner_above - tl.minimum(inner_equal, inner_left)
    start, end = _stretch(count, part, PARTS, TILE)
    for tile in range(start, end, TILE):
        columns = tile + tl.arange(0, TILE)
        keys = _keys(scores, own, width, columns, count)
        at_outer, at_inner = keys == outer, keys == inner
        in_ball, in_hole = keys >= outer, keys >= inner
        if outer_cut | inner_cut:
            there = columns < count
            at_outer, at_inner = there & at_outer, there & at_inner
            in_ball = (keys > outer) | (at_outer & (outer_equal + tl.cumsum(at_outer.to(tl.int32)) <= outer_left))
            in_hole = (keys > inner) | (at_inner & (inner_equal + tl.cumsum(at_inner.to(tl.int32)) <= inner_left))
            outer_equal += tl.sum(at_outer.to(tl.int32))
            inner_equal += tl.sum(at_inner.to(tl.int32))
        member = (columns < count) & in_ball & ~in_hole
        upto = listed + tl.cumsum(member.to(tl.int32))
        tl.store(members + upto - 1, columns, mask=member)
        listed += tl.sum(member.to(tl.int32))


def select(
    scores: Float[Tensor, "b n"],
    own: Int[Tensor, "b w"],
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None,
) -> Int[Tensor, "b m"]:
    """Returns the members by column, or the members at the `picked` places of that list."""
    scores, own = scores.detach(), own.contiguous()
    scores = scores if scores.stride(1) == 1 else scores.contiguous()
    (queries, count), width = scores.shape, own.shape[1]
    sample = SAMPLE if count < MANY else LARGE_SAMPLE
    ranks = [*bracket(last, count, sample), *bracket(first, count, sample)]
    within = ranks[0] - ranks[1] + ranks[2] - ranks[3]
    room = math.ceil(count * min(1.0, (within + DEVIATIONS * math.sqrt(2 * within)) / sample))
    parts = part_count(queries, count)
    size = COUNTS.value + 8 * parts + 2 * room
    work = scores.new_empty(queries, size, dtype=torch.int32)  # one allocation, since the host's time limits
    members = scores.new_empty(queries, last - first, dtype=torch.int32)
    shape = scores.stride(0), size, width, count
    _bracketed[(queries,)](scores, own, work, *shape, *ranks, PARTS=parts, SAMPLE=sample, num_warps=CHUNK_WARPS)
    _kept[queries, parts](scores, own, work, *shape, room, PARTS=parts, TILE=TILE, num_warps=COLLECTED_WARPS)
    _bisected[queries, 2](
        scores, own, work, *shape, room, first, last, PARTS=parts, TILE=TILE, CHUNK=CHUNK, num_warps=CHUNK_WARPS
    )
    _listed[queries, parts](
        scores, own, work, members, *shape, first, last, PARTS=parts, TILE=TILE, num_warps=LISTED_WARPS
    )
    return (members if picked is None else members.gather(1, picked)).long()


def bracket(rank: int, count: int, sample: int) -> tuple[int, int]:
    """Ranks in a sample, lower key first. The key of `rank` nearly always lies between theirs; 0: above all keys."""
    if rank == 0:
        return 0, 0
    share = rank / count
    reach = math.ceil(DEVIATIONS * math.sqrt(sample * share * (1 - share))) + 1
    return min(math.ceil(sample * share) + reach, sample + 1), max(math.ceil(sample * share) - reach, 0)


def part_count(queries: int, count: int) -> int:
    """Number of parts of each query's columns, a power of 2. A program reads a part, of a tile at least."""
    limit = min(PROGRAMS // max(queries, 1), count // TILE, PARTS)
    return 1 << (max(limit, 1).bit_length() - 1)


def forms(scores: str = "*fp32", parts: int = PARTS) -> list[Form]:
    """The kernels that `select` starts, for scores of this type and this number of parts."""
    pointers = {"scores": scores, "own": "*i64", "work": "*i32", "members": "*i32"}
    fixed = {"PARTS": parts, "TILE": TILE, "CHUNK": CHUNK, "SAMPLE": SAMPLE}
    kernels = {_bracketed: CHUNK_WARPS, _kept: COLLECTED_WARPS, _bisected: CHUNK_WARPS, _listed: LISTED_WARPS}
    return [
        Form(f"bisection {kernel.fn.__name__.strip('_')}", kernel, pointers, fixed, warps)
        for kernel, warps in kernels.items()
    ]
