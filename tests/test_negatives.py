"""Samplers against sorted() and loops, the law of their draws, and what the papers' theorems say of them."""

import itertools
import math
from fractions import Fraction

import pytest
import torch

from annulus.bounds import infonce
from annulus.config import BallParams, CaveParams, RingParams, UniformParams
from annulus.errors import InputError
from annulus.negatives import Negatives, draw, kept_shares, select

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, ROWS = 35, 101  # more queries than one chunk of work; 100 other rows, so that shares are percentages
OUTSIDE = CaveParams(outer=0.3, clusters=4, runs=2, iterations=1, keep="outside")
INSIDE = OUTSIDE.model_copy(update={"keep": "inside"})
SAMPLERS = {
    "uniform": UniformParams(),
    "ball": BallParams(outer=0.29),  # 0.29 * 100 is 28.999... in floating point
    "ring": RingParams(outer=0.3, inner=0.07),
    "wide ring": RingParams(outer=1.0, inner=0.07),
    "outside": OUTSIDE,
    "inside": INSIDE,
}
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())


@pytest.fixture
def similarity(generator):
    return torch.randn(QUERIES, ROWS, generator=generator)


@pytest.fixture
def own(generator):
    return torch.randint(ROWS, (QUERIES,), generator=generator)


@pytest.fixture
def clusters(generator):
    return torch.randint(4, (2, ROWS), generator=generator, dtype=torch.int32)


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def plain_set(scores, own, sampler, clusters, progress="1"):
    """One query's negatives from the papers: rank the other rows, keep a stretch, then cave's clusters."""
    order = sorted(range(len(scores)), key=lambda row: -float(scores[row]))
    order.remove(int(own))
    way = Fraction(progress)
    outer = 1 - (1 - Fraction(str(getattr(sampler, "outer", 1)))) * way
    inner = Fraction(str(getattr(sampler, "inner", 0))) * way
    kept = set(order[math.floor(inner * len(order)) : math.floor(outer * len(order))])
    if isinstance(sampler, CaveParams) and way > 0:
        own_cluster = {row for row in kept for run in clusters if run[row] == run[own]}
        kept = kept & own_cluster if sampler.keep == "inside" else kept - own_cluster
    return kept


def sets_of(negatives):
    """The rows of each query, absent ones left out."""
    present = torch.ones_like(negatives.rows, dtype=torch.bool)
    present = present if negatives.present is None else negatives.present
    return [row[there].tolist() for row, there in zip(negatives.rows, present, strict=True)]


# --- the set ------------------------------------------------------------------------------------------


@each_sampler
@pytest.mark.parametrize("progress", ["0", "0.001", "0.3", "0.5", "1"])
def test_all_is_the_plain_set_at_every_stage_of_annealing(sampler, progress, similarity, own, clusters):
    found = draw(similarity, own, "all", sampler, float(progress), seeded(), clusters)
    for query, rows in enumerate(sets_of(found)):
        assert len(rows) == len(set(rows)), "a row stands twice"
        assert set(rows) == plain_set(similarity[query], own[query], sampler, clusters, progress)


@each_sampler
def test_annealing_starts_at_the_whole_memory(sampler, similarity, own, clusters):
    found = draw(similarity, own, "all", sampler, 0.0, seeded(), clusters)
    for rows, row in zip(sets_of(found), own.tolist(), strict=True):
        assert sorted(rows) == [other for other in range(ROWS) if other != row]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 40), (1, 2), (39, 40), (10, 40), (0, 99), (99, 100), (1, 100)])
def test_selected_ranks_are_exact_up_to_both_ends(first, last, dtype, similarity, own):
    similarity = similarity.to(dtype)
    selected = select(similarity, own, first, last)
    for query in range(QUERIES):
        order = sorted(range(ROWS), key=lambda row: -float(similarity[query, row]))
        order.remove(int(own[query]))
        assert sorted(selected[query].tolist()) == sorted(order[first:last])


class OnGPU(torch.Tensor):
    """A tensor that says it is on a GPU, so that the GPU's way of selecting runs here."""

    is_cuda = True


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 40), (10, 40), (99, 100), (1, 100)])
def test_a_gpu_selects_the_same_ranks(first, last, similarity, own):
    similarity.scatter_(1, own[:, None], 100.0)
    here, there = (
        select(scores, own, first, last).sort(dim=1).values for scores in (similarity, similarity.as_subclass(OnGPU))
    )
    assert torch.equal(here, torch.Tensor(there).long())


@pytest.mark.parametrize("queries", [1, 15, 16, 17, 35])
def test_every_query_is_selected_whatever_the_batch(queries, similarity, own):
    whole = select(similarity, own, 3, 20)
    assert torch.equal(select(similarity[:queries], own[:queries], 3, 20), whole[:queries])


def test_selecting_leaves_the_scores_as_they_are(similarity, own):
    before = similarity.clone()
    draw(similarity, own, "all", SAMPLERS["ring"], 1.0, seeded())
    assert torch.equal(similarity, before)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_among_equal_scores_ranks_are_still_exact(levels, generator, own):
    """Which of the tied rows are kept is open; how many of each score is not."""
    similarity = torch.randint(levels, (QUERIES, ROWS), generator=generator).float()
    for sampler in (SAMPLERS["ball"], SAMPLERS["ring"]):
        found = draw(similarity, own, "all", sampler, 1.0, seeded())
        for query, rows in enumerate(sets_of(found)):
            expected = plain_set(similarity[query], own[query], sampler, None)
            assert len(rows) == len(set(rows)) == len(expected)
            assert sorted(similarity[query, rows].tolist()) == sorted(similarity[query, list(expected)].tolist())
            assert own[query] not in rows


# --- the own row --------------------------------------------------------------------------------------


@each_sampler
@pytest.mark.parametrize("k", [2000, "all"])
@pytest.mark.parametrize("standing", ["highest", "lowest", "tied with all", "tied with the highest"])
def test_the_own_row_is_never_a_negative(standing, k, sampler, similarity, own, clusters):
    column = own[:, None]
    match standing:
        case "highest":
            similarity.scatter_(1, column, 100.0)
        case "lowest":
            similarity.scatter_(1, column, -100.0)
        case "tied with all":
            similarity.zero_()
        case "tied with the highest":
            similarity.scatter_(1, column, 100.0).scatter_(1, (column + 1) % ROWS, 100.0)
    for progress in (0.0, 0.5, 1.0):
        found = draw(similarity, own, k, sampler, progress, seeded(), clusters)
        for rows, row in zip(sets_of(found), own.tolist(), strict=True):
            assert row not in rows


@pytest.mark.parametrize("row", [0, 50, ROWS - 1])
def test_uniform_reaches_every_other_row_and_only_those(row, similarity):
    drawn = draw(similarity[:1], torch.tensor([row]), 5000, UniformParams(), 1.0, seeded()).rows
    assert drawn.unique().tolist() == [other for other in range(ROWS) if other != row]


# --- the draws ----------------------------------------------------------------------------------------


@each_sampler
def test_every_draw_lies_in_the_set_and_reaches_all_of_it(sampler, similarity, own, clusters):
    drawn = draw(similarity, own, 3000, sampler, 1.0, seeded(), clusters)
    assert drawn.rows.shape == (QUERIES, 3000)
    assert drawn.present is None
    for query in range(QUERIES):
        expected = plain_set(similarity[query], own[query], sampler, clusters)
        assert set(drawn.rows[query].tolist()) == expected


@each_sampler
def test_draws_are_uniform_over_the_set(sampler, similarity, own, clusters):
    drawn = draw(similarity, own, 20_000, sampler, 1.0, seeded(), clusters).rows
    statistic, freedom = 0.0, 0
    for query in range(QUERIES):
        members = sorted(plain_set(similarity[query], own[query], sampler, clusters))
        counts = drawn[query].bincount(minlength=ROWS)[members].double()
        expected = 20_000 / len(members)
        statistic += float(((counts - expected) ** 2 / expected).sum())
        freedom += len(members) - 1
    assert abs(statistic - freedom) < 4 * math.sqrt(2 * freedom)  # chi-square: mean df, variance 2 df


@each_sampler
def test_draws_are_independent_with_replacement(sampler, similarity, own, clusters):
    """Of k draws from m rows, m * (1 - (1 - 1/m)^k) are different on average; neighbours agree once in m."""
    drawn = draw(similarity, own, 400, sampler, 1.0, seeded(), clusters).rows
    sizes = [len(plain_set(similarity[q], own[q], sampler, clusters)) for q in range(QUERIES)]
    different = sum(len(set(rows)) for rows in drawn[:, :20].tolist())
    expected = sum(size * (1 - (1 - 1 / size) ** 20) for size in sizes)
    assert different == pytest.approx(expected, abs=4 * math.sqrt(3 * QUERIES))
    same = (drawn[:, 1:] == drawn[:, :-1]).sum().item()
    chance = sum(399 / size for size in sizes)
    assert same == pytest.approx(chance, abs=4 * math.sqrt(chance))


def test_queries_draw_independently_of_each_other(own):
    ranks = torch.arange(float(ROWS)).expand(2, ROWS)
    drawn = draw(ranks, torch.tensor([0, 0]), 4000, SAMPLERS["ball"], 1.0, seeded()).rows
    same = (drawn[0] == drawn[1]).sum().item()
    assert same == pytest.approx(4000 / 29, abs=4 * math.sqrt(4000 / 29))


@each_sampler
def test_the_seed_repeats_the_draws_and_another_changes_them(sampler, similarity, own, clusters):
    first, again, other = (draw(similarity, own, 50, sampler, 1.0, seeded(seed), clusters).rows for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_ring_with_inner_0_is_the_ball_draw_for_draw(similarity, own):
    for progress in (0.3, 1.0):
        ring = draw(similarity, own, 500, RingParams(outer=0.3, inner=0.0), progress, seeded())
        ball = draw(similarity, own, 500, BallParams(outer=0.3), progress, seeded())
        assert torch.equal(ring.rows, ball.rows)


def test_ball_and_ring_of_the_whole_memory_are_uniform(similarity, own):
    uniform = draw(similarity, own, 20_000, UniformParams(), 1.0, seeded(1)).rows
    for whole in (BallParams(outer=1.0), RingParams(outer=1.0, inner=0.0)):
        drawn = draw(similarity, own, 20_000, whole, 1.0, seeded(2)).rows
        statistic = 0.0
        for query in range(QUERIES):  # two samples of one law: chi-square with ROWS - 2 degrees of freedom
            a, b = (rows[query].bincount(minlength=ROWS).double() for rows in (uniform, drawn))
            both = (a + b).clamp(min=1)
            statistic += float(((a - b) ** 2 / both).sum())
        freedom = QUERIES * (ROWS - 2)
        assert abs(statistic - freedom) < 4 * math.sqrt(2 * freedom)


def test_both_borders_move_in_a_straight_line():
    ring = RingParams(outer=0.2, inner=0.1)
    expected = {0.0: (0.0, 1.0), 0.25: (0.025, 0.8), 0.5: (0.05, 0.6), 1.0: (0.1, 0.2)}
    for progress, shares in expected.items():
        assert kept_shares(ring, progress) == pytest.approx(shares)
    assert kept_shares(BallParams(outer=0.2), 0.5) == pytest.approx((0.0, 0.6))
    assert kept_shares(OUTSIDE, 1.0) == pytest.approx((0.0, 0.3))
    assert kept_shares(UniformParams(), 0.5) == (0.0, 1.0)


# --- cave ---------------------------------------------------------------------------------------------


def test_cave_of_several_clusterings_unites_the_own_clusters(similarity, own, clusters):
    """A row of the query's cluster in either run is outside's loss and inside's gain."""
    found = {
        (keep, runs): sets_of(draw(similarity, own, "all", sampler, 1.0, seeded(), clusters[:runs]))
        for keep, sampler in (("outside", OUTSIDE), ("inside", INSIDE))
        for runs in (1, 2)
    }
    ball = sets_of(draw(similarity, own, "all", BallParams(outer=0.3), 1.0, seeded()))
    for query in range(QUERIES):
        for runs in (1, 2):
            outside, inside = (set(found[keep, runs][query]) for keep in ("outside", "inside"))
            assert outside | inside == set(ball[query])
            assert not outside & inside
        assert set(found["inside", 1][query]) <= set(found["inside", 2][query])
    assert found["inside", 1] != found["inside", 2]


def test_cave_pads_sets_of_different_sizes_and_the_padding_adds_nothing(similarity, own, clusters):
    found = draw(similarity, own, "all", OUTSIDE, 1.0, seeded(), clusters)
    sizes = [len(rows) for rows in sets_of(found)]
    assert len(set(sizes)) > 1
    masked = found.mask(similarity.gather(1, found.rows))
    assert torch.equal(masked == -torch.inf, ~found.present)
    assert torch.equal(masked[found.present], similarity.gather(1, found.rows)[found.present])
    assert found.ceiling().item() == pytest.approx(sum(math.log(1 + size) for size in sizes) / QUERIES)


def test_the_ceiling_counts_the_positive_and_every_negative(similarity, own):
    drawn = draw(similarity, own, 63, SAMPLERS["ball"], 1.0, seeded())
    assert drawn.ceiling().item() == pytest.approx(math.log(64))
    whole = draw(similarity, own, "all", SAMPLERS["ball"], 1.0, seeded())
    assert whole.ceiling().item() == pytest.approx(math.log(1 + 29))
    scores = torch.randn(2, 3, generator=seeded())
    assert Negatives(torch.zeros(2, 3, dtype=torch.int64)).mask(scores) is scores


@pytest.mark.parametrize("k", [10, "all"])
def test_cave_refuses_an_empty_set_with_its_numbers(k, similarity, own):
    together = torch.zeros(1, ROWS, dtype=torch.int32)
    with pytest.raises(
        InputError,
        match=r"cave \(keep: outside, clusters: 4\) leaves the query of row \d+ none of its 30 closest rows; "
        "take more clusters or a wider ball",
    ):
        draw(similarity, own, k, OUTSIDE, 1.0, seeded(), together)
    alone = torch.arange(ROWS, dtype=torch.int32)[None]
    with pytest.raises(InputError, match=r"keep: inside.*; take fewer clusters or a wider ball"):
        draw(similarity, own, k, INSIDE, 1.0, seeded(), alone)


def test_cave_refuses_when_a_single_query_has_no_negative(similarity, own):
    clusters = torch.zeros(1, ROWS, dtype=torch.int32)
    clusters[0, own[3]] = 1  # the only row of its cluster
    with pytest.raises(InputError, match=f"leaves the query of row {own[3]} none of its 30 closest rows"):
        draw(similarity, own, 10, INSIDE, 1.0, seeded(), clusters)


@pytest.mark.parametrize("sampler", [BallParams(outer=0.009), RingParams(outer=0.019, inner=0.01)])
def test_a_ball_or_ring_that_holds_no_row_is_refused_with_its_numbers(sampler, similarity, own):
    inner, outer = kept_shares(sampler, 1.0)
    with pytest.raises(InputError, match=rf"\[{inner:.4g}, {outer:.4g}\) hold none of the memory's 100 other"):
        draw(similarity, own, 10, sampler, 1.0, seeded())


# --- what the theorems promise ------------------------------------------------------------------------

CRITICS = {
    "normal": lambda g: torch.randn(4, 21, generator=g, dtype=torch.float64),
    "sharp": lambda g: 14 * torch.randn(4, 21, generator=g, dtype=torch.float64),
    "heavy-tailed": lambda g: torch.randn(4, 21, generator=g, dtype=torch.float64).pow(5),
    "skewed": lambda g: torch.rand(4, 21, generator=g, dtype=torch.float64).log(),
    "coarse": lambda g: torch.randint(3, (4, 21), generator=g).double(),
    "constant": lambda g: torch.ones(4, 21, dtype=torch.float64),
}
OWN = torch.tensor([0, 20, 7, 7])
SHARES = [0.05, 0.1, 0.35, 0.8, 1.0]


def losses_of_draws(scores, sampler, clusters=None):
    """Of each query, the mean loss over all m * m equally likely pairs of negatives, and the least loss."""
    found = draw(scores, OWN, "all", sampler, 1.0, seeded(), clusters)
    means, least = [], []
    for query, rows in enumerate(sets_of(found)):
        positive, members = scores[query, OWN[query]], scores[query, rows]
        pairs = torch.cartesian_prod(members, members)
        means.append(infonce(positive.expand(len(pairs)), pairs).item())
        # The pairs of one row with itself, the diagonal of all pairs, hold the least.
        least.append(min(infonce(positive[None], pair[None]).item() for pair in pairs[:: len(rows) + 1]))
    return means, least


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("outer", SHARES)
def test_a_ball_bounds_information_no_higher_than_all_negatives_for_every_critic(critic, outer, generator):
    """CNCE <= NCE without a condition (ring section 3, statement 3), the draws enumerated."""
    for _ in range(3):
        scores = CRITICS[critic](generator)
        nce, _ = losses_of_draws(scores, UniformParams())
        cnce, _ = losses_of_draws(scores, BallParams(outer=outer))
        for of_all, of_ball in zip(nce, cnce, strict=True):
            assert of_ball >= of_all - 1e-12  # a loss: the higher, the lower the bound


def test_a_smaller_ball_gives_a_lower_bound(generator):
    for critic in CRITICS.values():
        scores = critic(generator)
        losses = [losses_of_draws(scores, BallParams(outer=outer))[0] for outer in SHARES]
        for of_query in zip(*losses, strict=True):
            assert all(wider <= smaller + 1e-12 for smaller, wider in itertools.pairwise(of_query))


def test_a_ring_at_low_similarity_exceeds_the_bound_of_all_negatives(generator):
    """Percentiles 10 to 40 (ring section 3, statement 3): inner = 1 - 0.4, outer = 1 - 0.1."""
    for _ in range(5):
        scores = CRITICS["normal"](generator)
        nce, _ = losses_of_draws(scores, UniformParams())
        ring, _ = losses_of_draws(scores, RingParams(inner=0.6, outer=0.9))
        for of_all, of_ring in zip(nce, ring, strict=True):
            assert of_ring < of_all


def test_above_the_mean_score_every_single_draw_is_below_the_bound_of_all_negatives(generator):
    """tau > log c, c = E exp f (ring statement 2, mutualinfo 4.1.1): for ring and cave, draw by draw."""
    clusters = torch.randint(3, (1, 21), generator=generator, dtype=torch.int32)
    cave = CaveParams(outer=0.3, clusters=3, runs=1, iterations=1, keep="outside")
    held = 0
    for _ in range(20):
        scores = CRITICS["normal"](generator)
        nce, _ = losses_of_draws(scores, UniformParams())
        for sampler in (RingParams(inner=0.05, outer=0.3), cave):
            _, least = losses_of_draws(scores, sampler, clusters)
            members = sets_of(draw(scores, OWN, "all", sampler, 1.0, seeded(), clusters))
            for query, rows in enumerate(members):
                others = [row for row in range(21) if row != OWN[query]]
                c = scores[query, others].exp().mean()
                g = scores[query, rows].exp()
                if (g > c).all():
                    held += 1
                    assert g.mean() > c  # mutualinfo Thm 4.1
                    assert least[query] >= nce[query]
    assert held > 30, "the premise was met too rarely to test anything"
