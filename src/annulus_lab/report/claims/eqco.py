"""Claims of eqco: EqCo: Equivalent Rules for Self-supervised Contrastive Learning."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from annulus_lab.report.claims.claim import Claim
from annulus_lab.report.claims.rules import log
from annulus_lab.report.claims.selectors import Differences, MetricColumn, estimate, exact, spread

MOCO_V2 = "MoCo v2, all 1,024 keys"  # the series of cifar10_negatives/eqco-simo-256.csv
over_k = partial(estimate, "cifar10_negatives/eqco-moco.csv", by=["value"])
accuracy_at_k = partial(estimate, "cifar10_negatives/eqco-moco.csv", "linear_top1_percent")


def cifar10_gain(part: str, **rows: Any) -> MetricColumn:
    """Selects gains by linear probe, in points, over the base of a part of cifar10_negatives."""
    return estimate(f"cifar10_negatives/{part}.csv", "linear_gain_percent", **rows)


def estimates(by: Sequence[str] = ("information_nats",), **rows: Any) -> MetricColumn:
    """Selects a method's estimates on the Gaussians with their spread over seeds, sorted by `by`."""
    return spread("estimators/gaussians.csv", "estimate_nats", "std_over_seeds_nats", by=list(by), **rows)


CLAIMS = [
    Claim(
        "eqco.constant-in-k",
        "EqCo's estimate is nearly constant in the number of pairs; from 64 to 512 it moves at every information less "
        "than InfoNCE's.",
        lambda eqco_64, eqco_512, infonce_64, infonce_512: (
            abs(eqco_64 - eqco_512) < abs(infonce_512 - infonce_64)
        ).all(),
        where=["eqco.table9"],
        values={
            "eqco_64": estimates(method="EqCo", pairs=64),
            "eqco_512": estimates(method="EqCo", pairs=512),
            "infonce_64": estimates(method="InfoNCE", pairs=64),
            "infonce_512": estimates(method="InfoNCE", pairs=512),
        },
        tests=["test_bounds_eqco.py::test_the_eqco_estimate_hardly_depends_on_the_number_of_negatives"],
    ),
    Claim(
        "eqco.infonce-grows",
        "InfoNCE's estimate grows with the number of pairs, here from 64 to 512, at every information.",
        lambda k64, k512: (k512 > k64).all(),
        where=["eqco.table9"],
        values={
            "k64": estimates(method="InfoNCE", pairs=64),
            "k512": estimates(method="InfoNCE", pairs=512),
        },
    ),
    Claim(
        "eqco.infonce-ceiling",
        "InfoNCE is at most log K.",
        lambda infonce, pairs: (infonce <= log(pairs)).all(),
        where=["eqco.table9"],
        values={
            "infonce": estimates(method="InfoNCE", by=["pairs", "information_nats"]),
            "pairs": exact("estimators/gaussians.csv", "pairs", method="InfoNCE", by=["pairs", "information_nats"]),
        },
    ),
    Claim(
        "eqco.eqco-ceiling",
        "EqCo's estimate is at most log(1 + alpha).",
        lambda eqco, ceiling: (eqco <= ceiling).all(),
        where=["eqco.table9"],
        values={
            "eqco": estimates(method="EqCo", by=["pairs", "information_nats"]),
            "ceiling": exact(
                "estimators/gaussians.csv", "ceiling_nats", method="EqCo", by=["pairs", "information_nats"]
            ),
        },
        tests=[
            "test_bounds_eqco.py::test_a_margin_on_the_negatives_is_the_paper_s_on_the_positive_and_the_estimate_cpc_with_alpha_of_k"
        ],
    ),
    Claim(
        "eqco.large-information",
        "Where the information is large, 8 or 10 nats, EqCo with few pairs is far above InfoNCE.",
        lambda eqco, infonce: (eqco - infonce > 1).all(),
        where=["eqco.table9"],
        values={
            "eqco": estimates(method="EqCo", pairs=64, information_nats=[8, 10]),
            "infonce": estimates(method="InfoNCE", pairs=64, information_nats=[8, 10]),
        },
    ),
    Claim(
        "eqco.table9-values",
        "The 40 printed estimates of table 9 can be had again, within 0.1 nats on average and 0.25 at most.",
        where=["eqco.table9"],
        size=lambda difference: (abs(difference).mean() <= 0.1) & (abs(difference).max() <= 0.25),
        values={"difference": Differences("eqco.table9")},
    ),
    Claim(
        "eqco.margin-on-negatives",
        "The loss with margin tau log(alpha / K) is the one whose negatives are weighted by alpha / K (equations 5 "
        "and 10).",
        lambda with_margin, weighted: abs(with_margin - weighted) <= 0.000001,
        tests=[
            "test_bounds_eqco.py::test_a_margin_on_the_negatives_is_the_paper_s_on_the_positive_and_the_estimate_cpc_with_alpha_of_k"
        ],
    ),
    Claim(
        "eqco.gradient-bound",
        "The bound of the gradient's norm under EqCo is free of K, and every gradient is within it (Theorem 2).",
        lambda norm, bound: (norm <= bound).all(),
        tests=[
            "test_bounds_eqco.py::test_every_eqco_gradient_is_within_its_bound",
            "test_bounds_eqco.py::test_eqco_gradients_are_as_large_with_few_negatives_as_with_many_and_plain_ones_are_not",
        ],
    ),
    Claim(
        "eqco.linear-scaling",
        "A step with twice the queries and twice the learning rate equals, to first order, two steps; so accuracy "
        "stays the same up to four times the queries, here within a point.",
        lambda gain: (abs(gain) <= 1).all(),
        where=["eqco.table1"],
        size=lambda gain: gain.near(0, -0.1),
        dataset=["ImageNet"],
        values={
            "gain": cifar10_gain(
                "linear-scaling", series=["batches of 64", "batches of 128"], by=["series"], smallest=0.1
            )
        },
    ),
    Claim(
        "eqco.bound-in-training",
        "During MoCo's training the converged bound grows with K; with EqCo it is almost the same for all K.",
        lambda plain, eqco: (plain.first() < plain.last()) & (3 * eqco.range() < plain.range()),
        where=["eqco.fig1"],
        values={
            "plain": over_k("bound_nats", series="plain"),
            "eqco": over_k("bound_nats", series="EqCo"),
        },
    ),
    Claim(
        "eqco.moco-plain-drops",
        "Without EqCo the accuracy of MoCo drops clearly when K becomes very small, below 64; here 4 instead of 256.",
        lambda at_4, at_256: at_4 < at_256,
        where=["eqco.fig2"],
        values={
            "at_4": accuracy_at_k(series="plain", value=4),
            "at_256": accuracy_at_k(series="plain", value=256),
        },
    ),
    Claim(
        "eqco.moco-steady",
        "With EqCo the accuracy of MoCo stays steady over a wide range of K, from 64 up, here within a point of that "
        "with 256.",
        lambda at_64, at_256: abs(at_64 - at_256) <= 1,
        where=["eqco.fig2"],
        values={
            "at_64": accuracy_at_k(series="EqCo", value=64),
            "at_256": accuracy_at_k(series="EqCo", value=256),
        },
    ),
    Claim(
        "eqco.moco-limit",
        "For K of 16 or less MoCo degrades even with EqCo, here for 4 instead of 256.",
        lambda at_4, at_256: at_4 < at_256,
        where=["eqco.fig2"],
        values={
            "at_4": accuracy_at_k(series="EqCo", value=4),
            "at_256": accuracy_at_k(series="EqCo", value=256),
        },
    ),
    Claim(
        "eqco.simo-steady",
        "SiMo drops clearly at very small K without EqCo and is almost steady with it, here within a point.",
        lambda plain, eqco: (plain.first() < 0) & (abs(eqco) <= 1).all(),
        where=["eqco.fig3"],
        values={
            "plain": cifar10_gain("eqco-simo-256", series="plain", value=[4, 16], by=["value"]),
            "eqco": cifar10_gain("eqco-simo-256", series="EqCo", by=["value"]),
        },
    ),
    Claim(
        "eqco.gradient-steady",
        "Across K the norm of MoCo's gradient is steadier with EqCo than without (much steadier in the paper).",
        lambda plain, eqco: eqco.range() < plain.range(),
        where=["eqco.fig4"],
        values={
            "plain": over_k("gradient_mean_norm", series="plain"),
            "eqco": over_k("gradient_mean_norm", series="EqCo"),
        },
    ),
    Claim(
        "eqco.moco-gap",
        "From K = 65536 to 256 MoCo loses 6.1 points, with EqCo 0.2; the gap all but disappears.",
        lambda plain_drop, eqco_drop: plain_drop > eqco_drop,
        where=["eqco.text.moco_gap", "eqco.text.cited_intro"],
        size=lambda plain_drop, eqco_drop: plain_drop.near(6.1) & eqco_drop.near(0.2),
        dataset=["ImageNet"],
    ),
    Claim(
        "eqco.essential-with-few",
        "EqCo is essential especially when the number of negatives is small (Section 2.3); with the fewest it gains "
        "over plain MoCo and over plain SiMo.",
        lambda moco, simo, simo_plain: (moco.first() > 0) & (simo.first() > simo_plain.first()),
        where=["eqco.fig2", "eqco.fig3"],
        values={
            "moco": over_k("linear_gain_percent", series="EqCo"),  # over plain MoCo with as many negatives
            "simo": cifar10_gain("eqco-simo-256", series="EqCo", by=["value"]),
            "simo_plain": cifar10_gain("eqco-simo-256", series="plain", by=["value"]),
        },
    ),
    Claim(
        "eqco.simclr-alpha",
        "SimCLR improves when EqCo imitates sixteen times as many negatives as its batch has.",
        lambda gain: gain > 0,
        where=["eqco.text.simclr", "eqco.fig2"],
        size=lambda gain: gain.near(3.3),
        dataset=["ImageNet"],
        values={"gain": cifar10_gain("simclr-alpha", value=992)},
    ),
    Claim(
        "eqco.simo-few",
        "With EqCo, SiMo with a sixteenth of the negatives is as accurate as with all of its batch, and as MoCo v2 "
        "with a long queue, here within a point.",
        lambda few, many, moco: (few >= moco - 1) & (abs(few - many) <= 1),
        where=["eqco.table2"],
        values={
            "few": cifar10_gain("eqco-simo-256", series="EqCo", value=16),
            "many": cifar10_gain("eqco-simo-256", series="EqCo", value=255),
            "moco": cifar10_gain("eqco-simo-256", series=MOCO_V2, value=255),
        },
    ),
    Claim(
        "eqco.momentum",
        "The momentum of SiMo's key encoder helps: it is better than none.",
        lambda gain: gain > 0,
        where=["eqco.table3"],
        size=lambda gain: gain.near(2.3),
        dataset=["ImageNet"],
        values={"gain": cifar10_gain("simo-momentum", value=0.99)},
    ),
    Claim(
        "eqco.batch-norm",
        "SiMo needs synchronised batch-norm; shuffled it is worse (by 5.6 points in the paper).",
        lambda gain: gain > 0,
        where=["eqco.table4"],
        size=lambda gain: gain.near(5.6),
        dataset=["ImageNet"],
        values={"gain": cifar10_gain("simo-batch-norm", value="sync")},
    ),
    Claim(
        "eqco.alpha",
        "SiMo's accuracy tends to improve with alpha, up to 256 times its negatives in the paper, and drops slightly "
        "beyond.",
        lambda gain, beyond: (gain.max() > 0) & (beyond < gain.max()),
        where=["eqco.table5"],
        values={
            "gain": cifar10_gain("simo-alpha", value=[256, 4096], by=["value"], smallest=0.1),
            "beyond": cifar10_gain("simo-alpha", value=65536, smallest=0.1),
        },
    ),
    Claim(
        "eqco.moco-k",
        "MoCo improves with K and descends again for the largest.",
        lambda shortest, between, longest: (shortest < between.max()) & (longest < between.max()),
        where=["eqco.table6"],
        values={
            "shortest": cifar10_gain("moco-queue", value=64),
            "between": cifar10_gain("moco-queue", value=[256, 1024], by=["value"]),
            "longest": cifar10_gain("moco-queue", value=4096),
        },
    ),
    Claim(
        "eqco.wider",
        "Wider models are better, and a larger alpha still helps them.",
        lambda alpha_256, alpha_65536: alpha_256.rising() & alpha_65536.rising() & (alpha_65536 > alpha_256).all(),
        where=["eqco.table7"],
    ),
    Claim(
        "eqco.detection",
        "SiMo transfers to detection on COCO as well as MoCo v2 and supervised pretraining, within 0.5 AP.",
        lambda simo, moco, supervised: (abs(simo - moco) <= 0.5) & (abs(simo - supervised) <= 0.5),
        where=["eqco.table8"],
    ),
]
