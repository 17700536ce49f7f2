"""Builds a training at its first step from settings and images, for the pretrain stage and the studies."""

import logging
from dataclasses import replace

import torch

from annulus.device.distributed import world_size
from annulus.encoders.batchnorm import synchronised
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.files.images import ImageSet
from annulus.methods.step import Method, Setting
from annulus.training.adaptation import Adaptation
from annulus.training.loop import Observer, Training
from annulus.training.measurement import Measurement
from annulus.training.online_probe import OnlineProbe
from annulus.training.preflight import check_run
from annulus.training.report import Report
from annulus.training.run import TrainingRun
from annulus.training.small_data import for_few_images
from annulus.training.soundness import Soundness
from annulus.training.validation import Validation
from annulus.views.splits import channel_statistics, keeping_colour

log = logging.getLogger("annulus")


def build_training(run: TrainingRun, images: ImageSet, validation: ImageSet, device: torch.device) -> Training:
    """Builds a training at its first step: adjusts the run to the images, checks it, then builds.

    Raises:
        InputError: if settings conflict, the images do not suffice for them, or the device has too little memory.
    """
    run = for_few_images(len(images), with_colour(run))
    config = encoder_config(run, images)
    check_run(run, config, images, validation, device)
    method = build_method(run, config, len(images), device)
    if method.contrasts[0].config.needs_classes:
        method.set_classes(images.labels)
    images, validation = images.on(device), validation.on(device)
    return Training(method, images, run, device, build_observers(run, method, images, validation, device))


def with_colour(run: TrainingRun) -> TrainingRun:
    """Returns the run, with views without greyscale if its split is by colour."""
    views = keeping_colour(run.views, run.split)
    if views != run.views:
        log.info(
            "a split of colours leaves out the views' greyscale (probability %g): a grey view has none",
            run.views.grayscale,
        )
    return replace(run, views=views)


def encoder_config(run: TrainingRun, images: ImageSet) -> EncoderConfig:
    """Configuration of the encoder: one network of RGB, or two networks, each of a part of the image.

    Raises:
        InputError: if the split is by colour and the images have none.
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


def build_method(run: TrainingRun, config: EncoderConfig, images: int, device: torch.device) -> Method:
    """Builds the method with its encoder and its memory on the device; `images` counts the training images."""
    epoch_images = run.batches(images) * run.budget.batch_size
    setting = Setting(run.contrast, images, epoch_images, run.budget.queue, run.seed, device)
    method = run.method.method(build_encoder(config, run.seed), run.method, setting)
    if world_size() > 1:  # several processes compute the numbers of one, batch statistics included
        synchronised(method.encoder)
    return method


def build_observers(
    run: TrainingRun, method: Method, images: ImageSet, validation: ImageSet, device: torch.device
) -> list[Observer]:
    """The observers of a run, in the order of their calls; with a probe if validation images have a class."""
    measurement = Measurement(run.batches(len(images)), device)
    probes = []
    if len(validation.with_class):
        probes = [OnlineProbe(method.encoder, images.labels, len(images.classes), device)]
    return [
        measurement,
        *probes,
        Validation(validation, images, run.budget.validation_images, run.seed, device, *probes),
        Adaptation(measurement),
        Soundness(measurement),
        Report(measurement),
    ]
