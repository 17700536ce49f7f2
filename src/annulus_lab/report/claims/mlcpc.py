"""Claims of mlcpc: Multi-label Contrastive Predictive Coding."""

from functools import partial

from annulus_lab.report.claims.claim import Claim
from annulus_lab.report.claims.rules import constant, largest, log
from annulus_lab.report.claims.selectors import Differences, estimate, exact, spread

# Selectors that several claims use.
SEPARABLE = "estimators/staircase-separable_levels.csv"
JOINT = "estimators/staircase-joint_levels.csv"
binary = partial(exact, "estimators/binary.csv", by=["m"])
staircase = partial(spread, SEPARABLE, "estimate_nats", "estimate_std_over_seeds_nats")
joint_staircase = partial(spread, JOINT, "estimate_nats", "estimate_std_over_seeds_nats")
ideal = partial(exact, "estimators/ideal.csv", series="ML-CPC, alpha 0.00787353", by=["information_nats"])
gain_over_alone = partial(estimate, "cifar10_distillation/table.csv", "gain_percent", by=["pair"])
gain_over_crd = partial(estimate, "cifar10_distillation/table.csv", "crd_gain_percent", by=["pair"])
curriculum_gain = partial(
    estimate, "cifar10_negatives/curriculum-length.csv", "linear_gain_percent", series="alpha from 10 to 0.1"
)
gain_here = partial(estimate, "cifar10_algorithms/table.csv", "here_gain_percent", table="mlcpc.table3a")  # over CPC
paired_gain = partial(estimate, "cifar10_algorithms/pairs.csv", "gain_percent")

CLAIMS = [
    Claim(
        "mlcpc.cpc-bound",
        "CPC is at most the mutual information for every critic, and at most log m (Theorem 1).",
        lambda cpc, information, m: (cpc <= information).all() & (cpc <= log(m)).all(),
        where=["mlcpc.fig1"],
        values={
            "cpc": binary("value_nats", bound="CPC", alpha=1.0),
            "information": binary("information_nats", bound="CPC", alpha=1.0),
            "m": binary("m", bound="CPC", alpha=1.0),
        },
        tests=["test_bounds.py::test_no_estimate_exceeds_its_ceiling"],
    ),
    Claim(
        "mlcpc.alpha-cpc-exceeds",
        "CPC with its positive weighted by alpha = 0.5 exceeds the mutual information of the binary example, log 2, "
        "so it is no lower bound.",
        lambda cpc, information: (cpc > information).any(),
        where=["mlcpc.fig1", "mlcpc.text.example1"],
        values={
            "cpc": binary("value_nats", bound="CPC", alpha=0.5),
            "information": binary("information_nats", bound="CPC", alpha=0.5),
        },
        tests=[
            "test_bounds_theorems.py::test_the_binary_example_has_the_values_of_the_table_which_exceed_the_information_below_the_lowest_alpha"
        ],
    ),
    Claim(
        "mlcpc.example1",
        "In the binary example with n = m = 3 and alpha = 0.5 the value is about 0.72 against 0.69 nats of "
        "information.",
        where=["mlcpc.text.example1"],
        size=lambda difference: (abs(difference) <= 0.005).all(),
        values={"difference": Differences("mlcpc.text.example1")},
        tests=[
            "test_bounds_theorems.py::test_the_binary_example_has_the_values_of_the_table_which_exceed_the_information_below_the_lowest_alpha"
        ],
    ),
    Claim(
        "mlcpc.mlcpc-below",
        "ML-CPC with the smallest proven alpha, m / (n (m - 1) + 1), stays below the information of the binary "
        "example for every m.",
        lambda mlcpc, information: (mlcpc <= information).all(),
        where=["mlcpc.fig1"],
        values={
            "mlcpc": binary("value_nats", bound="ML-CPC", alpha="lowest"),
            "information": binary("information_nats", bound="ML-CPC", alpha="lowest"),
        },
        tests=[
            "test_bounds_theorems.py::test_cpc_from_1_and_mlcpc_from_alpha_m_n_to_m_are_lower_bounds_and_below_exceed_by_no_more_than_is_said"
        ],
    ),
    Claim(
        "mlcpc.less-bias",
        "ML-CPC at its smallest proven alpha has much lower bias than CPC, here less than half for every m.",
        lambda mlcpc, cpc: (2 * abs(mlcpc) < abs(cpc)).all(),
        where=["mlcpc.fig2"],
        values={
            "mlcpc": binary("bias_nats", bound="ML-CPC", alpha="lowest"),
            "cpc": binary("bias_nats", bound="CPC", alpha=1.0),
        },
    ),
    Claim(
        "mlcpc.more-variance",
        "For that it has a slightly higher variance, here by at most 0.2 nats squared for any m.",
        lambda mlcpc, cpc: (mlcpc > cpc).all() & ((mlcpc - cpc).max() <= 0.2),
        where=["mlcpc.fig2"],
        values={
            "mlcpc": binary("variance", bound="ML-CPC", alpha="lowest"),
            "cpc": binary("variance", bound="CPC", alpha=1.0),
        },
    ),
    Claim(
        "mlcpc.staircase-capped",
        "With alpha = 1 both estimates of the staircase are capped at log m, here log 128.",
        lambda cpc, mlcpc, ceiling: (
            (cpc <= ceiling).all() & (mlcpc <= ceiling).all() & (ceiling.max() <= log(128) + 0.001)
        ),
        where=["mlcpc.fig3"],
        values={
            "cpc": staircase(bound="CPC", alpha=1.0, by=["information_nats"]),
            "mlcpc": staircase(bound="ML-CPC", alpha=1.0, by=["information_nats"]),
            "ceiling": exact(SEPARABLE, "ceiling_nats", bound="CPC", alpha=1.0, by=["information_nats"]),
        },
    ),
    Claim(
        "mlcpc.staircase-lifted",
        "A smaller alpha lifts the cap; at 10 nats ML-CPC exceeds log m and stays below the information.",
        lambda mlcpc, m_ceiling: (largest(m_ceiling - mlcpc, mlcpc - 10) < 0).any(),
        where=["mlcpc.fig3"],
        values={
            "mlcpc": staircase(bound="ML-CPC", information_nats=10, by=["alpha"]),
            "m_ceiling": exact(SEPARABLE, "ceiling_nats", bound="ML-CPC", alpha=1.0, information_nats=10),
        },
    ),
    Claim(
        "mlcpc.staircase-cpc-exceeds",
        "With a smaller alpha the CPC estimate is not a lower bound; on the staircase it exceeds the information.",
        lambda cpc, information: (cpc > information).any(),
        where=["mlcpc.fig3"],
        values={
            "cpc": staircase(bound="CPC", by=["alpha", "information_nats"]),
            "information": exact(SEPARABLE, "information_nats", bound="CPC", by=["alpha", "information_nats"]),
        },
    ),
    Claim(
        "mlcpc.staircase-mlcpc-below",
        "ML-CPC generally stays a lower bound on the staircase, here in nine of ten cases at least.",
        lambda mlcpc, information: (mlcpc <= information).share() >= 0.9,
        where=["mlcpc.fig3"],
        values={
            "mlcpc": staircase(bound="ML-CPC", by=["alpha", "information_nats"]),
            "information": exact(SEPARABLE, "information_nats", bound="ML-CPC", by=["alpha", "information_nats"]),
        },
    ),
    Claim(
        "mlcpc.staircase-trade",
        "A smaller alpha of ML-CPC reduces bias at the cost of variance.",
        lambda mlcpc, std: (abs(mlcpc.first() - 10) < abs(mlcpc.last() - 10)) & (std.first() > std.last()),
        where=["mlcpc.fig3"],
        values={
            "mlcpc": staircase(bound="ML-CPC", information_nats=10, by=["alpha"]),
            "std": spread(
                *(SEPARABLE, "std_nats", "std_std_over_seeds_nats"), bound="ML-CPC", information_nats=10, by=["alpha"]
            ),
        },
    ),
    Claim(
        "mlcpc.staircase-joint",
        "The joint critic shows the same; alpha = 1 is capped, a smaller alpha lifts ML-CPC above log m, where it "
        "generally stays a lower bound.",
        lambda mlcpc, information, at_1, m_ceiling: (
            (at_1.max() <= m_ceiling) & (mlcpc.max() > m_ceiling) & ((mlcpc <= information).share() >= 0.9)
        ),
        where=["mlcpc.fig3"],
        values={
            "mlcpc": joint_staircase(bound="ML-CPC", by=["alpha", "information_nats"]),
            "information": exact(JOINT, "information_nats", bound="ML-CPC", by=["alpha", "information_nats"]),
            "at_1": joint_staircase(bound="ML-CPC", alpha=1.0, by=["information_nats"]),
            "m_ceiling": exact(JOINT, "ceiling_nats", bound="ML-CPC", alpha=1.0, information_nats=10),
        },
    ),
    Claim(
        "mlcpc.walltime",
        "ML-CPC costs no more time than CPC; 200 updates take 1.14 against 1.15 seconds.",
        lambda ratio: ratio <= 1.05,
        where=["mlcpc.text.walltime"],
        values={"ratio": exact("benchmarks/estimators.json", "mlcpc_over_cpc")},
    ),
    Claim(
        "mlcpc.many-dimensions",
        "A thousand Gaussian dimensions with correlation 0.2 share about 20.5 nats, for which CPC needs more than "
        "400 million classes.",
        lambda information, classes: (abs(information - 20.5) <= 0.15) & (classes > 400000000),
        where=["mlcpc.text.gauss1000"],
        values={
            "information": exact("estimators/theorems.json", "gauss1000_information_nats"),
            "classes": exact("estimators/theorems.json", "gauss1000_needed_classes"),
        },
    ),
    Claim(
        "mlcpc.ceilings",
        "The weighted objectives are at most log(m / alpha), which for ML-CPC at the smallest proven alpha is log(n "
        "(m - 1) + 1).",
        lambda estimate, ceiling: (estimate <= ceiling).all(),
        where=["mlcpc.fig3"],
        values={
            "estimate": staircase(bound=["CPC", "ML-CPC"], by=["bound", "alpha", "information_nats"]),
            "ceiling": exact(
                SEPARABLE, "ceiling_nats", bound=["CPC", "ML-CPC"], by=["bound", "alpha", "information_nats"]
            ),
        },
        tests=[
            "test_bounds.py::test_the_ceilings_that_the_papers_state",
            "test_bounds_theorems.py::test_at_the_smallest_alpha_the_ceiling_is_log_of_all_candidates_of_one_query",
        ],
    ),
    Claim(
        "mlcpc.mlcpc-bound",
        "ML-CPC is a lower bound of the mutual information for every critic and every alpha from m / (n (m - 1) + 1)"
        " to 1 (Theorem 2), here with the ideal critic and the smallest alpha.",
        lambda mlcpc, error, information: (mlcpc - (3 * error) <= information).all(),
        values={
            "mlcpc": ideal("estimate_nats"),
            "error": ideal("error_nats"),
            "information": ideal("information_nats"),
        },
        tests=[
            "test_bounds_theorems.py::test_cpc_from_1_and_mlcpc_from_alpha_m_n_to_m_are_lower_bounds_and_below_exceed_by_no_more_than_is_said"
        ],
    ),
    Claim(
        "mlcpc.cpc-excess",
        "The expectation inside alpha-CPC is at most 1 / alpha below 1 and at most 1 from 1 to m / 2 (Propositions 1"
        " and 2), so alpha-CPC exceeds the information by at most log(1 / alpha).",
        lambda expectation, largest: (expectation <= largest).all(),
        tests=[
            "test_bounds_theorems.py::test_the_expectation_behind_the_cpc_bounds_is_at_most_the_larger_of_1_and_1_over_alpha",
            "test_bounds_theorems.py::test_cpc_from_1_and_mlcpc_from_alpha_m_n_to_m_are_lower_bounds_and_below_exceed_by_no_more_than_is_said",
        ],
    ),
    Claim(
        "mlcpc.critic-scale",
        "CPC stays the same when the critic is scaled per query, ML-CPC only when it is scaled as a whole, so it "
        "compares any positive pair with any negative one.",
        lambda cpc_change, mlcpc_change: (abs(cpc_change) <= 0.000001) & (abs(mlcpc_change) > 0.001),
        tests=["test_bounds_theorems.py::test_a_critic_may_be_scaled_per_query_for_cpc_but_only_as_a_whole_for_mlcpc"],
    ),
    Claim(
        "mlcpc.algorithm1",
        "Minimising the divergence of Algorithm 1 maximises ML-CPC; the two differ by log(m / alpha).",
        lambda divergence, ceiling, mlcpc: abs(divergence - (ceiling - mlcpc)) <= 0.000001,
        tests=["test_bounds.py::test_every_loss_and_ceiling_is_that_of_the_plain_loop"],
    ),
    Claim(
        "mlcpc.distillation",
        "Distillation with CPC or ML-CPC at a small alpha outperforms CRD in 10 of 13 pairs of networks, or as many.",
        lambda cpc, mlcpc, mlcpc_smaller: (largest(cpc, mlcpc, mlcpc_smaller) > 0).share() >= constant(10) / 13,
        where=["mlcpc.table1", "mlcpc.table2"],
        values={
            "cpc": gain_over_crd(method="alpha-CPC", alpha=0.1),
            "mlcpc": gain_over_crd(method="alpha-ML-CPC", alpha=0.05),
            "mlcpc_smaller": gain_over_crd(method="alpha-ML-CPC", alpha=0.01),
        },
    ),
    Claim(
        "mlcpc.distillation-alpha-1",
        "With alpha = 1 both are generally inferior to CRD.",
        lambda cpc, mlcpc: (cpc.mean() < 0) & (mlcpc.mean() < 0),
        where=["mlcpc.table1", "mlcpc.table2", "mlcpc.fig4"],
        values={
            "cpc": gain_over_crd(loss="cpc-1"),
            "mlcpc": gain_over_crd(loss="mlcpc-1"),
        },
    ),
    Claim(
        "mlcpc.distillation-alpha",
        "Over alpha, distillation is best at about 0.01 to 0.05, there above CRD, with ML-CPC slightly above CPC.",
        lambda at_001, at_005, at_01, at_02, at_05, at_1, cpc_001, cpc_005: (
            (largest(at_001.mean(), at_005.mean()) > largest(at_01.mean(), at_02.mean(), at_05.mean(), at_1.mean()))
            & (largest(at_001.mean(), at_005.mean()) > 0)
            & (largest(at_001.mean(), at_005.mean()) > largest(cpc_001.mean(), cpc_005.mean()))
        ),
        where=["mlcpc.fig4"],
        values={
            "at_001": gain_over_crd(method="alpha-ML-CPC", alpha=0.01),
            "at_005": gain_over_crd(method="alpha-ML-CPC", alpha=0.05),
            "at_01": gain_over_crd(method="alpha-ML-CPC", alpha=0.1),
            "at_02": gain_over_crd(method="alpha-ML-CPC", alpha=0.2),
            "at_05": gain_over_crd(method="alpha-ML-CPC", alpha=0.5),
            "at_1": gain_over_crd(method="alpha-ML-CPC", alpha=1.0),
            "cpc_001": gain_over_crd(method="alpha-CPC", alpha=0.01),
            "cpc_005": gain_over_crd(method="alpha-CPC", alpha=0.05),
        },
    ),
    Claim(
        "mlcpc.distillation-helps",
        "A student that learns from its teacher too, by CRD or by ML-CPC at a small alpha, is better than the "
        "student alone.",
        lambda crd, mlcpc: (crd > 0).all() & (mlcpc > 0).all(),
        where=["mlcpc.table1", "mlcpc.table2"],
        values={
            "crd": gain_over_alone(loss="crd"),
            "mlcpc": gain_over_alone(loss="mlcpc-005"),
        },
    ),
    Claim(
        "mlcpc.beats-cpc",
        "ML-CPC with alpha = 1 already outperforms CPC on CIFAR10, with 200 epochs.",
        lambda gain: gain > 0,
        where=["mlcpc.table3a"],
        size=lambda gain: gain.near(0.33),
        dataset=["CIFAR10"],
        values={"gain": gain_here(method="J_1.0 to J_1.0", smallest=0.33)},
    ),
    Claim(
        "mlcpc.curriculum",
        "A curriculum of alpha from 10 to 0.1 improves CIFAR10 with 200 epochs (by almost 2.5 points; the table prints "
        "2.9).",
        lambda gain: gain > 0,
        where=["mlcpc.table3a"],
        size=lambda gain: gain.near(2.88),
        dataset=["CIFAR10"],
        values={"gain": gain_here(method="J_10.0 to J_0.1")},
    ),
    Claim(
        "mlcpc.curriculum-range",
        "The wider the curriculum's range of alpha, the better, with 200 epochs.",
        lambda to_2_gain, to_5_gain, to_10_gain: (to_2_gain > 0) & (to_5_gain > 0) & (to_10_gain > 0),
        where=["mlcpc.table3a"],
        size=lambda to_2_gain, to_5_gain, to_10_gain: (
            to_2_gain.near(0.7) & to_5_gain.near(1.21) & to_10_gain.near(0.64)
        ),
        dataset=["CIFAR10"],
        values={
            "to_2_gain": paired_gain(row="ML-CPC-2", base="ML-CPC-1"),
            "to_5_gain": paired_gain(row="ML-CPC-5", base="ML-CPC-2"),
            "to_10_gain": paired_gain(row="ML-CPC-10", base="ML-CPC-5"),
        },
    ),
    Claim(
        "mlcpc.curriculum-short",
        "The curriculum helps most when training is short; its gain falls from 200 to 1000 epochs.",
        lambda gain: gain.first() > gain.last(),
        where=["mlcpc.table3a"],
        size=lambda gain: gain.near(2.88, 0.18, 0.66),
        dataset=["CIFAR10"],
        values={"gain": curriculum_gain(by=["value"], smallest=0.18)},
    ),
    Claim(
        "mlcpc.curriculum-cifar100",
        "On CIFAR100 too the curriculum from 10 to 0.1 improves (by almost 2.5 points with 200 epochs).",
        lambda gain: gain > 0,
        where=["mlcpc.table3b"],
        values={"gain": gain_here(method="J_10.0 to J_0.1")},
    ),
    Claim(
        "mlcpc.curriculum-imagenet",
        "With 30 epochs of ImageNet the curricula improve on CPC too.",
        lambda gain: (gain > 0).all(),
        where=["mlcpc.table4"],
        values={
            "gain": gain_here(
                method=["J_2.0 to J_0.5", "J_5.0 to J_0.2", "J_10.0 to J_0.1"], by=["method"], smallest=0.07
            )
        },
    ),
]
