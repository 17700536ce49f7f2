"""Claims of mutualinfo: On Mutual Information in Contrastive Learning for Visual Representations."""

from collections.abc import Sequence
from functools import partial

from annulus_lab.report.claims.claim import Claim
from annulus_lab.report.claims.rules import log
from annulus_lab.report.claims.selectors import Differences, MetricColumn, estimate, exact
from annulus_lab.report.claims.truth import SMALLEST_PRECISION

# Tables 2(b) to (e) and 4.
CELLS = ["coco box_ap", "coco mask_ap", "keypoints keypoint_ap", "voc box_ap", "lvis mask_ap"]
CELLS += ["coco-c4 box_ap", "coco-c4 mask_ap"]
# The two-dimensional toy: bounds on points that the encoders did not train on.
UNSEEN = {"variant": "cosine-slow-warm", "points": "unseen"}


def toy(method: str, /, by: Sequence[str] = (), **where: Sequence[int]) -> MetricColumn:
    """Selects a method's estimates of the toy's information."""
    return estimate(
        "estimators/conditional.csv", "estimate_nats", "interval_nats", by, **UNSEEN, method=method, **where
    )


# Selectors that several claims use.
paired_gain = partial(estimate, "cifar10_algorithms/pairs.csv", "gain_percent")
gain_here = partial(estimate, "cifar10_algorithms/table.csv", "here_gain_percent", table="mutualinfo.table1")
augmentation_gain = partial(estimate, "cifar10_augmentations/ir.csv", "nn1_gain_percent")
critic_gain = partial(estimate, "cifar10_negatives/critic.csv", "nn1_gain_percent")
detection_gain = partial(
    estimate, "detection/further_gains.csv", "gain_percent", cell=CELLS, by=["cell"], smallest=SMALLEST_PRECISION
)
temperature_gain = partial(estimate, series="IR", by=["value"])
spirals_accuracy = partial(estimate, "spirals/points.csv", "top1_percent")

CLAIMS = [
    Claim(
        "mutualinfo.permutation",
        "Over a fixed set of embeddings and bank entries the IR objective stays the same when both are permuted "
        "together, so without augmentation it cannot tell images apart (Theorem 2.1).",
        lambda before, after: abs(before - after) <= 0.000001,
        tests=["test_bounds_theorems.py::test_without_augmentation_images_cannot_be_told_apart"],
    ),
    Claim(
        "mutualinfo.infonce-bound",
        "InfoNCE is at most the mutual information.",
        lambda infonce, information: infonce <= information,
        where=["mutualinfo.table3"],
        values={
            "infonce": toy("NCE"),
            "information": exact("estimators/conditional.csv", "information_nats", **UNSEEN, method="NCE"),
        },
        tests=["test_bounds_theorems.py::test_the_estimate_is_below_the_information_and_close_with_the_true_critic"],
    ),
    Claim(
        "mutualinfo.vince-order",
        "VINCE with negatives above a threshold of similarity is at most InfoNCE, which is at most the mutual "
        "information (Corollary 4.1.1; here the first by less than 0.001 nats above the second).",
        lambda vince, infonce, information: (vince - infonce <= 0.001).all() & (infonce <= information),
        where=["mutualinfo.table3"],
        values={
            "vince": toy("CNCE", by=["percent_closest"]),
            "infonce": toy("NCE"),
            "information": exact("estimators/conditional.csv", "information_nats", **UNSEEN, method="NCE"),
        },
        tests=[
            "test_negatives_theorems.py::test_a_ball_bounds_information_no_higher_than_all_negatives_for_every_critic",
            "test_negatives_theorems.py::test_above_the_mean_score_every_single_draw_is_below_the_bound_of_all_negatives",
        ],
    ),
    Claim(
        "mutualinfo.table3-falls",
        "The harder the negatives, the looser the bound; with the closest 5 percent of points the estimate is below "
        "that with 90 percent (here at a tenth of the printed rate, after uniform negatives).",
        lambda at_5, at_90: at_5 < at_90,
        where=["mutualinfo.table3"],
        values={
            "at_5": toy("CNCE", percent_closest=5),
            "at_90": toy("CNCE", percent_closest=90),
        },
    ),
    Claim(
        "mutualinfo.table3-vanishes",
        "With the closest 50 percent or fewer the estimate is all but zero, here less than a twentieth of InfoNCE's "
        "(a share that was set after the runs).",
        lambda vince, infonce: (abs(vince) <= 0.05 * infonce).all(),
        where=["mutualinfo.table3"],
        values={
            "vince": toy("CNCE", percent_closest=[5, 10, 25, 50], by=["percent_closest"]),
            "infonce": toy("NCE"),
        },
    ),
    Claim(
        "mutualinfo.table3-infonce",
        "On the two-dimensional toy InfoNCE gives 0.01345 of the 0.02041 nats, here on points that the encoders did "
        "not train on (an estimate on those trained on is higher).",
        where=["mutualinfo.table3"],
        size=lambda nce: nce.near(0.01345),
        values={"nce": toy("NCE")},
    ),
    Claim(
        "mutualinfo.toy-information",
        "The mutual information of the two-dimensional toy, covariance [[2, 0.4], [0.4, 2]], is 0.02041 nats.",
        where=["mutualinfo.table3"],
        size=lambda difference: (abs(difference) <= 0.000006).all(),
        values={"difference": Differences("mutualinfo.table3", {"method": "True"})},
    ),
    Claim(
        "mutualinfo.ball-is-vince",
        "The BALL objective plus log K is the empirical VINCE; so are RING and CAVE (Lemmas 4.2 and B.2).",
        lambda objective, ceiling, vince: abs(objective + ceiling - vince) <= 0.000001,
        tests=["test_estimators_spread.py::test_with_the_whole_set_the_estimate_is_its_formula"],
    ),
    Claim(
        "mutualinfo.la-without-neighbours",
        "LA whose close set holds only the image itself is BALL (Lemma 4.3).",
        lambda la, ball: abs(la - ball) <= 0.000001,
        tests=["test_bounds_theorems.py::test_la_with_only_itself_as_neighbour_is_infonce_on_the_same_background"],
    ),
    Claim(
        "mutualinfo.la-neighbours-bound",
        "Neighbours raise the LA objective by at most log of their number, where the image's own entry is closest "
        "(Lemma 4.4).",
        lambda la, la_alone, neighbours: la - la_alone <= log(neighbours),
        tests=[
            "test_bounds_theorems.py::test_neighbours_raise_the_objective_by_at_most_log_of_their_number_where_the_own_row_is_closest"
        ],
    ),
    Claim(
        "mutualinfo.la-two-logsumexps",
        "The original LA with exact partitions is the difference of two logsumexps, so estimating the partition "
        "function is unnecessary (Lemma B.3).",
        lambda original, simplified: abs(original - simplified) <= 0.000001,
        tests=["test_bounds_theorems.py::test_la_is_ring_eq_5_up_to_the_sizes_of_the_sets"],
    ),
    Claim(
        "mutualinfo.simclr-is-infonce",
        "The SimCLR objective plus log K is InfoNCE between two views (Lemma B.1).",
        lambda simclr, infonce: abs(simclr - infonce) <= 0.000001,
        tests=["test_methods_contrast.py::test_every_combination_has_the_value_and_gradient_of_the_plain_loops"],
    ),
    Claim(
        "mutualinfo.neighbours-inside-the-log",
        "Summing neighbours inside the logarithm gives at least their average outside it (Jensen).",
        lambda inside, outside: inside >= outside,
        tests=["test_bounds_theorems.py::test_summing_neighbours_inside_the_log_is_at_least_their_average_outside"],
    ),
    Claim(
        "mutualinfo.augmentation-needed",
        "Without augmentation IR and CMC learn clearly worse representations than with all of it, though not trivial"
        " ones.",
        lambda ir_gain, cmc_gain, plain: (ir_gain > 0) & (cmc_gain > 0) & (plain > 10),
        where=["mutualinfo.fig1", "mutualinfo.fig5"],
        values={
            "ir_gain": augmentation_gain(series="all"),
            "cmc_gain": estimate("cifar10_augmentations/cmc.csv", "nn1_gain_percent", series="all"),
            "plain": estimate("cifar10_augmentations/ir.csv", "nn1_top1_percent", series="none"),
        },
    ),
    Claim(
        "mutualinfo.trivial-augmentation",
        "Augmentations under which no two images share a view, flip and grayscale, are about as poor as none.",
        lambda flip_gain, grayscale_gain, all_gain: (flip_gain < all_gain / 2) & (grayscale_gain < all_gain / 2),
        where=["mutualinfo.fig1", "mutualinfo.fig5"],
        values={
            "flip_gain": augmentation_gain(series="flip"),
            "grayscale_gain": augmentation_gain(series="grayscale"),
            "all_gain": augmentation_gain(series="all"),
        },
    ),
    Claim(
        "mutualinfo.crop-most",
        "Cropping gives most of what augmentation gives.",
        lambda crop_gain, all_gain: crop_gain > all_gain / 2,
        where=["mutualinfo.fig1"],
        values={
            "crop_gain": augmentation_gain(series="crop"),
            "all_gain": augmentation_gain(series="all"),
        },
    ),
    Claim(
        "mutualinfo.cmc-without-augmentation",
        "Without augmentation CMC keeps more accuracy than IR, its colour channels being views already.",
        lambda cmc, ir: cmc > ir,
        where=["mutualinfo.fig1"],
        values={
            "cmc": estimate("cifar10_augmentations/cmc.csv", "nn1_top1_percent", series="none"),
            "ir": estimate("cifar10_augmentations/ir.csv", "nn1_top1_percent", series="none"),
        },
    ),
    Claim(
        "mutualinfo.views-parabola",
        "Accuracy over the information that views share is a parabola; views that share too much (grayscale, flip) "
        "or too little (tiny crops) both transfer badly.",
        lambda crops, usual_crop, trivial: crops.reverse_u() & (trivial < usual_crop).all(),
        where=["mutualinfo.fig4"],
        values={
            "crops": estimate("cifar10_augmentations/crop.csv", "nn1_gain_percent", by=["held_out_nats"]),
            "usual_crop": augmentation_gain(series="crop"),
            "trivial": augmentation_gain(series=["grayscale", "flip"], by=["series"]),
        },
    ),
    Claim(
        "mutualinfo.spirals-lossless",
        "Two intertwined spirals whose views are without noise give the largest information and an accuracy near "
        "chance.",
        lambda noiseless, noisy, accuracy: (noiseless > noisy.max()) & (accuracy < 60),
        where=["mutualinfo.fig6"],
        values={
            "noiseless": estimate("spirals/points.csv", "bound_nats", noise=0.0),
            "noisy": estimate("spirals/points.csv", "bound_nats", noise=[0.4, 1.0, 5.0], by=["noise"]),
            "accuracy": spirals_accuracy(noise=0.0),
        },
    ),
    Claim(
        "mutualinfo.spirals-noise",
        "Accuracy on the spirals rises as the noise nears 0.4 and falls back to chance beyond it.",
        lambda gain_at_0_4, gain_at_5, most: (gain_at_0_4 > 0) & (gain_at_0_4 > gain_at_5) & (most < 60),
        where=["mutualinfo.fig6"],
        values={
            "gain_at_0_4": estimate("spirals/points.csv", "gain_percent", noise=0.4),
            "gain_at_5": estimate("spirals/points.csv", "gain_percent", noise=5.0),
            "most": spirals_accuracy(noise=5.0),
        },
    ),
    Claim(
        "mutualinfo.ir-unstable",
        "On a small data set the large constants of the original IR bring numerical instability of their own; "
        "InfoNCE's logsumexp is much more stable, here with a tenth of the gradient's norm at most.",
        lambda original, infonce: original > 10 * infonce,
        where=["mutualinfo.fig2", "mutualinfo.fig7"],
        values={
            "original": estimate("cifar10_negatives/stability.csv", "gradient_mean_norm", series="constant"),
            "infonce": estimate("cifar10_negatives/stability.csv", "gradient_mean_norm", series="InfoNCE"),
        },
    ),
    Claim(
        "mutualinfo.infonce-beats-ir",
        "The InfoNCE form of IR beats the original one in nearest-neighbour accuracy, on CIFAR10 and on ImageNet.",
        lambda original_gain: original_gain < 0,
        where=["mutualinfo.fig2", "mutualinfo.fig7"],
        values={"original_gain": estimate("cifar10_negatives/stability.csv", "nn1_gain_percent", series="constant")},
    ),
    Claim(
        "mutualinfo.bank-rate",
        "No bank (rate 0) and the usual rate of 0.5 are equally accurate, for IR, LA and CMC, here within a point.",
        lambda gain: (abs(gain) <= 1).all(),
        where=["mutualinfo.fig2", "mutualinfo.fig7"],
        values={
            "gain": estimate("cifar10_negatives/bank-rate.csv", "nn1_gain_percent", value=0.0, by=["series"], least=3)
        },
    ),
    Claim(
        "mutualinfo.critic",
        "The more expressive the function that scores a pair, the lower the accuracy; the dot product is best (except "
        "a linear layer on both embeddings, whose scores rank the rows alike for every query).",
        lambda bilinear, one_layer, two_layers: (bilinear < 0) & (one_layer < bilinear) & (two_layers < one_layer),
        where=["mutualinfo.fig7"],
        values={
            "bilinear": critic_gain(series="bilinear"),
            "one_layer": critic_gain(series="concat, 1 hidden layer"),
            "two_layers": critic_gain(series="concat, 2 hidden layers"),
        },
    ),
    Claim(
        "mutualinfo.simplified",
        "The simplified IR and CMC outperform their original implementations, by up to 15 points.",
        lambda ir_gain, cmc_nce_gain: (ir_gain < 0) & (cmc_nce_gain > 0),
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda ir_gain, cmc_nce_gain: ir_gain.near(-16.9) & cmc_nce_gain.near(13.5),
        dataset=["CIFAR10"],
        values={
            "ir_gain": gain_here(method="IR"),
            "cmc_nce_gain": paired_gain(row="CMC-nce", base="CMC"),
        },
    ),
    Claim(
        "mutualinfo.simplified-la",
        "The simplified LA improves on LA, by less than IR and CMC gain, since the constant cancels.",
        lambda la, la_nce, ir, ir_nce: (la_nce - la).between(
            0, below=ir_nce - ir
        ),  # LA and LA-nce are one run here: the constant cancels
        where=["mutualinfo.table1", "mutualinfo.table5"],
    ),
    Claim(
        "mutualinfo.harder-negatives",
        "Harder negatives build stronger representations; BALL, RING and CAVE outperform IR-nce, by up to 3 points.",
        lambda gain: (gain > 0).all(),
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda gain: gain.near(0.2, 0.2, 3.5),
        dataset=["CIFAR10"],
        values={"gain": gain_here(method=["BALL", "RING", "CAVE"], by=["method"], smallest=0.2)},
    ),
    Claim(
        "mutualinfo.ring-beats-cave",
        "RING outperforms CAVE, a simpler alternative to k-means.",
        lambda gain: gain > 0,
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda gain: gain.near(3.3),
        dataset=["CIFAR10"],
        values={"gain": paired_gain(row="RING", base="CAVE")},
    ),
    Claim(
        "mutualinfo.ring-beats-la",
        "RING, which needs no neighbours, outperforms LA, which relies on them.",
        lambda gain: gain > 0,
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda gain: gain.near(2.4),
        dataset=["CIFAR10"],
        values={"gain": paired_gain(row="RING", base="LA-nce")},
    ),
    Claim(
        "mutualinfo.annealing-gains",
        "Annealed negatives gain over IR-nce (by 3 to 4 points; the printed table says 0.9 for BALL).",
        lambda gain: (gain > 0).all(),
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda gain: gain.near(0.9, 3.6, 4.0),
        dataset=["CIFAR10"],
        values={"gain": gain_here(method=["BALL+anneal", "CAVE+anneal", "RING+anneal"], by=["method"])},
    ),
    Claim(
        "mutualinfo.annealing-helps",
        "Raising the threshold slowly improves on a fixed one; BALL+anneal and CAVE+anneal lie above BALL and CAVE.",
        lambda ball_gain, cave_gain: (ball_gain > 0) & (cave_gain > 0),
        where=["mutualinfo.fig8", "mutualinfo.table1"],
        size=lambda ball_gain, cave_gain: ball_gain.near(0.7) & cave_gain.near(3.4),
        dataset=["CIFAR10"],
        values={
            "ball_gain": paired_gain(row="BALL+anneal", base="BALL"),
            "cave_gain": paired_gain(row="CAVE+anneal", base="CAVE"),
        },
    ),
    Claim(
        "mutualinfo.neighbours-too-early",
        "Close neighbours as further views hurt without annealing; training ends in local minima.",
        lambda gain: (gain < 0).all(),
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda gain: gain.near(-6.3, -22.4, -8.1, -19.3),
        dataset=["CIFAR10"],
        values={
            "gain": paired_gain(
                row=["BALL+s-neigh", "BALL-Lab+s-neigh", "RING+s-neigh", "RING-Lab+s-neigh"],
                base=["BALL", "BALL-Lab", "RING", "RING-Lab"],
                by=["row"],
                least=4,
            )
        },
    ),
    Claim(
        "mutualinfo.neighbours-annealed",
        "With annealing, close neighbours help; each method with them is at least as good as without.",
        lambda gain, ring_lab_gain: (gain >= 0).all() & (ring_lab_gain >= 0) & ((gain > 0).any() | (ring_lab_gain > 0)),
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda gain, ring_lab_gain: gain.near(2.7, 0.2, 0.3) & ring_lab_gain.near(0.2),
        dataset=["CIFAR10"],
        values={
            "gain": paired_gain(
                row=["BALL+s-neigh+anneal", "BALL-Lab+s-neigh+anneal", "RING+s-neigh+anneal"],
                by=["row"],
                smallest=0.2,
            ),
            "ring_lab_gain": paired_gain(row="RING-Lab+s-neigh+anneal", base="RING-Lab+anneal", smallest=0.2),
        },
    ),
    Claim(
        "mutualinfo.best-model",
        "RING with annealed neighbours is the best model, of RGB images (4 points above IR-nce, 3 above LA-nce) as of "
        "Lab (2 above CMC-nce).",
        lambda gain, rgb_gain: (gain >= 0).all() & (rgb_gain > 0),
        where=["mutualinfo.table1", "mutualinfo.table5"],
        size=lambda rgb_gain: rgb_gain.near(4.3),
        dataset=["CIFAR10"],
        values={
            "gain": paired_gain(row="RING-Lab+s-neigh+anneal", by=["base"], least=24),
            "rgb_gain": gain_here(method="RING+s-neigh+anneal"),
        },
    ),
    Claim(
        "mutualinfo.hard-early-hurts",
        "At the beginning of training difficult negatives hurt the representation.",
        lambda gain: (gain < 0).all(),
        where=["mutualinfo.fig9"],
        values={
            "gain": estimate(
                "cifar10_negatives/count.csv", "nn1_gain_percent", series="10 % from the start", by=["value"]
            )
        },
    ),
    Claim(
        "mutualinfo.hard-later-helps",
        "Started from a trained IR model, difficult negatives improve on IR, if their number is balanced with their "
        "difficulty.",
        lambda gain: (gain > 0).any(),
        where=["mutualinfo.fig9"],
        values={
            "gain": estimate(
                "cifar10_negatives/count.csv", "nn1_gain_percent", series="10 % from the middle", by=["value"]
            )
        },
    ),
    Claim(
        "mutualinfo.hard-number",
        "Of difficult negatives, too few stunt training and too many are drowned out; a number between the ends is "
        "best.",
        lambda hard: hard.reverse_u(),
        where=["mutualinfo.fig9"],
        values={
            "hard": estimate(
                "cifar10_negatives/count.csv", "nn1_top1_percent", series="10 % from the middle", by=["value"]
            )
        },
    ),
    Claim(
        "mutualinfo.temperature",
        "The temperature matters, at least for the speed of convergence.",
        lambda gain: (abs(gain) > 0).any(),
        where=["mutualinfo.fig10"],
        values={"gain": estimate("cifar10_negatives/temperature.csv", "nn1_gain_percent", series="IR", by=["value"])},
    ),
    Claim(
        "mutualinfo.temperature-of-dataset",
        "The best temperature depends on the data set; one that gains over 0.2 on one set loses on another.",
        lambda cifar10, shapes: ((cifar10 < 0) & (shapes > 0)).any() | ((cifar10 > 0) & (shapes < 0)).any(),
        where=["mutualinfo.fig10"],
        values={
            "cifar10": temperature_gain("cifar10_negatives/temperature.csv", "nn1_gain_percent"),
            "shapes": temperature_gain("negatives/temperature.csv", "nn1_gain_percent"),
        },
    ),
    Claim(
        "mutualinfo.imagenet",
        "On ImageNet too BALL and CAVE outperform IR, annealing improves both, and CAVE-Lab+anneal outperforms IR, "
        "LA and CMC.",
        lambda fixed, annealing, over_ir, over_others: (
            (fixed > 0).all() & (annealing > 0).all() & (over_ir > 0) & (over_others > 0).all()
        ),
        where=["mutualinfo.table2a"],
        values={
            "fixed": gain_here(method=["BALL", "CAVE"], by=["method"]),
            "annealing": paired_gain(row=["BALL+anneal", "CAVE+anneal"], base=["BALL", "CAVE"], by=["row"]),
            "over_ir": gain_here(method="CAVE-Lab+anneal"),
            "over_others": paired_gain(row="CAVE-Lab+anneal", base=["LA-nce", "CMC-nce"], by=["base"]),
        },
    ),
    Claim(
        "mutualinfo.transfer",
        "BALL and CAVE outperform IR in detection, segmentation and keypoints with a frozen backbone, and "
        "CAVE+anneal outperforms IR and LA, with a feature pyramid and without.",
        lambda ball, cave, anneal_over_ir, anneal_over_la: (
            (ball > 0).all() & (cave > 0).all() & (anneal_over_ir > 0).all() & (anneal_over_la > 0).all()
        ),
        where=[
            "mutualinfo.table2b",
            "mutualinfo.table2c",
            "mutualinfo.table2d",
            "mutualinfo.table2e",
            "mutualinfo.table4",
        ],
        values={
            "ball": detection_gain(encoder="BALL", base="uniform"),
            "cave": detection_gain(encoder="CAVE", base="uniform"),
            "anneal_over_ir": detection_gain(encoder="CAVE+anneal", base="uniform"),
            "anneal_over_la": detection_gain(encoder="CAVE+anneal", base="LA"),
        },
    ),
]
