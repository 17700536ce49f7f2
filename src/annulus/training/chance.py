"""Warning about a training that ends near chance."""

from collections.abc import Mapping, Sequence

from annulus.files.results import Number

STILL = 0.01  # nats: a smaller change of the loss, from the first epoch to the last, counts as none


def near_chance(histories: Mapping[int, Sequence[Mapping[str, Number]]]) -> str | None:
    """Sentence that names the seeds that end near chance, with a way out; None without such a seed.

    `histories`: for each seed, one row per epoch with `loss_nats` and `bound_nats`. Scores by chance have a bound of 0
    nats or less. A seed whose loss changes by less than `STILL` counts too. This is not a proof: hard negatives also
    lower the bound of an encoder that has learned.

    Source: Wu et al. 2020, arXiv:2010.02037, Theorem 3.1 (the bound under a ring is looser).

    >>> rows = [{"loss_nats": 2.88, "bound_nats": -0.05}, {"loss_nats": 2.95, "bound_nats": -0.12}]
    >>> near_chance({0: rows})[:73]
    'seed 0 ends near chance: bound -0.12 nats (0 by chance), loss 2.88 to 2.9'
    >>> near_chance({0: [rows[0], {"loss_nats": 1.38, "bound_nats": 1.45}]})
    """
    still = {seed: (rows[0], rows[-1]) for seed, rows in histories.items() if rows and _still(rows)}
    if not still:
        return None
    first, last = next(iter(still.values()))
    seeds = ", ".join(map(str, still))
    ending = f"seeds {seeds} end" if len(still) > 1 else f"seed {seeds} ends"
    return (
        f"{ending} near chance: bound {last['bound_nats']:.2f} nats (0 by chance), loss "
        f"{first['loss_nats']:.2f} to {last['loss_nats']:.2f} nats from first epoch to last. With hard "
        "negatives (ball, ring, cave) an encoder may have learned all the same: compare its kNN with sampler: "
        "uniform. Otherwise raise scales.SCALE.pretrain.epochs (few images make few steps), or "
        "learning_rate"
    )


def _still(rows: Sequence[Mapping[str, Number]]) -> bool:
    unmoved = len(rows) > 1 and abs(rows[-1]["loss_nats"] - rows[0]["loss_nats"]) < STILL
    return rows[-1]["bound_nats"] <= 0 or unmoved
