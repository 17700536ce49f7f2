"""Checks of a run before any allocation: its settings, its images, the memory that it needs."""

import logging

import torch

from annulus.device.memory_check import check_space
from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import build_encoder
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.methods.contrast_config import ContrastConfig
from annulus.optim.schedules import PlateauSchedule
from annulus.training.limits import check_choices, check_groups, check_memory
from annulus.training.run import TrainingRun
from annulus.training.space import bytes_needed

log = logging.getLogger("annulus")

CONVNET_PIXELS = 64  # image side up to which four convolutions relate an image's parts


def check_run(
    run: TrainingRun, encoder: EncoderConfig, images: ImageSet, validation: ImageSet, device: torch.device
) -> None:
    """Checks a run, and logs a warning for each setting that gives up a guarantee.

    Raises:
        InputError: if settings conflict, the images do not suffice for them, or the device has too little memory.
    """
    _check_patches(run, images)
    check_choices(run.method, run.bound, run.sampler, run.annealing, run.neighbours)
    check_groups(run.method, run.budget)
    check_memory(len(images), run.method, run.sampler, run.budget)
    _check_validation(run, validation)
    contrast = run.contrast
    _check_classes(contrast, images)
    with torch.device("meta"):  # nothing is allocated
        weights = sum(weight.numel() for weight in build_encoder(encoder, run.seed).parameters())
    check_space(
        bytes_needed(images, run, weights),
        device,
        "lower batch_size, negatives or queue in scales.SCALE.pretrain, or methods.METHOD.embedding_dim, "
        "or take a smaller backbone",
    )
    for warning in contrast.warnings_for(run.columns(len(images)), run.queries):
        log.warning("WARNING: %s", warning)
    if run.backbone.architecture == "convnet" and run.view_size > CONVNET_PIXELS:
        log.warning(
            "WARNING: backbone convnet is for images of some twenty pixels, and here they have %d; take resnet18",
            run.view_size,
        )


def _check_patches(run: TrainingRun, images: ImageSet) -> None:
    if (patches := run.views.patches) is None:
        return
    patches.check(images.images.side, run.view_size)
    if run.method.method.views < 2:
        raise InputError(
            "views with patches are two of an image, and the method sees one; take method: moco, simclr or simo"
        )


def _check_classes(contrast: ContrastConfig, images: ImageSet) -> None:
    if not contrast.needs_classes:
        return
    remedy = "take images with classes, or a sampler and neighbours without labels, such as sampler: uniform"
    if (without := len(images) - len(images.with_class)) or len(images) == 0:
        raise InputError(
            "sampler: other-class and neighbours: class read the class of each training image, and "
            f"{without} of {len(images)} have none; {remedy}"
        )
    if len(images.labels.unique()) < 2:
        raise InputError(
            f"sampler: other-class and neighbours: class need two classes, and all {len(images)} training images are "
            f"of one, {images.classes[images.labels[0]]}; {remedy}"
        )


def _check_validation(run: TrainingRun, validation: ImageSet) -> None:
    if len(validation) == 0 and (isinstance(run.schedule, PlateauSchedule) or run.annealing.watches_accuracy):
        raise InputError(
            "schedule: plateau and anneal: adaptive-epoch decide by validation accuracy, but the validation part "
            "holds 0 images; raise datasets.DATASET.validation_fraction, or, of images without a class, which have "
            "none, take another schedule or anneal"
        )
