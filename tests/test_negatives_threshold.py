"""Selection on a GPU against sorted(): by Triton's kernels, interpreted, and by plain PyTorch."""

import itertools

import pytest
import torch
from interpreted import interpreted, needs_triton

from annulus.negatives.threshold import plain

# Columns: one, fewer than a sample has, four parts of tiles of 1024 and more, so many that the sample is larger; of so
# many kinds of scores.
SIZES = {1: 1, 300: 3, 4609: 10, 2**18: 1}


def lower_where_sampled(drawn):
    """So that no bracket of a sample holds what it should."""
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
    "nothing but NaN": lambda drawn: torch.full_like(drawn, torch.nan),
    "of both ends": lambda drawn: drawn.sign() * torch.exp(80 * drawn.abs() - 80),  # infinities, and less than normal
}


def owns_of(count, generator):
    """Own columns of every form: in a queue up to three, some of them nowhere."""
    yield torch.randint(count, (3,), generator=generator)
    yield None
    places = torch.rand(3, count, generator=generator).argsort(dim=1)[:, :3]
    yield places.masked_fill(torch.eye(3, dtype=torch.bool)[:, : places.shape[1]], -1)


def ranks_of(count):
    third = max(count // 3, 1)
    return itertools.cycle([(0, third), (third, min(2 * third, count)), (third, count), (0, count), (count - 1, count)])


def cases():
    """Scores, own columns, ranks, and places."""
    generator = torch.Generator().manual_seed(0)
    for count, kinds in SIZES.items():
        owns, ranks = itertools.cycle(owns_of(count, generator)), ranks_of(count)
        for change, own, (first, last) in zip(itertools.islice(SCORES.values(), kinds), owns, ranks):  # noqa: B905
            places = torch.randint(last - first, (21, 3), generator=generator).T  # as somebody's own loop may have them
            yield change(torch.randn(3, count, generator=generator)), own, first, last, places


def expected(scores, own, first, last):
    """The columns of these ranks: own ones and those of NaN last, equal scores by column."""
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
    asked = []
    for (scores, own, *ranks, places), _ in selections:
        padded = torch.empty(3, 0, dtype=torch.int64) if own is None else own.view(3, -1)
        asked += [(scores, padded, *ranks, None), (scores, padded, *ranks, places)]
    found = interpreted("annulus.negatives.bisection:select", asked)
    for ((*_, places), rows), listed, drawn in zip(selections, found[::2], found[1::2], strict=True):
        assert torch.equal(listed, rows)
        assert torch.equal(drawn, rows.gather(1, places))
