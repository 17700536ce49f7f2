"""GPU selection against sorted(): Triton's kernels, interpreted, and plain PyTorch."""

import itertools

import pytest
import torch
from interpreted import interpreted, needs_triton

from annulus.negatives.threshold import plain

# Columns -> kinds of scores: one column; fewer columns than a sample; nine tiles of 512 columns and one more column;
# enough columns for the larger sample.
SIZES = {1: 1, 300: 3, 4609: 11, 2**18: 1}


def lower_where_sampled(drawn):
    """Lowers the sampled scores, so that a sample's brackets miss the borders."""
    lowered = drawn.clone()
    lowered[:, torch.arange(2048) * drawn.shape[1] // 2048] -= 9
    return lowered


SCORES = {
    "distinct": lambda drawn: drawn,
    "lower where they are sampled": lower_where_sampled,
    "tied": lambda drawn: (3 * drawn).round() * torch.tensor([[0.25], [-1.0], [0.0]]),  # 0 and -0 as well
    "tied by few": lambda drawn: (256 * drawn).round(),
    "close": lambda drawn: 1 + drawn * 2**-21,  # they differ in their last bits
    "all the same": torch.zeros_like,
    "half of them -inf": lambda drawn: drawn.masked_fill(drawn < 0, -torch.inf),
    "NaN of both signs": lambda drawn: drawn.masked_fill(drawn > 0.5, torch.nan) * drawn.sign(),
    "all NaN": lambda drawn: torch.full_like(drawn, torch.nan),
    "subnormal": lambda drawn: drawn * 2.0**-135,
    "of both ends": lambda drawn: drawn.sign() * torch.exp(80 * drawn.abs() - 80),  # from 1e-35 to infinity
}


def own_forms(count, generator):
    """Own columns in every form: one a query, none, and up to three a query with some of them absent (-1)."""
    yield torch.randint(count, (3,), generator=generator)
    yield None
    places = torch.rand(3, count, generator=generator).argsort(dim=1)[:, :3]
    yield places.masked_fill(torch.eye(3, dtype=torch.bool)[:, : places.shape[1]], -1)


def rank_ranges(count):
    third = max(count // 3, 1)
    return itertools.cycle([(0, third), (third, min(2 * third, count)), (third, count), (0, count), (count - 1, count)])


def cases():
    """Scores, own columns, ranks, and places."""
    generator = torch.Generator().manual_seed(0)
    for count, kinds in SIZES.items():
        owns, ranks = itertools.cycle(own_forms(count, generator)), rank_ranges(count)
        for change, own, (first, last) in zip(itertools.islice(SCORES.values(), kinds), owns, ranks):  # noqa: B905
            places = torch.randint(last - first, (21, 3), generator=generator).T  # not contiguous: a user's layout
            yield change(torch.randn(3, count, generator=generator)), own, first, last, places


def expected(scores, own, first, last):
    """Columns at these ranks: own columns and NaN rank last, equal scores rank by column."""
    for query, values in enumerate(scores.tolist()):
        mine = set() if own is None else set(own.view(len(scores), -1)[query].tolist())
        mine |= {column for column, value in enumerate(values) if value != value}
        ranked = sorted(set(range(len(values))) - mine, key=lambda column: (-values[column], column))
        yield sorted([*ranked, *sorted(mine - {-1})][first:last])


@pytest.fixture(scope="module")
def selections():
    """Each case, and its members by column."""
    return [(case, torch.tensor(list(expected(*case[:4])))) for case in cases()]


def test_plain_selection_is_exact(selections):
    for (*case, places), rows in selections:
        assert torch.equal(plain(*case), rows)
        assert torch.equal(plain(*case, places), rows.gather(1, places))


@pytest.mark.slow
@needs_triton
def test_the_kernels_select_the_same(selections):
    calls = []
    for (scores, own, *ranks, places), _ in selections:
        padded = torch.empty(3, 0, dtype=torch.int64) if own is None else own.view(3, -1)
        calls += [(scores, padded, *ranks, None), (scores, padded, *ranks, places)]
    results = interpreted("annulus.negatives.bisection:select", calls)
    for ((*_, places), rows), listed, drawn in zip(selections, results[::2], results[1::2], strict=True):
        assert torch.equal(listed, rows)
        assert torch.equal(drawn, rows.gather(1, places))
