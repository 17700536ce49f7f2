"""From parameters and images to a training run, as the pretrain stage and the studies set it up."""

import logging
from collections.abc import Mapping
from typing import Any

import torch

from annulus.bounds.build import build_bound
from annulus.config.checks import check_memory
from annulus.config.images import ViewSetParams
from annulus.config.training import PretrainScale
from annulus.device.distributed import world_size
from annulus.device.space import check_space
from annulus.encoders.batchnorm import synchronised
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.methods.build import build_method, method_class
from annulus.methods.contrast import ContrastConfig
from annulus.methods.step import Setting
from annulus.negatives.build import build_annealing, build_neighbours, build_sampler
from annulus.training.loop import Training
from annulus.training.recipe import Recipe
from annulus.training.small_data import for_few_images
from annulus.training.space import bytes_needed
from annulus.views.splits import channel_statistics, split_of

log = logging.getLogger("annulus")


def build_training(params: Mapping[str, Any], images: ImageSet, validation: ImageSet, device: torch.device) -> Training:
    """A run at its first step; `params` holds what stages/pretrain.py reads, under the same names.

    Warns of what the choices lose, in a sentence each.

    Raises:
        InputError: when the images cannot serve the choices.
    """
    method_params, scale, seed = params["methods.${method}"], params["scales.${scale}.pretrain"], params["seed"]
    sampler, neighbours = params["samplers.${sampler}"], params["neighbour_sets.${neighbours}"]
    view_size = params["datasets.${dataset}.view_size"]
    if (patches := params["view_sets.${views}"].patches) is not None:
        patches.check(images.images.side, view_size)
        if method_class(method_params).views < 2:
            raise InputError(
                "views with patches are two of an image, and the method sees one; take method: moco, simclr or simo"
            )
    scale, sampler, neighbours = for_few_images(len(images), scale, sampler, neighbours)
    check_memory(len(images), method_params, sampler, scale)
    contrast = ContrastConfig(
        build_sampler(sampler),
        build_neighbours(neighbours),
        build_bound(params["bounds.${bound}"]),
        scale.negatives if method_params.negatives == "sampled" else "all",
    )
    columns = method_params.negative_columns(len(images), scale)
    queries = scale.batch_size * method_class(method_params).queries_per_image
    config = encoder_config(params, images)
    with torch.device("meta"):  # nothing is allocated
        weights = sum(weight.numel() for weight in build_encoder(config, seed).parameters())
    check_space(
        bytes_needed(
            images,
            config.view_size,
            method_params,
            scale,
            params["optimizer"],
            weights,
            queries,
            columns,
            1 if config.split is None else 2,
        ),
        device,
        "lower batch_size, negatives or queue in scales.SCALE.pretrain, or methods.METHOD.embedding_dim, "
        "or take a smaller backbone",
    )
    for warning in contrast.warnings_for(columns, queries):
        log.warning("%s", warning)
    encoder = build_encoder(config, seed)
    shown = len(images) // scale.batch_size * scale.batch_size
    method = build_method(encoder, method_params, Setting(contrast, len(images), shown, scale.queue, seed, device))
    if world_size() > 1:  # two processes give the numbers of one: so must their batch statistics
        synchronised(method.encoder)
    recipe = Recipe(
        scale,
        scaled_learning_rate(scale),
        params["optimizer"],
        params["schedules.${schedule}"],
        build_annealing(params["anneals.${anneal}"]),
        view_set(params),
        contrast.sampler,
        seed,
    )
    return Training(method, images, validation, recipe, device)


def scaled_learning_rate(scale: PretrainScale) -> float:
    """The linear rule: the rate is proportional to the number of queries in a batch.

    Source: Zhu et al. 2020, arXiv:2010.01929, Eq. 8.
    """
    return scale.learning_rate * scale.batch_size / 256


def view_set(params: Mapping[str, Any]) -> ViewSetParams:
    """The views that a method sees: without greyscale where colours are split, which a grey view lacks.

    Source: Wu et al. 2020, arXiv:2005.13149, Appendix C.2.
    """
    views = params["view_sets.${views}"]
    if params["splits.${split}"].space is None or views.grayscale == 0:
        return views
    log.info(
        "a split of colours leaves out the views' greyscale (probability %g): a grey view has none", views.grayscale
    )
    return views.model_copy(update={"grayscale": 0.0})


def encoder_config(params: Mapping[str, Any], images: ImageSet) -> EncoderConfig:
    """The encoder that a method trains: of RGB, or two networks, each of a part of the image.

    A view generator, where a run has one, takes the place of the split.

    Raises:
        InputError: when colours are split and the images have none.
    """
    method, backbone = params["methods.${method}"], params["backbones.${backbone}"]
    split = split_of(params.get("generator", params["splits.${split}"].described))
    mean, std = images.channel_statistics() if split is None else channel_statistics(images.images, split)
    return EncoderConfig(
        architecture=backbone.architecture,
        stem=backbone.stem,
        head=method.head,
        embedding_dim=method.embedding_dim,
        view_size=params["datasets.${dataset}.view_size"],
        split=split,
        mean=mean,
        std=std,
    )
