"""Intervals cover what they claim, and agree with plain formulas."""

import itertools

import numpy as np
import pytest
from by_path import ROOT
from scipy import stats

from annulus.errors import InputError
from annulus.evals.intervals import Interval, between_tables, over_seeds, over_seeds_and_images, verdict, with_images
from annulus.files.right import read_right


def plain_table_interval(table: np.ndarray) -> tuple[float, float]:
    """Mean and half-width, element by element from the formulas in the sources."""
    seeds, images = table.shape
    mean = sum(table.flatten()) / table.size
    rows = [sum(row) / images for row in table]
    columns = [sum(column) / seeds for column in table.T]
    ms_seeds = images * sum((row - mean) ** 2 for row in rows) / (seeds - 1)
    ms_images = seeds * sum((column - mean) ** 2 for column in columns) / (images - 1)
    rest = sum((table[s, i] - rows[s] - columns[i] + mean) ** 2 for s in range(seeds) for i in range(images)) / (
        (seeds - 1) * (images - 1)
    )
    halves = [stats.t.ppf(0.975, seeds - 1) * (ms_seeds / table.size) ** 0.5]
    if ms_images > rest:
        total = ms_seeds + ms_images - rest
        parts = [(ms_seeds, seeds - 1), (ms_images, images - 1), (rest, (seeds - 1) * (images - 1))]
        freedom = max(total**2 / sum(part**2 / f for part, f in parts), seeds - 1)
        halves.append(stats.t.ppf(0.975, freedom) * (total / table.size) ** 0.5)
    return mean, max(halves)


@pytest.mark.parametrize(("seed_effect", "image_effect"), [(0.0, 0.0), (0.2, 0.0), (0.0, 2.0), (0.3, 2.0), (0.5, 1.0)])
def test_a_table_gives_what_the_plain_formula_gives(seed_effect, image_effect):
    draws = np.random.default_rng(0)
    logits = seed_effect * draws.normal(size=(4, 1)) + image_effect * draws.normal(size=50)
    table = (draws.random((4, 50)) < 1 / (1 + np.exp(-logits))).astype(float)
    mean, half = plain_table_interval(table)
    interval = over_seeds_and_images(table)
    assert interval.mean == pytest.approx(mean)
    assert interval.half == pytest.approx(half)


def simulate(random: np.random.Generator, runs: int, seeds: int, ratio: float, image_ratio: float, images: int = 200):
    """Tables with mean 0; the mean squares of seeds and images are these ratios times the residual mean square."""
    seed_effect = ((ratio - 1) / images) ** 0.5 * random.normal(size=(runs, seeds, 1))
    image_effect = ((image_ratio - 1) / seeds) ** 0.5 * random.normal(size=(runs, 1, images))
    return seed_effect + image_effect + random.normal(size=(runs, seeds, images))


# bench_coverage.py simulates more cases for longer. With two seeds an interval may cover too often, not too rarely.
@pytest.mark.parametrize(
    ("seeds", "ratio", "image_ratio", "most"),
    [(2, 3, 1.2, 0.975), (3, 2, 1.3, 0.97), (5, 1, 1.0, 0.97), (5, 3, 5.0, 0.97)],
)
def test_an_interval_holds_the_truth_in_93_to_97_percent_of_samples(seeds, ratio, image_ratio, most):
    tables = simulate(np.random.default_rng(0), 1000, seeds, ratio, image_ratio)
    intervals = [over_seeds_and_images(table) for table in tables]
    assert 0.93 <= np.mean([abs(one.mean) <= one.half for one in intervals]) <= most


def test_an_interval_is_never_narrower_than_student_s_over_the_means_of_seeds():
    for table in simulate(np.random.default_rng(1), 50, 3, 1, 1.2):
        assert over_seeds_and_images(table).half >= over_seeds(table.mean(axis=1).tolist()).half * (1 - 1e-9)


def test_other_seeds_on_the_same_images_are_compared_image_by_image():
    """Welch's interval would count the images' effect on both sides twice."""
    intervals, apart = [], []
    for table in simulate(np.random.default_rng(0), 500, 10, 2, 10):  # seeds 0 to 4 and 5 to 9 of one variant
        head, base = table[:5], table[5:]
        intervals.append(between_tables(head, base, same_seeds=False, same_images=True))
        apart.append(over_seeds_and_images(head).minus(over_seeds_and_images(base)).half / intervals[-1].half)
    assert 0.93 <= np.mean([abs(one.mean) <= one.half for one in intervals]) <= 0.98
    assert 1.5 <= np.median(apart) <= 1.8


def test_what_images_add_to_a_difference_is_without_what_the_seeds_of_either_side_do_not_share():
    def rest(table):  # MS_rest / (S n)
        left = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        return (left**2).sum() / (len(table) - 1) / (table.shape[1] - 1) / table.size

    head, base = (simulate(np.random.default_rng(seeds), 1, seeds, 1, 10, images=50)[0] for seeds in (4, 3))
    seeds = over_seeds(head.mean(axis=1).tolist()).minus(over_seeds(base.mean(axis=1).tolist()))
    shared = (head.mean(axis=0) - base.mean(axis=0)).var(ddof=1) / 50 - rest(head) - rest(base)
    difference = between_tables(head, base, same_seeds=False, same_images=True)
    assert difference.variance == pytest.approx(seeds.variance + shared)


def test_images_leave_an_interval_at_least_the_degrees_of_freedom_of_its_seeds():
    assert with_images(Interval(0.0, 1.0, 5), [(2.0, 3)], [(1.5, 3)]).freedom == 5


@pytest.mark.parametrize("same_seeds", [True, False])
def test_other_test_images_are_another_sample(same_seeds):
    covered = []
    for table in simulate(np.random.default_rng(0), 500, 3, 1.5, 4, images=120):
        difference = between_tables(table[:, :60], table[:, 60:], same_seeds, same_images=False)
        covered.append(abs(difference.mean) <= difference.half)
    assert 0.93 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize("seeds", [2, 3, 5, 50])
def test_a_difference_that_could_be_seen_is_seen_in_80_percent_of_cases(seeds):
    could = Interval(0.0, 1 / seeds, seeds - 1).visible
    values = could + np.random.default_rng(0).normal(size=(1000, seeds))
    seen = [verdict(over_seeds(row)) == "better" for row in values.tolist()]
    assert np.mean(seen) == pytest.approx(0.8, abs=0.03)


def test_the_interval_over_seeds_is_students_and_of_one_seed_is_unknown():
    values = [59.4, 60.1, 58.7]
    interval = over_seeds(values)
    expected = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert (interval.mean - interval.half, interval.mean + interval.half) == pytest.approx(expected)
    assert over_seeds([59.4]).half is None
    for one, other in ((over_seeds([1.0]), interval), (interval, over_seeds([1.0]))):
        assert one.minus(other).half is None
        assert one.minus(other).mean == pytest.approx(one.mean - other.mean)


def test_one_seed_has_no_interval_and_no_verdict_however_many_images_it_saw():
    one = over_seeds_and_images(np.ones((1, 1000)) - (np.arange(1000) < 10))
    assert (one.half, one.visible, verdict(one)) == (None, None, "one seed")
    assert between_tables(np.ones((1, 9)), np.zeros((3, 9)), same_seeds=False, same_images=True).half is None
    assert over_seeds_and_images(np.zeros((3, 20))).half == 0, "equal runs differ by nothing"
    assert verdict(over_seeds_and_images(np.array([[1.0, -1.0, 0.0]]))) == "one seed", "its images differ"
    assert verdict(over_seeds_and_images(np.zeros((1, 9)))) == "equal"


def test_seeds_that_are_alike_by_chance_do_not_make_an_interval_of_nothing():
    """Two seeds have the same mean from different images."""
    right = np.zeros((2, 30))
    right[0, :3], right[0, 3], right[1, 4:7], right[1, 7] = 1, -1, 1, -1
    interval = over_seeds_and_images(right)
    assert interval.mean == pytest.approx(2 / 30)
    image_error = np.sqrt(right.var(axis=1, ddof=1).sum() / 30) / 2
    assert interval.half >= 1.9 * image_error
    assert verdict(interval).startswith("within noise")


def test_three_seeds_that_are_alike_by_chance_are_so_whatever_floats_say():
    """The mean of three times 0.1 is not 0.1 in floats."""
    right = np.zeros((3, 20))
    for seed in range(3):
        right[seed, 2 * seed : 2 * seed + 2] = 1
    assert over_seeds_and_images(right).half == pytest.approx(2.02 * np.sqrt(0.1 * 0.9 / 60), rel=0.1)
    assert over_seeds([0.1, 0.1, 0.1]).variance == 0


def test_of_one_image_the_interval_holds_the_seeds():
    right = [1.0, 0.0, 1.0]
    assert over_seeds_and_images(np.array(right)[:, None]) == over_seeds(right)
    assert over_seeds_and_images(np.ones((1, 1))).half is None


def test_in_pairs_of_one_seed_the_test_images_hardly_change_a_verdict():
    """Claims about two rows of a grid have the seeds' numbers alone. Rows of algorithms keep the images too."""
    files = sorted((ROOT / "stages/cifar10_algorithms/metrics/right").glob("*.json"))
    rows = [right for file in files if len((right := read_right(file))["knn_top1_percent"]) == 5]
    changed, pairs = 0, 0
    for accuracy in ("linear_top1_percent", "knn_top1_percent"):
        for one, other in itertools.combinations([row[accuracy] for row in rows], 2):
            differences = np.stack([one[seed].astype(np.int8) - other[seed] for seed in one])
            whole, alone = over_seeds_and_images(differences), over_seeds(list(differences.mean(axis=1)))
            changed += (abs(whole.mean) > whole.half) != (abs(alone.mean) > alone.half)
            pairs += 1
    assert (changed, pairs) == (2, 1640)


def test_the_difference_of_independent_means_is_welchs():
    base, head = [1.0, 2.0, 4.0, 3.0], [2.5, 3.0, 9.0, 4.0, 1.0]
    gap = over_seeds(head).minus(over_seeds(base))
    expected = stats.ttest_ind(head, base, equal_var=False).confidence_interval(0.95)
    assert (gap.mean - gap.half, gap.mean + gap.half) == pytest.approx((expected.low, expected.high))


def test_sides_whose_seeds_are_all_equal_differ_without_an_interval():
    gap = over_seeds([2.0] * 4).minus(over_seeds([1.0] * 5))
    assert (gap.mean, gap.half, gap.freedom) == (1.0, 0.0, 3)


@pytest.mark.parametrize("few", [2, 3])
def test_a_side_of_few_seeds_gives_the_difference_its_degrees_of_freedom(few):
    """Welch's degrees of freedom follow a variance of few numbers: a small one makes the interval too narrow."""
    random = np.random.default_rng(few)
    many = over_seeds(random.normal(size=10).tolist())
    for side in (over_seeds(random.normal(size=few).tolist()) for _ in range(5)):
        for gap in (side.minus(many), many.minus(side)):
            assert gap.freedom == few - 1
            assert gap.half == pytest.approx(stats.t.ppf(0.975, few - 1) * (side.variance + many.variance) ** 0.5)
    held = [
        abs((one := over_seeds(a.tolist()).minus(over_seeds(b.tolist()))).mean) <= one.half
        for a, b in ((random.normal(size=few), random.normal(size=10)) for _ in range(2000))
    ]
    assert np.mean(held) >= 0.94


def test_a_verdict_says_what_it_could_have_seen():
    assert verdict(Interval(2.0, 0.25, 1e9)) == "better"
    assert verdict(Interval(-2.0, 0.25, 1e9), ("higher", "lower")) == "lower"
    assert verdict(Interval(0.9, 0.25, 1e9), unit=" points") == "within noise (could see 1.4 points)"
    assert verdict(over_seeds([3.0])) == "one seed"
    assert verdict(Interval(0.0, 0.0, 4)) == "equal"
    border = Interval(0.0, 0.25, 4)
    for half in (border.half, -border.half):
        assert verdict(border._replace(mean=half)).startswith("within noise"), "it ends at 0, which it holds"
    assert verdict(border._replace(mean=border.half * (1 + 1e-12))) == "better"


def test_values_that_are_none_and_tables_that_do_not_fit_are_refused():
    """NumPy would broadcast a table of one seed or one image over the other table."""
    for values in ([], [1.0, np.nan]):
        with pytest.raises(InputError, match=r"^values .*: give a finite number of each seed, one seed or more"):
            over_seeds(values)
    with pytest.raises(InputError, match=r"^table of shape \(3, 0\): give a table, a row of each seed"):
        over_seeds_and_images(np.ones((3, 0)))
    table = np.ones((3, 4))
    for base, seeds, images, message in (
        (table[:1], True, False, r"^head has 3 seeds, base 1: give same_seeds=False"),
        (table[:, :1], False, True, r"^head has 4 images, base 1: give same_images=False"),
        (table[:, :0], True, True, r"^base of shape \(3, 0\): give a table"),
    ):
        with pytest.raises(InputError, match=message):
            between_tables(table, base, same_seeds=seeds, same_images=images)
    with pytest.raises(InputError, match=r"^head has 1 seeds, base 3: give same_seeds=False"):
        between_tables(table[:1], table, same_seeds=True, same_images=False)
