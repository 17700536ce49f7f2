"""Share of an oracle's gain against the shares tried one by one, and in a study's table."""

import numpy as np
import pytest
from test_studies_papers import write_row

from annulus.evals.intervals import over_seeds_and_images
from annulus_lab.studies.shared.oracle_share import share_of_gain, with_shares
from annulus_lab.studies.shared.papers import comparison_table


def gains(share: float, seed: int, images: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Gains of a row and of an oracle for the same images and five seeds; the oracle gains a fifth."""
    random = np.random.default_rng(seed)
    base = random.random((5, images)) < 0.4
    luck = random.random((5, images))
    best = (luck < 0.33) & ~base
    row = (luck < 0.33 * share) & ~base
    return row.astype(np.int8), best.astype(np.int8)


def test_the_interval_holds_each_share_whose_rest_may_be_zero():
    gain, best = gains(0.4, 0)
    ratio, low, high = share_of_gain(gain, best)
    assert ratio == gain.sum() / best.sum()
    tried = np.arange(ratio - 0.3, ratio + 0.3, 0.001)
    rest = [over_seeds_and_images(gain - share * best) for share in tried]
    inside = [share for share, one in zip(tried, rest, strict=True) if abs(one.mean) <= one.half]
    assert (low, high) == pytest.approx((min(inside), max(inside)), abs=0.0011)


def test_it_holds_the_truth_in_about_95_percent_of_cases():
    hits = 0
    for seed in range(100):
        _, low, high = share_of_gain(*gains(0.4, seed))
        hits += low <= 0.4 <= high
    assert hits >= 90


def test_the_oracle_reaches_all_of_its_gain_and_none_is_shared_where_it_gains_nothing():
    gain, best = gains(0.4, 0)
    assert share_of_gain(best, best) == pytest.approx((1, 1, 1))
    assert share_of_gain(gain, best * 0) is None
    assert share_of_gain(gain, -best) is None


def test_a_table_has_the_share_of_each_row_over_its_base(tmp_path):
    for name, right in {"IR": (80, 90, 100), "RING": (84, 96, 104), "best": (100, 112, 118)}.items():
        rows = write_row(tmp_path, name, *right)
    methods = {row: {"row": row, "top1_percent": None} for row in ("IR", "RING", "best")}
    tables = {"a": {"base": "IR", "methods": methods}}
    lines = with_shares(comparison_table(tables, rows, "demo"), tables, rows, "best")
    assert [line["share_percent"] for line in lines] == ["", pytest.approx(100 * 14 / 60), pytest.approx(100)]
    assert lines[1]["share_low_percent"] < lines[1]["share_percent"] < lines[1]["share_high_percent"]
    assert lines[1]["knn_share_percent"] == pytest.approx(100 * 7 / 30)
