"""Claims of ring: Conditional Negative Sampling for Contrastive Learning of Visual Representations."""

from functools import partial

from annulus_lab.report.claims.claim import Claim
from annulus_lab.report.claims.mutualinfo import UNSEEN, toy
from annulus_lab.report.claims.rules import largest, smallest
from annulus_lab.report.claims.selectors import estimate, exact
from annulus_lab.report.claims.truth import SMALLEST_PRECISION

# Selectors that several claims use.
PIECES = "cifar10/pieces/table.csv"
CELLS = ["coco box_ap", "coco mask_ap", "keypoints keypoint_ap", "voc box_ap"]
paired_gain = partial(estimate, "cifar10_algorithms/pairs.csv", "gain_percent")
gain_here = partial(estimate, "cifar10_algorithms/table.csv", "here_gain_percent")
bias_nats = partial(estimate, "cifar10_negatives/estimates.csv", "bias_nats", by=["k"])
std_nats = partial(estimate, "cifar10_negatives/estimates.csv", "std_nats", by=["k"])
gain_by_start = partial(estimate, "cifar10_negatives/start.csv", "nn1_gain_percent")
accuracy_over_training = partial(estimate, "cifar10_negatives/annealing_figure.csv", "nn1_top1_percent", by=["x"])
kept_over_training = partial(estimate, "cifar10_negatives/annealing_figure.csv", "kept_percent", by=["x"])
linear_transfer = partial(estimate, "cifar10_transfer/gains.csv", "linear_gain_percent")
few_shot_transfer = partial(estimate, "cifar10_transfer/gains.csv", "few_shot_gain_percent")
detection = partial(estimate, "detection/table.csv", by=["cell"], smallest=SMALLEST_PRECISION)
detection_gain = partial(
    estimate, "detection/further_gains.csv", "gain_percent", cell=CELLS, by=["cell"], smallest=SMALLEST_PRECISION
)

CLAIMS = [
    Claim(
        "ring.cnce-order",
        "CNCE is at most NCE, which is at most the mutual information (Theorem 3.1; here the first by less than "
        "0.001 nats above the second).",
        lambda cnce, nce, information: (cnce - nce <= 0.001).all() & (nce <= information),
        where=["ring.table5"],
        values={
            "cnce": toy("CNCE", by=["percent_closest"]),
            "nce": toy("NCE"),
            "information": exact("estimators/conditional.csv", "information_nats", **UNSEEN, method="NCE"),
        },
        tests=[
            "test_negatives_theorems.py::test_a_ball_bounds_information_no_higher_than_all_negatives_for_every_critic",
            "test_bounds_theorems.py::test_with_the_ideal_critic_close_negatives_lower_the_estimate_and_far_ones_lift_it_above_the_information",
        ],
    ),
    Claim(
        "ring.table5-falls",
        "The estimate falls as the lower percentile of similarity rises; at 95 it is below that at 10 (here at a tenth "
        "of the printed rate, after uniform negatives).",
        lambda at_95, at_10: at_95 < at_10,
        where=["ring.table5"],
        values={
            "at_95": toy("CNCE", percent_closest=5),
            "at_10": toy("CNCE", percent_closest=90),
        },
    ),
    Claim(
        "ring.table5-nce",
        "On the two-dimensional toy NCE gives 0.01345 of the 0.02041 nats, here on points that the encoders did not "
        "train on (an estimate on those trained on is higher).",
        where=["ring.table5"],
        size=lambda nce: nce.near(0.01345),
        values={"nce": toy("NCE")},
    ),
    Claim(
        "ring.bias-variance",
        "CNCE is more biased than NCE and has in return the lower variance (Theorem 3.2), with a known density ratio.",
        lambda nce_bias, cnce_bias, nce_variance, cnce_variance: (
            (abs(nce_bias) <= abs(cnce_bias)) & (nce_variance >= cnce_variance)
        ),
        where=["ring.appC"],
        values={
            "nce_bias": exact("estimators/theorems.json", "thm32_bias_nce_nats"),
            "cnce_bias": exact("estimators/theorems.json", "thm32_bias_cnce_nats"),
            "nce_variance": exact("estimators/theorems.json", "thm32_variance_nce"),
            "cnce_variance": exact("estimators/theorems.json", "thm32_variance_cnce"),
        },
        tests=["test_estimators_spread.py::test_cnce_is_below_nce_and_varies_less_and_nce_less_with_more_negatives"],
    ),
    Claim(
        "ring.bias-variance-trained",
        "So it is with a trained encoder held fixed, for every number of negatives.",
        lambda nce_bias, ball_bias, ring_bias, nce_std, ball_std, ring_std: (
            (abs(nce_bias) < smallest(abs(ball_bias), abs(ring_bias))).all()
            & (largest(ball_std, ring_std) < nce_std).all()
        ),
        where=["ring.appC"],
        values={
            "nce_bias": bias_nats(series="NCE"),
            "ball_bias": bias_nats(series="CNCE, ball"),
            "ring_bias": bias_nats(series="CNCE, ring"),
            "nce_std": std_nats(series="NCE"),
            "ball_std": std_nats(series="CNCE, ball"),
            "ring_std": std_nats(series="CNCE, ring"),
        },
    ),
    Claim(
        "ring.unrestricted-breaks",
        "Negatives from any distribution whatever break the bound; independent variables get an estimate above zero "
        "(Appendix A.1), though at most log k and not infinity.",
        lambda estimate, ceiling: estimate.between(0.1, at_most=ceiling),
        values={
            "estimate": exact("estimators/theorems.json", "a1_independent_estimate_nats"),
            "ceiling": exact("estimators/theorems.json", "ceiling_nats"),
        },
        tests=[
            "test_bounds_theorems.py::test_with_the_ideal_critic_close_negatives_lower_the_estimate_and_far_ones_lift_it_above_the_information"
        ],
    ),
    Claim(
        "ring.condition",
        "The threshold must lie above the mean of the density ratio; a ring above it stays at or below NCE, a ring "
        "at low similarity exceeds NCE.",
        lambda nce, low_ring, high_ring: (low_ring > nce) & (high_ring <= nce),
        values={
            "nce": exact("estimators/theorems.json", "ring_nce_nats"),
            "low_ring": exact("estimators/theorems.json", "ring_exceeding_nats"),
            "high_ring": exact("estimators/theorems.json", "ring_condition_nats"),
        },
        tests=[
            "test_negatives_theorems.py::test_a_ring_at_low_similarity_exceeds_the_bound_of_all_negatives",
            "test_bounds_theorems.py::test_with_the_ideal_critic_close_negatives_lower_the_estimate_and_far_ones_lift_it_above_the_information",
        ],
    ),
    Claim(
        "ring.whole-is-ir",
        "A ring of everything, from percentile 0 to 100, is IR.",
        lambda ring, ir: abs(ring - ir) <= 0.000001,
        tests=["test_negatives_samplers.py::test_ball_and_ring_of_the_whole_memory_are_uniform_draw_for_draw"],
    ),
    Claim(
        "ring.la-form",
        "LA in the form of equation 5 is the difference of two logsumexps, up to the logarithms of the sets' sizes.",
        lambda la, logsumexps, sizes: abs(la - logsumexps - sizes) <= 0.000001,
        tests=["test_bounds_theorems.py::test_la_is_ring_eq_5_up_to_the_sizes_of_the_sets"],
    ),
    Claim(
        "ring.beats-ir",
        "Ring negatives improve IR on CIFAR10, by 2.7 points.",
        lambda gain: gain > 0,
        where=["ring.table1a"],
        size=lambda gain: gain.near(2.7),
        dataset=["CIFAR10"],
        values={"gain": gain_here(table="ring.table1a", method="IRing")},
    ),
    Claim(
        "ring.beats-ir-longer",
        "On all of CIFAR-10, with a ResNet-18, 100 epochs and temperature 0.2 in place of 0.07, ring negatives improve "
        "IR.",
        lambda gain: gain > 0,
        where=["ring.table1a"],
        ours=True,
        values={"gain": estimate(PIECES, "here_gain_percent", table="ring.table1a", method="IRing")},
    ),
    Claim(
        "ring.accuracy-longer",
        "IR on all of CIFAR-10, with a ResNet-18, 100 epochs and temperature 0.2, reaches 80 % by a linear probe (81.2 "
        "in the paper, of images of 256 pixels a side).",
        lambda accuracy: accuracy > 80,
        where=["ring.table1a"],
        ours=True,
        values={"accuracy": estimate(PIECES, "here_percent", table="ring.table1a", method="IR")},
    ),
    Claim(
        "ring.beats-cmc",
        "Ring negatives improve CMC on CIFAR10, by 2.0 points.",
        lambda gain: gain > 0,
        where=["ring.table1a"],
        size=lambda gain: gain.near(2.0),
        dataset=["CIFAR10"],
        values={"gain": gain_here(table="ring.table1a", method="CMCRing")},
    ),
    Claim(
        "ring.beats-moco",
        "Ring negatives improve MoCo on CIFAR10, by 3.0 points.",
        lambda gain: gain > 0,
        where=["ring.table1a"],
        size=lambda gain: gain.near(3.0),
        dataset=["CIFAR10"],
        values={"gain": gain_here(table="ring.table1a", method="MoCoRing")},
    ),
    Claim(
        "ring.beats-la",
        "CMCRing and MoCoRing outperform LA on CIFAR10, IRing equals it.",
        lambda cmcring_gain, mocoring_gain, iring_gain: (cmcring_gain > 0) & (mocoring_gain > 0) & (iring_gain >= 0),
        where=["ring.table1a"],
        size=lambda cmcring_gain, mocoring_gain, iring_gain: (
            cmcring_gain.near(3.7) & mocoring_gain.near(2.2) & iring_gain.near(0.0)
        ),
        dataset=["CIFAR10"],
        values={
            "cmcring_gain": paired_gain(row="RING-Lab+anneal", base="LA-nce"),
            "mocoring_gain": paired_gain(row="MoCoRing", base="LA-nce"),
            "iring_gain": paired_gain(row="RING+anneal", base="LA-nce"),
        },
    ),
    Claim(
        "ring.every-dataset",
        "The Ring variant outperforms its base for every model on CIFAR100, STL10 and ImageNet too (the printed "
        "CMCRing equals CMC on CIFAR100).",
        lambda gain: (gain > 0).all(),
        where=["ring.table1b", "ring.table1c", "ring.table1d"],
        values={"gain": gain_here(table="ring.table1a", method=["IRing", "CMCRing", "MoCoRing"], by=["method"])},
    ),
    Claim(
        "ring.annealing-matters",
        "Without annealing IRing falls back, almost to IR, on CIFAR10.",
        lambda gain: gain > 0,
        where=["ring.table2a"],
        size=lambda gain: gain.near(2.5),
        dataset=["CIFAR10"],
        values={"gain": paired_gain(row="RING+anneal", base="RING")},
    ),
    Claim(
        "ring.hole-matters",
        "Without the hole, with the closest rows as negatives too, IRing is less accurate on CIFAR10.",
        lambda gain: gain > 0,
        where=["ring.table2a"],
        size=lambda gain: gain.near(1.8),
        dataset=["CIFAR10"],
        values={"gain": paired_gain(row="RING+anneal", base="BALL+anneal")},
    ),
    Claim(
        "ring.annealing-matters-more",
        "Of the two lesions the missing annealing costs more.",
        lambda gain: gain < 0,
        where=["ring.table2a"],
        size=lambda gain: gain.near(-0.7),
        dataset=["CIFAR10"],
        values={"gain": paired_gain(row="RING", base="BALL+anneal")},
    ),
    Claim(
        "ring.lesions-imagenet",
        "On ImageNet too both lesions cost accuracy (there, not on CIFAR10, IRing without annealing is even below IR).",
        lambda annealing_gain, hole_gain: (annealing_gain > 0) & (hole_gain > 0),
        where=["ring.table2b"],
        values={
            "annealing_gain": paired_gain(row="RING+anneal", base="RING"),
            "hole_gain": paired_gain(row="RING+anneal", base="BALL+anneal"),
        },
    ),
    Claim(
        "ring.aggressive-early",
        "Being too aggressive with negatives early in training ends in poor optima; a ring annealed to ends better "
        "than one held fixed.",
        lambda gain: gain > 0,
        where=["ring.table2a", "ring.table2b"],
        values={"gain": paired_gain(row="RING+anneal", base="RING")},
    ),
    Claim(
        "ring.transfer-datasets",
        "Features learned with Ring transfer as well as or better than their base's to image sets that they never saw, "
        "on average better and to none worse by more than 0.5 points (to nine sets, by 0.5 to 2, in the paper).",
        lambda gain: (gain.mean() > 0) & (gain > -0.5).all(),
        where=["ring.table3"],
        values={"gain": linear_transfer(over="uniform", by=["target"])},
    ),
    Claim(
        "ring.transfer-new",
        "Encoders that trained with a ring of negatives transfer better than those with uniform ones to most image "
        "sets that they never saw, by a linear probe.",
        lambda gain: (gain > 0).share() > 0.5,
        where=["ring.table3"],
        values={"gain": linear_transfer(over="uniform", by=["target"])},
        ours=True,
    ),
    Claim(
        "ring.transfer-few-shot",
        "As Table 3 of linear probes, so of few-shot episodes, which the paper does not have; averaged over image "
        "sets that they never saw, encoders that trained with a ring of negatives tell more few-shot queries than "
        "those with uniform ones.",
        lambda gain: gain.mean() > 0,
        where=["ring.table3"],
        ours=True,
        values={"gain": few_shot_transfer(over="uniform", by=["target"])},
    ),
    Claim(
        "ring.transfer-trained",
        "What Table 3 presumes; trained encoders transfer better than untrained ones of the same weights at first, "
        "to most image sets by a linear probe and averaged over them by few-shot episodes.",
        lambda linear, few_shot: ((linear > 0).share() > 0.5) & (few_shot.mean() > 0),
        where=["ring.table3"],
        ours=True,
        values={
            "linear": linear_transfer(over="untrained", by=["target"]),
            "few_shot": few_shot_transfer(over="untrained", by=["target"]),
        },
    ),
    Claim(
        "ring.transfer-la",
        "IRing transfers better than LA, to most of the image sets that they never saw (of nine, in the paper).",
        lambda la_gain: (la_gain < 0).share() > 0.5,
        where=["ring.table3"],
        values={"la_gain": linear_transfer(over="main, by LA", by=["target"])},
    ),
    Claim(
        "ring.transfer-most",
        "The gain is largest for traffic signs and flowers.",
        lambda signs, flowers, others: smallest(signs, flowers) > others.mean(),
        where=["ring.table3"],
        values={
            "signs": linear_transfer(over="uniform", target="trafficsign"),
            "flowers": linear_transfer(over="uniform", target="vggflower"),
            "others": linear_transfer(
                over="uniform",
                target=["aircraft", "cub", "dtd", "fungi", "mnist", "fashionmnist", "mscoco"],
                by=["target"],
            ),
        },
    ),
    Claim(
        "ring.detection",
        "IRing outperforms IR (by 2 to 3 points) in detection, segmentation and keypoints with a frozen backbone, "
        "MoCoRing outperforms MoCo (by 1 to 3).",
        lambda iring_gain, mocoring_gain: (iring_gain > 0).all() & (mocoring_gain > 0).all(),
        where=["ring.table4"],
        size=lambda iring_gain, mocoring_gain: (
            iring_gain.near(2.3, 2.5, 2.6, 2.1) & mocoring_gain.near(3.4, 1.2, 1.1, 0.7)
        ),
        dataset=["ImageNet", "COCO", "Pascal VOC 2007"],
        values={
            "iring_gain": detection_gain(encoder="main", base="uniform"),
            "mocoring_gain": detection_gain(encoder="MoCoRing", base="MoCo"),
        },
    ),
    Claim(
        "ring.detection-trained",
        "What Table 4 presumes; detectors around frozen encoders find more when the encoders are trained, with a "
        "ring of negatives as with uniform ones, than around untrained ones.",
        lambda ring, uniform: (ring > 0).all() & (uniform > 0).all(),
        where=["ring.table4"],
        ours=True,
        values={
            "ring": detection("over_untrained_percent", variant="main", cell=CELLS),
            "uniform": detection("over_untrained_percent", variant="uniform", cell=CELLS),
        },
    ),
    Claim(
        "ring.detection-scenes",
        "Averaged over boxes, masks and keypoints, detectors around frozen encoders that trained with a ring of "
        "negatives find more than around those with uniform ones.",
        lambda gain: gain.mean() > 0,
        where=["ring.table4"],
        ours=True,
        values={"gain": detection("over_uniform_percent", variant="main", cell=CELLS)},
    ),
    Claim(
        "ring.variants",
        "Negatives from the own cluster, or cluster members as further positives of a ring, are at least as good as "
        "LA on CIFAR10.",
        lambda gain: (gain >= 0).all() & (gain > 0).any(),
        where=["ring.table6"],
        size=lambda gain: gain.near(3.3, 3.9, 0.1, 0.4),
        dataset=["CIFAR10"],
        values={
            "gain": gain_here(
                table="ring.table6",
                method=["IRCave", "CMCCave", "IRing (+C_i)", "CMCRing (+C_i)"],
                by=["method"],
                smallest=0.1,
            )
        },
    ),
    Claim(
        "ring.hard-early",
        "Started early in training, IRing is worse the closer its negatives, 10 percent worst, then 25, 50 and 100.",
        lambda p10, p25, p50: (p10 < p25) & (p25 < p50) & (p50 < 0),  # gains over 100 percent, IR
        where=["ring.fig2a"],
        values={
            "p10": gain_by_start(series="10 %", value=0.05),
            "p25": gain_by_start(series="25 %", value=0.05),
            "p50": gain_by_start(series="50 %", value=0.05),
        },
    ),
    Claim(
        "ring.hard-middle",
        "Started at epoch 50 of 200, all are equally good, here within a point of IR.",
        lambda gain: (abs(gain) <= 1).all(),
        where=["ring.fig2a"],
        values={"gain": gain_by_start(series=["10 %", "25 %", "50 %"], value=0.25, by=["series"])},
    ),
    Claim(
        "ring.hard-later",
        "Started half way through training the order is reversed; the closer the negatives, the better.",
        lambda p10, p25, p50: (p10 > p25) & (p25 > p50) & (p50 > 0),  # gains over 100 percent, IR
        where=["ring.fig2a"],
        values={
            "p10": gain_by_start(series="10 %", value=0.5),
            "p25": gain_by_start(series="25 %", value=0.5),
            "p50": gain_by_start(series="50 %", value=0.5),
        },
    ),
    Claim(
        "ring.policies-equal",
        "All policies of annealing converge to about the same accuracy, here within 2 points.",
        lambda gain: gain.range() <= 2,
        where=["ring.fig2b"],
        values={
            "gain": estimate(  # over a ring that is not annealed
                "cifar10_negatives/annealing.csv",
                "nn1_gain_percent",
                series=["linear", "step", "adaptive per epoch", "adaptive per step"],
                by=["series"],
                least=4,
            )
        },
    ),
    Claim(
        "ring.policies-speed",
        "Linear and stepwise annealing converge faster than the adaptive policies; their accuracy over training is "
        "higher on average.",
        lambda linear, step, per_epoch, per_step: (
            smallest(linear.mean(), step.mean()) > largest(per_epoch.mean(), per_step.mean())
        ),
        where=["ring.fig2b"],
        values={
            "linear": accuracy_over_training(series="linear"),
            "step": accuracy_over_training(series="step"),
            "per_epoch": accuracy_over_training(series="adaptive per epoch"),
            "per_step": accuracy_over_training(series="adaptive per step"),
        },
    ),
    Claim(
        "ring.policies-floor",
        "Adaptive policies push the kept share down to its floor of 10 percent by themselves, around epoch 150 of 200, "
        "here when 60 to 90 percent of training is done.",
        lambda per_epoch, per_step: (
            (per_epoch <= 10).share().between(0.1, at_most=0.4) & (per_step <= 10).share().between(0.1, at_most=0.4)
        ),
        where=["ring.fig2c"],
        values={
            "per_epoch": kept_over_training(series="adaptive per epoch"),
            "per_step": kept_over_training(series="adaptive per step"),
        },
    ),
]
