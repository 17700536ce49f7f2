"""From parameters and images to a training run, as the pretrain stage and the studies set it up."""

import logging
import math
from collections.abc import Mapping
from typing import Any

import torch

from annulus.bounds.alpha import cpc_warning, mlcpc_warning
from annulus.compute.distributed import world
from annulus.config.bounds import BoundParams, CPCParams, InfoNCEParams, LAOriginalParams, LAParams, MLCPCParams
from annulus.config.checks import check_memory, memory_others
from annulus.config.images import ViewSetParams
from annulus.config.methods import CMCParams, SimCLRParams
from annulus.config.negatives import CloseNeighbours, ClusterNeighbours, NeighbourParams, NoNeighbours, RingParams
from annulus.encoders.batchnorm import synchronised
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.lab import lab_statistics
from annulus.files.images import ImageSet
from annulus.methods.build import build_method
from annulus.methods.contrast import Objective
from annulus.methods.step import Setting
from annulus.ranks import kept_shares, rank_limits
from annulus.training.few import for_few_images
from annulus.training.loop import Recipe, Training

log = logging.getLogger("annulus")


def build_training(params: Mapping[str, Any], images: ImageSet, validation: ImageSet, device: torch.device) -> Training:
    """A run at its first step; `params` holds what stages/pretrain.py reads, under the same names.

    Warns of what the choices lose, in a sentence each.

    Raises:
        InputError: when the images cannot serve the choices.
    """
    method_params, scale, seed = params["methods.${method}"], params["scales.${scale}.pretrain"], params["seed"]
    sampler, neighbours = params["samplers.${sampler}"], params["neighbour_sets.${neighbours}"]
    scale, sampler, neighbours = for_few_images(len(images), scale, sampler, neighbours)
    check_memory(len(images), method_params, sampler, scale)
    objective = Objective(
        sampler, neighbours, params["bounds.${bound}"], "all" if method_params.draw == "all" else scale.negatives
    )
    others = memory_others(len(images), method_params, scale)
    queries = scale.batch_size * (2 if isinstance(method_params, SimCLRParams) else 1)
    for caution in cautions(objective, others, queries):
        log.warning("%s", caution)
    encoder = build_encoder(encoder_config(params, images), seed)
    method = build_method(encoder, method_params, Setting(objective, len(images), scale.queue, seed, device))
    if world() > 1:  # two processes give the numbers of one: so must their batch statistics
        synchronised(method.encoder)
    recipe = Recipe(
        scale,
        params["optimizer"],
        params["schedules.${schedule}"],
        params["anneals.${anneal}"],
        view_set(params),
        sampler,
        seed,
    )
    return Training(method, images, validation, recipe, device)


def view_set(params: Mapping[str, Any]) -> ViewSetParams:
    """The views that a method sees: for cmc without greyscale, since a grey view has no colours (mutualinfo 5.2)."""
    views = params["view_sets.${views}"]
    if not isinstance(params["methods.${method}"], CMCParams) or views.grayscale == 0:
        return views
    log.info(
        "cmc leaves out the views' greyscale (probability %g): a grey view has no colours to find", views.grayscale
    )
    return views.model_copy(update={"grayscale": 0.0})


def encoder_config(params: Mapping[str, Any], images: ImageSet) -> EncoderConfig:
    """The encoder that a method trains: of RGB, or for cmc two networks, of L and of ab.

    Raises:
        InputError: for cmc, when the images have no colour.
    """
    method = params["methods.${method}"]
    lab = isinstance(method, CMCParams)
    mean, std = lab_statistics(images.images) if lab else images.channel_statistics()
    return EncoderConfig.of(
        params["backbones.${backbone}"],
        head=method.head,
        embedding_dim=method.embedding_dim,
        view_size=params["datasets.${dataset}.view_size"],
        channels="lab" if lab else "rgb",
        mean=mean,
        std=std,
    )


def cautions(objective: Objective, others: int, queries: int) -> list[str]:
    """What runs but loses something, in a sentence each; `others` columns of the memory may be negatives."""
    found = [_neighbour_caution(objective.neighbours), _aggregation_caution(objective)]
    inner, outer = kept_shares(objective.sampler.shares, 1.0)
    first, last = rank_limits(inner, outer, others)
    k = last - first if objective.negatives == "all" else objective.negatives
    found += [_repeat_caution(objective, others), *_bound_cautions(objective.bound, k, queries)]
    return [caution for caution in found if caution is not None]


def _neighbour_caution(neighbours: NeighbourParams) -> str | None:
    match neighbours:
        case CloseNeighbours(until=0.0):
            way_out = "let neighbour_sets.s.start be 0.05, say, and until 0.5"
        case ClusterNeighbours(start=0.0):
            way_out = "let neighbour_sets.k.start be 0.05, say"
        case _:
            return None
    return (
        "neighbours from the first step on are neighbours by chance, and the paper's runs got worse by them "
        f"(mutualinfo table 1, + s-neigh without anneal); {way_out}"
    )


def _repeat_caution(objective: Objective, others: int) -> str | None:
    if objective.negatives == "all" or objective.negatives <= others:
        return None
    return (
        f"scales.SCALE.pretrain.negatives: {objective.negatives} negatives of a query are drawn, with replacement, "
        f"from a memory of {others} other rows, so that rows repeat; take fewer, or a larger memory"
    )


def _aggregation_caution(objective: Objective) -> str | None:
    aggregates = isinstance(objective.bound, LAParams | LAOriginalParams)
    if (
        not aggregates
        or isinstance(objective.neighbours, NoNeighbours)
        or not isinstance(objective.sampler, RingParams)
    ):
        return None
    return (
        f"la counts neighbours among the negatives' own set alone, and the ring leaves out the closest "
        f"{objective.sampler.inner:.2%}, where most neighbours are; take sampler: ball, or bound: infonce"
    )


def _bound_cautions(bound: BoundParams, k: int, queries: int) -> list[str | None]:
    m = k + 1

    def effective(alpha: float) -> float:
        """The alpha that gives the same weights without the margin."""
        if bound.eqco_alpha is None or alpha >= m:  # with so few negatives it is refused, should it come to that
            return alpha
        beta = (m - alpha) / (m - 1)
        return m / (1 + beta * bound.eqco_alpha / alpha)

    match bound:
        case MLCPCParams():
            ends = dict.fromkeys((bound.alpha_start, bound.alpha_end))
            return [mlcpc_warning(effective(alpha), m, queries) for alpha in ends]
        case CPCParams():
            return [cpc_warning(effective(bound.alpha), m)]
        case InfoNCEParams(eqco_alpha=eqco_alpha) if eqco_alpha is not None and eqco_alpha > k:
            return [
                f"eqco_alpha {eqco_alpha:g} is more than the {k} negatives: the estimate may exceed the information by "
                f"up to log((1 + eqco_alpha)/(1 + K)) = {math.log((1 + eqco_alpha) / (1 + k)):.3g} nats"
            ]
    return []
