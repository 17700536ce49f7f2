"""Share of an oracle's gain that a row reaches, with an interval, in pairs of a seed and a test image."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from annulus.evals.intervals import Interval, over_seeds_and_images
from annulus.files.results import Number
from annulus_lab.studies.shared.outcomes import BySeed
from annulus_lab.studies.shared.papers import ACCURACY, KNN, StudyRows

FARTHEST = 1000.0  # shares beyond are not searched: the oracle's gain is then within noise
HALVINGS = 40  # of the distance to a border


def share_of_gain(
    gain: Shaped[np.ndarray, "s n"], best: Shaped[np.ndarray, "s n"]
) -> tuple[float, float, float] | None:
    """Ratio of two mean gains over one base, and its lowest and highest value; None if the oracle gains nothing.

    A share r is in the interval if the mean of gain - r best is within its own 95 % interval of 0. So both means may
    vary, and vary together.

    Source: Fieller 1954, "Some problems in interval estimation", Journal of the Royal Statistical Society B 16.
    """
    whole = over_seeds_and_images(best)
    if whole.half is None or whole.mean <= whole.half:
        return None
    ratio = float(gain.mean() / best.mean())

    def inside(share: float) -> bool:
        rest: Interval = over_seeds_and_images(gain - share * best)
        return rest.half is not None and abs(rest.mean) <= rest.half

    return ratio, _border(inside, ratio, -FARTHEST), _border(inside, ratio, FARTHEST)


def _border(inside: Callable[[float], bool], within: float, beyond: float) -> float:
    """Last share inside the interval, by bisection between `within` (inside) and `beyond` (outside)."""
    for _ in range(HALVINGS):
        middle = (within + beyond) / 2
        within, beyond = (middle, beyond) if inside(middle) else (within, middle)
    return within


def with_shares(
    table: Sequence[Mapping[str, Number]], tables: Mapping[str, Any], rows: StudyRows, oracle: str
) -> list[dict[str, Number]]:
    """Lines of a comparison, each with its share of the gain of the row `oracle` over the line's base, in percent."""
    lines = []
    for line in table:
        methods = tables[line["table"]]["methods"]
        entry = methods[line["method"]]
        row, base = entry["row"], methods[entry.get("base", tables[line["table"]]["base"])]["row"]
        shares: dict[str, Number] = {}
        for name, accuracy in (("share", ACCURACY), ("knn_share", KNN)):
            reached = None
            if row != base and rows.comparable(row, base) and rows.comparable(oracle, base):
                reached = share_of_gain(*_gains(rows, accuracy, row, oracle, base))
            names = (f"{name}_percent", f"{name}_low_percent", f"{name}_high_percent")
            values = [""] * 3 if reached is None else [100 * share for share in reached]
            shares |= zip(names, values, strict=True)
        lines.append(dict(line) | shares)
    return lines


def _gains(rows: StudyRows, accuracy: str, row: str, oracle: str, base: str) -> list[Shaped[np.ndarray, "s n"]]:
    """Tables of the gains of a row and of the oracle over the base, over the seeds that all three have."""
    bits: list[BySeed] = [rows[name][1][accuracy] for name in (row, oracle, base)]
    seeds = [seed for seed in bits[0] if seed in bits[1] and seed in bits[2]]
    head, best, under = (np.stack([by_seed[seed].astype(np.int8) for seed in seeds]) for by_seed in bits)
    return [head - under, best - under]
