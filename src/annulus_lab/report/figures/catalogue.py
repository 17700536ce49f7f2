"""The page's figures: the files, the title and the finding of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from annulus_lab.report.figures.distillation import over_alpha
from annulus_lab.report.figures.drawing import Row
from annulus_lab.report.figures.gains import base_name, compared_rows, gains
from annulus_lab.report.figures.law import CONTROL_FILES, REAL, SYNTHETIC, later_losses, law
from annulus_lab.report.figures.moving_digits import moving_digits
from annulus_lab.report.figures.studies import (
    LINEAR,
    NN1,
    accuracy,
    bias_and_spread,
    binary_errors,
    binary_values,
    conditional,
    gaussians,
    geometry,
    gradient,
    ideal,
    over_start,
    over_training,
    stability,
    staircase,
)
from annulus_lab.report.figures.transfer import transfer
from annulus_lab.report.figures.views import (
    against_information,
    colour_spaces,
    distance,
    flow_probe,
    generator_probe,
    learned_planes,
    spirals,
)

SEEDS = "Bars: standard deviation over seeds."
INTERVALS = "Bars: 95 % intervals."


@dataclass(frozen=True)
class Plot:
    """Figure of the page. `name`: its id in published.yaml, if it has one. `section`: its place on the page."""

    name: str
    title: str
    section: str  # comparison | law | papers | curves | diagnostics
    files: tuple[str, ...]  # metrics files, as law/moco.csv
    draw: Callable[..., Figure]
    paper_id: str = ""  # id in published.yaml of the quoted finding, if it differs from the name
    bars: str = ""  # meaning of the error bars


# Findings of figures without one in published.yaml: drawn from tables, or ours alone.
FINDINGS = {
    "mutualinfo.table3": "On a toy of known information NCE comes closest to it; CNCE falls by orders of magnitude as "
    "fewer, closer negatives are kept.",
    "infomin.table1": "A task is solved when the views share its factor; a shared background drives digit and position "
    "out, a shared digit the position.",
    "ring.table3": "Features learned with a ring transfer as well as their base's or better, by 0.5 to 2 points; most "
    "of all to traffic signs and flowers.",
    "eqco.table9": "InfoNCE's estimate is capped by the logarithm of the number of pairs; EqCo's is not.",
    "mlcpc.fig1": "alpha-CPC can exceed log 2; ML-CPC with alpha >= alpha_{m,n}, the lowest that is proven, stays "
    "below. (The largest estimates leave the picture.)",
    "estimators.ideal": "The critic is the true density ratio of 20-dimensional Gaussians, so what is missing is the "
    "bound's own: no training is involved.",
    "ring.appC": "Theorem 3.2: conditional negatives make the estimate lower and less variable. (A std of 0 "
    "has no place on the logarithmic axis.)",
    "law": "A point is a temperature with a count of negatives, of IR with a small network and 5,000 images unless "
    "others are named; samplers anneal. Each series is moved 1 % aside from the next. Dashed, with its interval: an "
    "oracle, whose negatives are of other classes.",
    "law.controls": "The weight under HCL is the closest tenth's share of HCL's own gradient.",
    "law.drawn": "The same for images that the package draws (algorithms' fog).",
    "ring.table1a": "MoCoRing is compared with MoCo, CMCRing with CMC.",
    "curve.bound": "The bound, log(1 + K) minus the loss, on the information between views; its ceiling is log(1 + K).",
    "curve.accuracy": "Share of the validation images whose nearest row of the memory has their class.",
    "curve.share": "Ranks by similarity to the query, closest first, between which the negatives are drawn.",
    "curve.gradient": "Line: mean over the queries of an epoch. Band: one standard deviation on each side.",
    "curve.linear": "Features are frozen; the last epoch is what is reported.",
    "diagnostics.radii": "Cosine similarity to the query at which the ring begins and ends, and the set that training "
    "drew from; mean over fixed queries.",
    "diagnostics.false-negatives": "Share of each sampler's set that has the query's own label. Training never sees a "
    "label.",
    "diagnostics.geometry": "Alignment and uniformity: Wang and Isola 2020. Tolerance: Wang and Liu 2021. "
    "Effective rank: Roy and Vetterli 2007.",
}


def _sweep(name: str, part: str, x: str, title: str, y: str = "nn1_top1") -> Plot:
    """Returns a figure of a study's part: accuracy over the values of a setting."""
    unit = {"nn1_top1": NN1, "linear_top1": LINEAR}[y]
    draw = partial(accuracy, x="value", y=f"{y}_percent", label=x, unit=unit, half=f"{y}_interval_percent", log_x=True)
    return Plot(name, title, "papers", (f"{part}.csv",), draw, bars=INTERVALS)


def _epochs(name: str, part: str, title: str, paper_id: str = "") -> Plot:
    """Returns a figure of a study's part: accuracy over epochs."""
    draw = partial(accuracy, x="x", y="nn1_top1_percent", label="epoch", unit=NN1)
    return Plot(name, title, "papers", (f"{part}_figure.csv",), draw, paper_id)


def _information_plot(name: str, title: str, *parts: str) -> Plot:
    """Returns a figure of a study's parts: accuracy against the information that two views share."""
    return Plot(name, title, "papers", tuple(f"{part}.csv" for part in parts), against_information, bars=INTERVALS)


def _curve(name: str, title: str, columns: dict[str, str], y: str, file: str, scale: float = 1.0) -> Plot:
    section = "diagnostics" if "diagnostics" in file else "curves"
    return Plot(name, title, section, (file,), partial(over_training, columns=columns, y=y, scale=scale))


def comparisons(rows: Sequence[Row], file: str) -> list[Plot]:
    """Returns a comparison figure for each table of the papers with rows in a study's table."""
    plots, study = [], file.partition("/")[0]
    for table, table_rows in compared_rows(rows).items():
        title = f"Linear probe, gain over {base_name(rows, table)}"
        if table_rows:
            name = f"gain.{study}.{table}"
            plots.append(Plot(name, title, "comparison", (file,), partial(gains, table=table), table))
    return plots


LATER_FILES = ("cifar10_later/table.csv", "cifar10_later/pairs.csv")
LAWS = [
    Plot("law", "When a sampler helps, on CIFAR-10", "law", tuple(REAL), partial(law, REAL), bars=INTERVALS),
    Plot("law.controls", "The same, where more than the temperature moves the weight", "law", tuple(CONTROL_FILES),
         partial(law, CONTROL_FILES), bars=INTERVALS),
    Plot("law.later", "Later losses, samplers and positives, over InfoNCE of the same temperature", "law", LATER_FILES,
         later_losses, bars=INTERVALS),
    Plot("law.drawn", "When a sampler helps, on images with fog", "law", tuple(SYNTHETIC), partial(law, SYNTHETIC),
         bars=INTERVALS),
]  # fmt: skip
PRETRAIN, LINEAR_HISTORY = "main/pretrain_history.csv", "main/linear_history.csv"
DIAGNOSTICS = "main/diagnostics_history.csv"
AUDITED = {f"false_negatives_{name}_percent": name for name in ("uniform", "ball", "ring", "cave", "chance")}
AUDITED |= {"false_negatives_training_percent": "as annealed so far"}
BORDERS = {
    "positive_similarity": "positives",
    "ring_inner_similarity": "ring, inner border",
    "ring_outer_similarity": "ring, outer border",
    "training_inner_similarity": "as annealed so far, inner",
    "training_outer_similarity": "as annealed so far, outer",
}

PLOTS = [
    _curve("curve.bound", "Bound and its ceiling", {"bound_nats": "bound", "ceiling_nats": "ceiling"}, "nats",
           PRETRAIN),
    _curve("curve.accuracy", "Validation accuracy of the nearest memory row and of a linear probe beside training",
           {"validation_nn1_percent": "nearest row", "online_linear_top1_percent": "linear probe"}, "accuracy, percent",
           PRETRAIN),
    _curve("curve.share", "Where the sampler's set begins and ends",
           {"outer_share": "outer border", "inner_share": "inner border"}, "rank, percent of the memory", PRETRAIN,
           100.0),
    Plot("curve.gradient", "Gradient's norm within an epoch: mean and std", "curves", (PRETRAIN,), gradient),
    _curve("curve.linear", "Linear probe", {"train_top1_percent": "training", "validation_top1_percent": "validation"},
           "accuracy, percent", LINEAR_HISTORY),
    _curve("diagnostics.radii", "Similarity at the borders of the negatives", BORDERS, "cosine", DIAGNOSTICS),
    _curve("diagnostics.false-negatives", "Negatives of the query's own class",
           AUDITED, "percent of the sampler's set", DIAGNOSTICS),
    Plot("diagnostics.geometry", "The embeddings over training", "diagnostics", (DIAGNOSTICS,), geometry),
    Plot("mutualinfo.fig2", "Stability of the objectives; bank rate", "papers",
         ("cifar10_negatives/stability_figure.csv", "cifar10_negatives/bank-rate.csv"), stability, bars=INTERVALS),
    _information_plot("mutualinfo.fig4", "Accuracy against what two views share", "cifar10_augmentations/noise",
            "cifar10_augmentations/crop", "cifar10_augmentations/small-crops"),
    _sweep("infomin.fig6", "cifar10_frequency/sigma", "blur, pixels",
           "Low against high frequencies, by the blur between them", "linear_top1"),
    _information_plot("infomin.fig10", "Stronger augmentation, step by step", "cifar10_strength/steps"),
    _information_plot("infomin.fig11", "How small crops may be", "cifar10_strength/crop"),
    _information_plot("infomin.fig12", "How strong colour jitter may be", "cifar10_strength/jitter"),
    _epochs("mutualinfo.fig5-ir", "cifar10_augmentations/ir", "Which augmentations IR needs", "mutualinfo.fig5"),
    _epochs("mutualinfo.fig5-cmc", "cifar10_augmentations/cmc", "Which augmentations CMC needs", "mutualinfo.fig5"),
    Plot("mutualinfo.fig6", "Two spirals seen through noise", "papers", ("spirals/points.csv", "spirals/curve.csv"),
         spirals, bars=INTERVALS),
    Plot("mutualinfo.fig6-planes", "The learned planes of the spirals", "papers", ("spirals/plane.csv",),
         learned_planes, "mutualinfo.fig6"),
    _epochs("mutualinfo.fig7", "cifar10_negatives/critic", "Witness functions"),
    _sweep("mutualinfo.fig9", "cifar10_negatives/count", "negatives", "How many negatives"),
    _sweep("mutualinfo.fig10", "cifar10_negatives/temperature", "temperature", "Temperature"),
    Plot("mutualinfo.table3", "NCE and CNCE on a toy of known information", "papers", ("estimators/conditional.csv",),
         conditional, bars="Bars: 95 % interval over seeds. cosine: the printed setting. cosine-slow-warm: a tenth of "
         "the printed learning rate, uniform negatives at first. Estimates of 0 and less have no place on the axis."),
    Plot("infomin.fig5", "Parts of a colour space as the two views", "papers", ("colour/spaces.csv",), colour_spaces,
         bars=INTERVALS),
    Plot("infomin.fig8", "Views after random flows", "papers", ("cifar10_view_learning/points.csv",), flow_probe,
         bars=INTERVALS),
    Plot("infomin.fig9", "Views that generators make", "papers",
         ("cifar10_view_learning/points.csv", "cifar10_view_learning/curves.csv"), generator_probe, bars=INTERVALS),
    Plot("infomin.table1", "Colourful moving digits: errors by what the views share", "papers",
         ("moving_digits/table.csv",), moving_digits, bars="Filled: the views share the factor that the task asks for. "
         + INTERVALS),
    Plot("mlcpc.fig1", "CPC and ML-CPC on the binary pair", "papers", ("estimators/binary.csv",), binary_values),
    Plot("mlcpc.fig2", "Bias and variance on the binary pair", "papers", ("estimators/binary.csv",), binary_errors),
    Plot("mlcpc.fig3-separable", "The staircase, separable critic", "papers", ("estimators/staircase-separable.csv",),
         staircase, "mlcpc.fig3"),
    Plot("mlcpc.fig3-joint", "The staircase, joint critic", "papers", ("estimators/staircase-joint.csv",),
         staircase, "mlcpc.fig3"),
    Plot("mlcpc.fig4", "Students over alpha", "papers", ("distillation/table.csv",), over_alpha, bars=INTERVALS),
    Plot("mlcpc.fig4-cifar10", "Students over alpha, on CIFAR-10", "papers", ("cifar10_distillation/table.csv",),
         over_alpha, "mlcpc.fig4", bars=INTERVALS),
    Plot("estimators.ideal", "Every estimator with the ideal critic", "papers", ("estimators/ideal.csv",), ideal,
         bars="Bars: standard deviation over repetitions."),
    Plot("infomin.fig4", "Patches of one image at a distance", "papers", ("distance/offsets.csv",), distance,
         bars=INTERVALS),
    Plot("eqco.fig1", "MoCo's bound at the end of training, with and without EqCo", "papers",
         ("cifar10_negatives/eqco-moco.csv",),
         partial(accuracy, x="value", y="bound_nats", half="bound_interval_nats", log_x=True, label="K, negatives",
                 unit="bound, nats"),
         bars=INTERVALS),
    _sweep("eqco.fig2", "cifar10_negatives/eqco-moco", "K, negatives", "MoCo with and without EqCo", "linear_top1"),
    _sweep("eqco.fig3", "cifar10_negatives/eqco-simo-256", "K, negatives", "SiMo with and without EqCo", "linear_top1"),
    Plot("eqco.fig4", "Gradient's norm with and without EqCo", "papers", ("cifar10_negatives/eqco-moco.csv",),
         partial(accuracy, x="value", y="gradient_mean_norm", half="gradient_std_norm", log_x=True,
                 label="K, negatives", unit="gradient norm"),
         bars="Bars: standard deviation over the last epoch's queries."),
    Plot("eqco.table9", "InfoNCE and EqCo on Gaussians of known information", "papers", ("estimators/gaussians.csv",),
         gaussians, bars=SEEDS),
    Plot("ring.fig2a", "Hard negatives from the start, or later", "papers", ("cifar10_negatives/start.csv",),
         over_start, bars=INTERVALS),
    _epochs("ring.fig2b", "cifar10_negatives/annealing", "Annealing policies"),
    Plot("ring.fig2c", "Closest rows from which annealing policies draw", "papers",
         ("cifar10_negatives/annealing_figure.csv",),
         partial(accuracy, x="x", y="kept_percent", label="epoch", unit="closest rows kept, percent")),
    Plot("ring.table3", "Transfer to image sets that encoders never saw", "papers", ("cifar10_transfer/gains.csv",),
         transfer, bars=INTERVALS),
    Plot("ring.appC", "Bias and spread of the estimate, one encoder held fixed", "papers", ("negatives/estimates.csv",),
         bias_and_spread),
]  # fmt: skip
