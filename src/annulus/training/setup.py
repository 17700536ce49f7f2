"""From parameters and images to a training run, as the pretrain stage and the studies set it up."""

import logging
from dataclasses import replace

import torch

from annulus.device.distributed import world_size
from annulus.device.space import check_space
from annulus.encoders.batchnorm import synchronised
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.methods.contrast_config import ContrastConfig
from annulus.methods.step import Setting
from annulus.negatives.neighbours import NoNeighbours
from annulus.training.limits import check_groups, check_memory
from annulus.training.loop import Training
from annulus.training.run import Run
from annulus.training.small_data import for_few_images
from annulus.training.space import bytes_needed
from annulus.views.settings import ViewSet
from annulus.views.splits import channel_statistics, keeping_colour

log = logging.getLogger("annulus")

CONVNET_PIXELS = 64  # a side, up to which four convolutions see an image's parts together


def build_training(run: Run, images: ImageSet, validation: ImageSet, device: torch.device) -> Training:
    """A pretraining at its first step.

    Warns of settings that run but give up a guarantee, one sentence each.

    Raises:
        InputError: when there are too few images for the settings.
    """
    method = run.method.method
    if (patches := run.views.patches) is not None:
        patches.check(images.images.side, run.view_size)
        if method.views < 2:
            raise InputError(
                "views with patches are two of an image, and the method sees one; take method: moco, simclr or simo"
            )
    run = for_few_images(len(images), run)
    budget, split = run.budget, run.split
    check_groups(run.method, budget)
    check_memory(len(images), run.method, run.sampler, budget)
    contrast = ContrastConfig(
        run.sampler,
        None if isinstance(run.neighbours, NoNeighbours) else run.neighbours,
        run.bound,
        budget.negatives if run.method.negatives == "sampled" else "all",
    )
    columns = run.method.negative_columns(len(images), budget.batch_size, budget.queue)
    queries = budget.batch_size * method.queries_per_image
    config = encoder_config(run, images)
    with torch.device("meta"):  # nothing is allocated
        weights = sum(weight.numel() for weight in build_encoder(config, run.seed).parameters())
    check_space(
        bytes_needed(images, run, weights, queries, columns, 1 if split is None else 2),
        device,
        "lower batch_size, negatives or queue in scales.SCALE.pretrain, or methods.METHOD.embedding_dim, "
        "or take a smaller backbone",
    )
    for warning in contrast.warnings_for(columns, queries):
        log.warning("%s", warning)
    if run.backbone.architecture == "convnet" and run.view_size > CONVNET_PIXELS:
        log.warning(
            "backbone convnet is for images of some twenty pixels, and here they have %d; take resnet18",
            run.view_size,
        )
    shown = len(images) // budget.batch_size * budget.batch_size
    setting = Setting(contrast, len(images), shown, budget.queue, run.seed, device)
    built = method(build_encoder(config, run.seed), run.method, setting)
    if world_size() > 1:  # two processes give the numbers of one: so must their batch statistics
        synchronised(built.encoder)
    return Training(built, images, validation, replace(run, views=view_set(run)), device)


def view_set(run: Run) -> ViewSet:
    """The views that a method sees: a split of colours leaves out their greyscale."""
    views = keeping_colour(run.views, run.split)
    if views != run.views:
        log.info(
            "a split of colours leaves out the views' greyscale (probability %g): a grey view has none",
            run.views.grayscale,
        )
    return views


def encoder_config(run: Run, images: ImageSet) -> EncoderConfig:
    """The encoder that a method trains: of RGB, or two networks, each of a part of the image.

    Raises:
        InputError: when colours are split and the images have none.
    """
    split = run.split
    mean, std = images.channel_statistics() if split is None else channel_statistics(images.images, split)
    return EncoderConfig(
        architecture=run.backbone.architecture,
        stem=run.backbone.stem,
        head=run.method.head,
        embedding_dim=run.method.embedding_dim,
        view_size=run.view_size,
        split=split,
        mean=mean,
        std=std,
    )
