"""Claims of infomin: What Makes for Good Views for Contrastive Learning?."""

from functools import partial

from annulus_lab.report.claims.claim import Claim
from annulus_lab.report.claims.selectors import MetricColumn, estimate, exact

# Selectors that several claims use.
LUMA_AND_COLOUR = ["lab", "ydbdr", "yiq"]  # without yuv: ydbdr times factors, which the encoders' normalisation removes
BLURS = "cifar10_frequency/sigma.csv"
CROPS = [0.08, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5]  # the paper's
OTHER_CROPS = [least for least in CROPS if least != 0.2]
JITTERS = [0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5]  # the paper's
OTHER_JITTERS = [strength for strength in JITTERS if strength != 1.0]
ideal = partial(exact, "estimators/ideal.csv", series="InfoNCE", by=["information_nats"])
digit_error = partial(estimate, "moving_digits/table.csv", "digit_error_percent")
background_error = partial(estimate, "moving_digits/table.csv", "background_error_percent")
position_error = partial(estimate, "moving_digits/table.csv", "position_error_pixels")
distance_gain = partial(estimate, "distance/offsets.csv", "linear_gain_percent")
colour_information = partial(estimate, "colour/spaces.csv", "held_out_nats")
colour_gain = partial(estimate, "cifar10_colour/spaces.csv", "linear_gain_percent")
blur_gain = partial(estimate, BLURS, "linear_gain_percent")
view_information = partial(estimate, "cifar10_view_learning/points.csv", "held_out_nats", by=["backbone", "space"])
view_interval = partial(
    exact, "cifar10_view_learning/points.csv", "linear_top1_interval_percent", by=["backbone", "space"]
)
view_gain = partial(estimate, "cifar10_view_learning/points.csv", "linear_gain_percent")
crop_gain = partial(estimate, "cifar10_strength/crop.csv", "linear_gain_percent")
jitter_gain = partial(estimate, "cifar10_strength/jitter.csv", "linear_gain_percent")
STEPS = ["crop and flip", "+ jitter 0.25", "+ jitter 0.5", "+ grayscale", "+ blur", "RandAugment of the authors"]
branch_gain = partial(estimate, "cifar10_strength/branches.csv", "linear_gain_percent")


def gain_by_information(part: str) -> MetricColumn:
    """Selects gains on CIFAR-10, sorted by the information that the views share."""
    file = f"cifar10_strength/{part}.csv"
    return estimate(file, "linear_gain_percent", series="linear head", by=["held_out_nats"])


CLAIMS = [
    Claim(
        "infomin.optimal-views",
        "Among views that keep all that an image says of the label, their shared information is least when it is "
        "only that about the label (Proposition 4.1).",
        lambda shared, about_label: shared.min() >= about_label,
        where=["infomin.fig1"],
        tests=["test_views_information.py::test_views_that_keep_the_label_share_at_least_what_the_image_says_of_it"],
    ),
    Claim(
        "infomin.data-processing",
        "Views share no more than either shares with the image, and selecting channels of each shares no more than "
        "the views themselves.",
        lambda shared, of_image, channels: (shared <= of_image).all() & (channels <= shared).all(),
        where=["infomin.fig1"],
        tests=[
            "test_views_information.py::test_views_share_no_more_than_either_with_the_image_and_parts_of_them_no_more_than_they"
        ],
    ),
    Claim(
        "infomin.nuisance",
        "Removing shared nuisance helps the representation, removing information about the task hurts it; of moving "
        "digits, the error in the digit where views share it alone, also the background, only the position.",
        lambda digit, and_nuisance, without_digit: (digit < and_nuisance) & (digit < without_digit),
        where=["infomin.fig1"],
        values={
            "digit": digit_error(sharing="digit"),
            "and_nuisance": digit_error(sharing="background + digit"),
            "without_digit": digit_error(sharing="position"),
        },
    ),
    Claim(
        "infomin.three-regimes",
        "Accuracy over shared information is a reverse U with missing information, a sweet spot and excess noise, "
        "here where crops or jitter set it, from whole images and no jitter on; gains over the default strength.",
        lambda crops, jitter: crops.reverse_u() & jitter.reverse_u(),
        where=["infomin.fig3"],
        values={"crops": gain_by_information("crop"), "jitter": gain_by_information("jitter")},
    ),
    Claim(
        "infomin.ceiling",
        "The estimate of shared information is at most log K, and at most the information itself.",
        lambda estimate, error, ceiling, information: (
            (estimate <= ceiling).all() & (estimate - (3 * error) <= information).all()
        ),
        values={
            "estimate": ideal("estimate_nats"),
            "error": ideal("error_nats"),
            "ceiling": ideal("ceiling_nats"),
            "information": ideal("information_nats"),
        },
        tests=["test_bounds.py::test_no_estimate_exceeds_its_ceiling"],
    ),
    Claim(
        "infomin.shared-factor",
        "On colourful moving digits a task (digit, position) is solved only when the views share its factor; sharing"
        " just that halves the error at least of sharing just another one.",
        lambda digit, digit_of_others, place, place_of_others: (
            (2 * digit < digit_of_others).all() & (2 * place < place_of_others).all()
        ),
        where=["infomin.table1"],
        size=lambda digit, digit_of_others, place, place_of_others: (
            digit.near(16.8) & digit_of_others.near(88.6, 57.9) & place.near(3.95) & place_of_others.near(16.1, 13.6)
        ),
        dataset=["Colorful-Moving-MNIST"],
        values={
            "digit": digit_error(sharing="digit"),
            "digit_of_others": digit_error(sharing=["background", "position"], by=["sharing"]),
            "place": position_error(sharing="position"),
            "place_of_others": position_error(sharing=["digit", "background"], by=["sharing"]),
        },
    ),
    Claim(
        "infomin.shared-factor-helps",
        "On colourful moving digits the error of each task (digit, background, position) is smaller where the views "
        "share just its factor than where they share just another one.",
        lambda digit, digit_of_others, background, background_of_others, place, place_of_others: (
            (digit < digit_of_others).all()
            & (background < background_of_others).all()
            & (place < place_of_others).all()
        ),
        where=["infomin.table1"],
        values={
            "digit": digit_error(sharing="digit"),
            "digit_of_others": digit_error(sharing=["background", "position"], by=["sharing"]),
            "background": background_error(sharing="background"),
            "background_of_others": background_error(sharing=["digit", "position"], by=["sharing"]),
            "place": position_error(sharing="position"),
            "place_of_others": position_error(sharing=["digit", "background"], by=["sharing"]),
        },
        tests=["test_moving_digits_moving_digits.py::test_views_share_exactly_the_stated_factors"],
    ),
    Claim(
        "infomin.shared-factor-learned",
        "On colourful moving digits the error of each task is smaller where the views share just its factor than in "
        "an untrained network, which the paper does not have.",
        lambda digit, digit_untrained, background, background_untrained, place, place_untrained: (
            (digit < digit_untrained) & (background < background_untrained) & (place < place_untrained)
        ),
        ours=True,
        values={
            "digit": digit_error(sharing="digit"),
            "digit_untrained": digit_error(sharing="untrained"),
            "background": background_error(sharing="background"),
            "background_untrained": background_error(sharing="untrained"),
            "place": position_error(sharing="position"),
            "place_untrained": position_error(sharing="untrained"),
        },
    ),
    Claim(
        "infomin.background-dominates",
        "When the views share the background, it drives digit and position out of the representation; their errors "
        "are more than twice those of views that share only the digit, only the position.",
        lambda digit_with_background, digit_alone, place_with_background, place_alone: (
            (digit_with_background > 2 * digit_alone).all() & (place_with_background > 2 * place_alone).all()
        ),
        where=["infomin.table1"],
        values={
            "digit_with_background": digit_error(
                sharing=["background + digit", "background + digit + position"], by=["sharing"]
            ),
            "digit_alone": digit_error(sharing="digit"),
            "place_with_background": position_error(
                sharing=["background + position", "background + digit + position"], by=["sharing"]
            ),
            "place_alone": position_error(sharing="position"),
        },
    ),
    Claim(
        "infomin.position-helps",
        "Sharing the position beside the digit helps to tell the digit.",
        lambda gain: gain < 0,
        where=["infomin.table1"],
        size=lambda gain: gain.near(-2.3),
        dataset=["Colorful-Moving-MNIST"],
        values={
            "gain": estimate("moving_digits/pairs.csv", "digit_gain_percent", sharing="digit + position", over="digit")
        },
    ),
    Claim(
        "infomin.digit-dominates",
        "When the views share digit and position, the digit drives the position out; its error is more than twice "
        "that of views that share only the position.",
        lambda place, place_alone: place > 2 * place_alone,
        where=["infomin.table1"],
        size=lambda place, place_alone: place.near(13.7) & place_alone.near(3.95),
        dataset=["Colorful-Moving-MNIST"],
        values={
            "place": position_error(sharing="digit + position"),
            "place_alone": position_error(sharing="position"),
        },
    ),
    Claim(
        "infomin.distance-information",
        "The farther apart two patches, the less they share.",
        lambda information: information.falling(),
        where=["infomin.fig4"],
        values={
            "information": estimate("distance/offsets.csv", "held_out_nats", series=["shapes", "stl10"], by=["value"])
        },
    ),
    Claim(
        "infomin.distance-inner",
        "Accuracy over the distance of patches is a reverse U; it is best at a distance between the nearest and the "
        "farthest, on two sets.",
        lambda first_set, second_set: first_set.reverse_u() & second_set.reverse_u(),
        where=["infomin.fig4"],
        values={
            "first_set": distance_gain(series=["shapes", "stl10"], by=["value"]),
            "second_set": distance_gain(series=["mosaics", "cifar10"], by=["value"]),
        },
    ),
    Claim(
        "infomin.distance-sweet-spot",
        "Accuracy over the distance of patches is a reverse U with its sweet spot at 128 pixels, on STL-10 and "
        "CIFAR-10.",
        lambda first_at_128, first_others, second_at_128, second_others: (
            (first_at_128 > first_others).all() & (second_at_128 > second_others).all()
        ),
        where=["infomin.fig4"],
        values={
            "first_at_128": distance_gain(series="stl10", value=128),
            "first_others": distance_gain(series="stl10", value=[64, 96, 192, 256, 384], by=["value"]),
            "second_at_128": distance_gain(series="cifar10", value=128),
            "second_others": distance_gain(series="cifar10", value=[64, 96, 192, 256, 384], by=["value"]),
        },
    ),
    Claim(
        "infomin.colour-information",
        "Luma and colour differences (Lab, YDbDr, YIQ) share less than red shares with green and blue, or X with Y "
        "and Z.",
        lambda luma_and_colour, rgb, xyz: (luma_and_colour < rgb).all() & (luma_and_colour < xyz).all(),
        where=["infomin.fig5"],
        values={
            "luma_and_colour": colour_information(series=LUMA_AND_COLOUR, by=["series"]),
            "rgb": colour_information(series="rgb"),
            "xyz": colour_information(series="xyz"),
        },
    ),
    Claim(
        "infomin.colour-accuracy",
        "Colour spaces whose channels share less than those of RGB give a better linear probe (Lab, YDbDr and YIQ "
        "over RGB).",
        lambda gains: (gains > 0).all(),
        where=["infomin.fig5"],
        values={"gains": colour_gain(value=LUMA_AND_COLOUR, by=["value"])},
    ),
    Claim(
        "infomin.colour-segmentation",
        "Colour spaces whose channels share less than those of RGB give a better mean IoU (Lab, YDbDr and YIQ over "
        "RGB).",
        lambda gains: (gains > 0).all(),
        where=["infomin.fig5"],
        values={"gains": estimate("colour/spaces.csv", "mean_iou_gain_percent", series=LUMA_AND_COLOUR, by=["series"])},
    ),
    Claim(
        "infomin.colour-spaces",
        "Among natural colour spaces accuracy is higher where the channels share least than where they share most, "
        "and YDbDr is best.",
        lambda by_rising_information, ydbdr, others: (
            (by_rising_information.first() > by_rising_information.last()) & (ydbdr > others).all()
        ),
        where=["infomin.fig5"],
        values={
            "by_rising_information": colour_gain(by=["held_out_nats"]),
            "ydbdr": colour_gain(value="ydbdr"),
            "others": colour_gain(value=["rgb", "lab", "yiq"], by=["value"]),
        },
    ),
    Claim(
        "infomin.frequency-information",
        "Of low against high frequencies the shared information is largest at a blur of 0.7.",
        lambda at_0_7, others: (at_0_7 > others).all(),
        where=["infomin.fig6"],
        values={
            "at_0_7": estimate(BLURS, "held_out_nats", value=0.7),
            "others": estimate(BLURS, "held_out_nats", value=[0.25, 0.4, 1.0, 1.5, 2.0, 2.5, 4.0], by=["value"]),
        },
    ),
    Claim(
        "infomin.frequency-reverse-u",
        "Accuracy over the blur that divides low from high frequencies is a reverse U.",
        lambda gain: gain.reverse_u(),
        where=["infomin.fig6"],
        values={"gain": blur_gain(by=["value"])},
    ),
    Claim(
        "infomin.frequency-sweet-spot",
        "Beyond a blur of 0.7 the sweet spot is 1.0; a weaker one only loses accuracy.",
        lambda others, at_1, weaker: (at_1 > others).all() & weaker.rising(),
        where=["infomin.fig6"],
        values={
            "others": blur_gain(value=[0.7, 1.5, 2.0, 2.5, 4.0], by=["value"]),
            "at_1": blur_gain(value=1.0),
            "weaker": blur_gain(value=[0.25, 0.4, 0.7], by=["value"]),
        },
    ),
    Claim(
        "infomin.flow-all-channels",
        "A random invertible map of all channels usually raises the shared information and lowers accuracy.",
        lambda information, raw_information, gain: (
            ((information > raw_information).share() > 0.5) & ((gain < 0).share() > 0.5)
        ),
        where=["infomin.fig8"],
        values={
            "information": view_information(learns="nothing", changes="all"),
            "raw_information": view_information(learns="raw input"),
            "gain": view_gain(learns="nothing", changes="all", by=["backbone", "space"]),
        },
    ),
    Claim(
        "infomin.flow-one-view",
        "A random invertible map of only one view changes neither.",
        lambda information, raw_information, gain: (
            (abs(information - raw_information) <= 0.1).all() & (abs(gain) <= 1).all()
        ),
        where=["infomin.fig8"],
        values={
            "information": view_information(learns="nothing", changes="rest"),
            "raw_information": view_information(learns="raw input"),
            "gain": view_gain(learns="nothing", changes="rest", by=["backbone", "space"]),
        },
    ),
    Claim(
        "infomin.learned-unsupervised",
        "Views learned without labels overshoot the sweet spot, with less shared information than raw ones and no "
        "better accuracy; training is less stable than with some labels.",
        lambda information, raw_information, gain, interval, interval_with_labels: (
            (information < raw_information).all() & (gain <= 0).all() & (interval.mean() > interval_with_labels.mean())
        ),
        where=["infomin.fig9", "infomin.table2"],
        values={
            "information": view_information(learns="unsupervised"),
            "raw_information": view_information(learns="raw input"),
            "gain": view_gain(learns="unsupervised", by=["backbone", "space"]),
            "interval": view_interval(learns="unsupervised"),
            "interval_with_labels": view_interval(learns="semi-supervised"),
        },
    ),
    Claim(
        "infomin.learned-semisupervised",
        "Views learned with some labels gather at the sweet spot and beat those learned only with labels.",
        lambda gain: (gain > 0).all(),
        where=["infomin.fig9", "infomin.table2"],
        size=lambda gain: gain.near(6.1, 8.5),
        dataset=["STL10"],
        values={
            "gain": estimate(
                "cifar10_view_learning/pairs.csv",
                "gain_percent",
                base=["supervised-rgb", "supervised-ydbdr"],
                by=["series", "backbone"],
            )
        },
    ),
    Claim(
        "infomin.learned-with-labels",
        "Views learned with some labels beat those learned without.",
        lambda gain: (gain > 0).all(),
        where=["infomin.fig9", "infomin.table2"],
        size=lambda gain: gain.near(3.6, 2.7),
        dataset=["STL10"],
        values={
            "gain": estimate(
                "cifar10_view_learning/pairs.csv",
                "gain_percent",
                base=["unsupervised-rgb", "unsupervised-ydbdr"],
                by=["series", "backbone"],
            )
        },
    ),
    Claim(
        "infomin.learned-beats-raw",
        "Views learned with some labels beat the raw colour space, with larger backbones too.",
        lambda gain: (gain > 0).all(),
        where=["infomin.table2", "infomin.table3", "infomin.text.table3_grgb"],
        size=lambda gain: gain.near(4.5, 0.4),
        dataset=["STL10"],
        values={
            "gain": view_gain(
                series=["semi-supervised-rgb", "semi-supervised-ydbdr"], by=["series", "backbone"], smallest=0.4
            )
        },
    ),
    Claim(
        "infomin.augmentation-reduces",
        "As stronger augmentation lowers the shared information, accuracy rises steadily; even the strongest has not"
        " reached the sweet spot.",
        lambda gain_by_information: gain_by_information.falling(),
        where=["infomin.fig10"],
        values={
            "gain_by_information": estimate(
                "cifar10_strength/steps.csv", "linear_gain_percent", series=STEPS, by=["held_out_nats"]
            )
        },
    ),
    Claim(
        "infomin.crop-reverse-u",
        "With a linear head, accuracy over the least share of the image that a crop has is a reverse U, from 0.08 to "
        "0.5 as in the paper.",
        lambda gain: gain.reverse_u(),
        where=["infomin.fig11"],
        values={"gain": crop_gain(series="linear head", value=CROPS, by=["value"], least=7)},
    ),
    Claim(
        "infomin.crop-reverse-u-mlp",
        "With an MLP head accuracy over the least share of the image that a crop has is a reverse U as well, within "
        "the paper's 0.08 to 0.5.",
        lambda gain: gain.reverse_u(),
        where=["infomin.fig11"],
        values={"gain": crop_gain(series="MLP head", value=CROPS, by=["value"], least=7)},
    ),
    Claim(
        "infomin.crop-sweet-spot",
        "The sweet spot of crops is a least share of 0.2.",
        lambda linear, linear_at_0_2, mlp, mlp_at_0_2: (linear < linear_at_0_2).all() & (mlp < mlp_at_0_2).all(),
        where=["infomin.fig11"],
        values={
            "linear": crop_gain(series="linear head", value=OTHER_CROPS, by=["value"], least=6),
            "linear_at_0_2": crop_gain(series="linear head", value=0.2),
            "mlp": crop_gain(series="MLP head", value=OTHER_CROPS, by=["value"], least=6),
            "mlp_at_0_2": crop_gain(series="MLP head", value=0.2),
        },
    ),
    Claim(
        "infomin.crop-usual",
        "The usual 0.08 loses (more than a point in the paper) against 0.2 with the MLP head.",
        lambda at_0_08, at_0_2: at_0_08 < at_0_2,
        where=["infomin.fig11"],
        values={
            "at_0_08": crop_gain(series="MLP head", value=0.08),
            "at_0_2": crop_gain(series="MLP head", value=0.2),
        },
    ),
    Claim(
        "infomin.jitter-reverse-u",
        "Accuracy over the strength of colour jitter is a reverse U, from 0.125 to 2.5 as in the paper.",
        lambda gain: gain.reverse_u(),
        where=["infomin.fig12"],
        values={"gain": jitter_gain(series="linear head", value=JITTERS, by=["value"], least=7)},
    ),
    Claim(
        "infomin.jitter-sweet-spot",
        "The sweet spot of jitter is a strength around 1.0.",
        lambda gain, gain_at_1: (gain < gain_at_1).all(),
        where=["infomin.fig12"],
        values={
            "gain": jitter_gain(series="linear head", value=OTHER_JITTERS, by=["value"], least=6),
            "gain_at_1": jitter_gain(series="linear head", value=1.0),
        },
    ),
    Claim(
        "infomin.jitter-mlp",
        "Around its sweet spot accuracy is more sensitive to the strength of jitter with an MLP head than with a linear"
        " one, and so it is to crops.",
        lambda jitter, jitter_at_1, jitter_mlp, jitter_mlp_at_1, crop, crop_at_0_2, crop_mlp, crop_mlp_at_0_2: (
            (jitter_mlp.mean() - jitter_mlp_at_1 < jitter.mean() - jitter_at_1)
            & (crop_mlp.mean() - crop_mlp_at_0_2 < crop.mean() - crop_at_0_2)
        ),
        where=["infomin.fig11", "infomin.fig12"],
        values={  # the paper's sweet spots, and their neighbours on both sides
            "jitter": jitter_gain(series="linear head", value=[0.5, 1.5], by=["value"]),
            "jitter_at_1": jitter_gain(series="linear head", value=1.0),
            "jitter_mlp": jitter_gain(series="MLP head", value=[0.5, 1.5], by=["value"]),
            "jitter_mlp_at_1": jitter_gain(series="MLP head", value=1.0),
            "crop": crop_gain(series="linear head", value=[0.15, 0.25], by=["value"]),
            "crop_at_0_2": crop_gain(series="linear head", value=0.2),
            "crop_mlp": crop_gain(series="MLP head", value=[0.15, 0.25], by=["value"]),
            "crop_mlp_at_0_2": crop_gain(series="MLP head", value=0.2),
        },
    ),
    Claim(
        "infomin.augmentation-chain",
        "A jigsaw branch, then an MLP head, each add to RA-CJ-Blur (about two points).",
        lambda jigsaw, both: (jigsaw > 0) & (both - jigsaw > 0),
        where=["infomin.text.aug_chain"],
        size=lambda jigsaw, both: jigsaw.near(2.3) & both.near(3.7),
        dataset=["ImageNet"],
        values={"jigsaw": branch_gain(series="+ jigsaw"), "both": branch_gain(series="+ MLP head")},
    ),
    Claim(
        "infomin.imagenet",
        "InfoMin augmentation reaches 70.1 percent in 200 epochs, more than SimCLR in 1000, and 73.0 in 800, the "
        "best of its time.",
        lambda infomin_200, infomin_800, simclr_1000, others: (
            (infomin_200 > simclr_1000) & (infomin_800 > others.max())
        ),
        where=["infomin.table4"],
    ),
    Claim(
        "infomin.capacity",
        "Larger networks improve its linear evaluation significantly, to 75.2 percent with ResNeXt-152.",
        lambda accuracy_by_size: accuracy_by_size.last() > accuracy_by_size.first(),
        where=["infomin.table14"],
    ),
    Claim(
        "infomin.coco",
        "Fine-tuned on COCO with ResNet-50 it consistently outperforms supervised pretraining, and is the only "
        "unsupervised method that does.",
        lambda infomin, supervised, other_of_table5, supervised_of_table5: (
            (infomin > supervised).all() & ~(other_of_table5 > supervised_of_table5).all()
        ),
        where=[
            "infomin.table5a",
            "infomin.table5b",
            "infomin.table7a",
            "infomin.table7b",
            "infomin.table8a",
            "infomin.table8b",
        ],
    ),
    Claim(
        "infomin.voc",
        "On Pascal VOC detection it outperforms supervised pretraining and the other unsupervised methods.",
        lambda infomin, others: infomin > others.max(),
        where=["infomin.table6"],
    ),
    Claim(
        "infomin.coco-larger",
        "It outperforms supervised pretraining on COCO with larger backbones and better detectors too, for one, two "
        "and six schedules.",
        lambda infomin, supervised: (infomin > supervised).all(),
        where=[
            "infomin.table9a",
            "infomin.table9b",
            "infomin.table10a",
            "infomin.table10b",
            "infomin.table10c",
            "infomin.table11a",
            "infomin.table11b",
            "infomin.table11c",
            "infomin.table12a",
            "infomin.table12b",
        ],
    ),
    Claim(
        "infomin.coco-imagenet5k",
        "ResNeXt-152 pretrained by InfoMin on ImageNet-1K outperforms the one pretrained with labels on the six "
        "times larger ImageNet-5K.",
        lambda infomin, supervised: (infomin > supervised).all(),
        where=["infomin.table13a"],
    ),
]
