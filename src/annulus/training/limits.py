"""Checks that the choices fit one another, and that the images suffice for the batch, the queue and the sampler."""

from annulus.bounds.bound import Bound
from annulus.bounds.hcl import HCL
from annulus.bounds.sigmoid import Sigmoid
from annulus.bounds.simple import Simple
from annulus.errors import InputError
from annulus.methods.step import MethodSettings
from annulus.negatives.annealing import Annealing, CosineTemperature
from annulus.negatives.mochi import MoCHi
from annulus.negatives.neighbours import NearestRow, Neighbours, NoNeighbours
from annulus.negatives.other_class import OtherClass
from annulus.negatives.ranks import rank_limits
from annulus.negatives.samplers import Sampler
from annulus.training.budget import Budget

LEAST_BATCH = 8  # images; a batch above the number of images shrinks to a multiple, for processes and groups to share


def check_choices(
    method: MethodSettings,
    bound: Bound,
    sampler: Sampler,
    annealing: Annealing,
    neighbours: Neighbours | NoNeighbours,
) -> None:
    """Checks that the choices fit together.

    Raises:
        InputError: with two conflicting choices, and possible ones.
    """
    critic = getattr(method, "critic", "dot")
    tempered, kept = critic in ("dot", "bilinear"), bound.at(method.temperature)
    if not tempered and (kept is not bound or isinstance(annealing, CosineTemperature)):
        what = "anneal: temperature changes" if kept is bound else f"{type(bound).__name__} has a constant of"
        raise InputError(f"{what} the temperature, and critic: {critic} has none; take critic: dot or bilinear")
    if kept is not bound and isinstance(annealing, CosineTemperature):
        raise InputError(
            f"{type(bound).__name__} has a constant of one temperature, and anneal: temperature changes it; take "
            "anneal: none, or bound: infonce"
        )
    if isinstance(bound, Sigmoid | Simple) and isinstance(annealing, CosineTemperature):
        why = "learns its own scale" if isinstance(bound, Sigmoid) else "has no softmax that a temperature sharpens"
        raise InputError(
            f"bound: {type(bound).__name__.lower()} {why}, and anneal: temperature changes the method's; take anneal: "
            "none, or bound: infonce"
        )
    if isinstance(sampler, MoCHi) and (method.method.memory == "batch" or critic != "dot"):
        raise InputError(
            "sampler: mochi mixes rows of a memory, and critic: dot scores them; take method: ir, pirl, moco or "
            "moco-jigsaw, with critic: dot"
        )
    if isinstance(neighbours, NearestRow) and not (method.keeps_bank and tempered):
        raise InputError(
            "neighbours: nearest take the place of the query's own row, by dot products of rows; take method: ir or "
            "pirl, with critic: dot or bilinear"
        )
    if isinstance(sampler, OtherClass) and isinstance(bound, HCL) and bound.tau_plus > 0:
        raise InputError(
            f"bounds.hcl.tau_plus: {bound.tau_plus:g} corrects for negatives of the query's class, and sampler: "
            "other-class draws none; take tau_plus: 0"
        )


def check_groups(method: MethodSettings, budget: Budget, scale: str = "SCALE") -> None:
    """Checks that the batch divides into equal groups of a shuffled batch-norm.

    Raises:
        InputError: with the numbers and the keys to change.
    """
    groups, batch = method.norm_groups, budget.batch_size
    if batch % groups:
        raise InputError(
            f"methods.METHOD.shuffle_groups: {groups} does not divide scales.{scale}.pretrain.batch_size: {batch} into "
            "equal groups; take a number that does"
        )


def check_memory(images: int, method: MethodSettings, sampler: Sampler, budget: Budget, scale: str = "SCALE") -> None:
    """Checks that `images` training images suffice for the batch, the queue and the sampler.

    Fewer images than a batch or clusters are valid: training.small_data adjusts these first. With fewer images than
    negatives, rows repeat.

    Raises:
        InputError: with the numbers and the key to change.
    """
    place = f"scales.{scale}.pretrain"
    if images < min(budget.batch_size, LEAST_BATCH):
        raise InputError(
            f"{place}.batch_size: {budget.batch_size} is more than the {images} training "
            "images; take a smaller batch or more images"
        )
    if method.keeps_queue and budget.queue < budget.batch_size:
        raise InputError(
            f"{place}.queue: {budget.queue} is shorter than the batch of {budget.batch_size}, "
            "whose keys it must hold; take a longer queue or a smaller batch"
        )
    # A queue may hold keys of the query's own image: then shares apply to one column less.
    rank_limits(*sampler.shares, method.negative_columns(images, budget.batch_size, budget.queue) - method.keeps_queue)
