"""Trains one view generator from settings and images, or leaves it random."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.device.rng import derive
from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import build_encoder
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint
from annulus.views.learned import GeneratorConfig, ViewGenerator
from annulus.views.splits import ColourSplit, channel_statistics
from annulus_lab.studies.view_learning.batches import GeneratorBatches
from annulus_lab.studies.view_learning.learning import GameLosses, ViewLearning
from annulus_lab.studies.view_learning.view_learning_params import GeneratorParams, OpponentSettings

CURVE_POINTS = 10  # of the learning curve: means over a tenth of the steps each


class TrainedGenerator(NamedTuple):
    """Generator and its learning curve, which is empty if the generator did not learn."""

    generator: ViewGenerator
    curve: list[dict[str, Number]]


def train_generator(
    params: GeneratorParams,
    seen: OpponentSettings,
    images: ImageSet,
    seed: int,
    device: torch.device,
    checkpoint: Checkpoint | None = None,
) -> TrainedGenerator:
    """Trains a generator; the seed decides its first weights and every draw.

    A checkpoint with a state resumes the training; each point of the curve saves it.

    Raises:
        InputError: when the images have no colour, a class has no labelled image, or an objective is not finite.
    """
    config = encoder_config(params, seen, images)
    shape = params.couplings, params.hidden, params.volume_preserving
    generator = ViewGenerator(GeneratorConfig(params.space, params.changes, *shape), seed).to(device)
    with torch.no_grad():
        for weight in generator.parameters():
            weight *= params.gain
    if params.learns == "nothing":
        return TrainedGenerator(generator.cpu(), [])
    batches = GeneratorBatches(params, seen, images, seed, device)
    networks = [
        build_encoder(one, derive(seed, name)).to(device)
        for name, one in {
            "estimators": config,
            "classifiers": replace(config, embedding_dim=len(images.classes)),
        }.items()
    ]
    learning = ViewLearning(params, generator, *networks)
    curve: list[dict[str, Number]] = []
    played: list[GameLosses] = []
    if checkpoint is not None and (state := checkpoint.load()) is not None:
        learning.load_state_dict(state["learning"])
        batches.draws.set_state(state["draws"])
        curve = state["curve"]
    for step in range(int(curve[-1]["step"]) + 1 if curve else 1, params.steps + 1):
        played.append(learning.step(batches.draw()))
        done = step * params.batch_size, params.steps * params.batch_size
        progress.report(*done, lambda step=step: f"step {step}", ended=step == params.steps)
        if step * CURVE_POINTS // params.steps > (step - 1) * CURVE_POINTS // params.steps:
            curve.append(_point(step, played))
            played.clear()
            if checkpoint is not None:
                state = {"learning": learning.state_dict(), "draws": batches.draws.get_state(), "curve": curve}
                checkpoint.save(state)
    return TrainedGenerator(generator.cpu(), curve)


def train_or_resume(
    params: GeneratorParams,
    seen: OpponentSettings,
    images: ImageSet,
    checkpoints: Mapping[int, Checkpoint],
    device: torch.device,
    seed: int,
) -> TrainedGenerator:
    """Calls `train_generator` with the locked checkpoint of its seed."""
    with checkpoints[seed] as checkpoint:
        return train_generator(params, seen, images, seed, device, checkpoint)


def encoder_config(params: GeneratorParams, seen: OpponentSettings, images: ImageSet) -> EncoderConfig:
    """Configuration of both estimators: networks of the study's backbone, one for each view.

    Raises:
        InputError: when the images have no colour.
    """
    split, backbone = ColourSplit(params.space), seen.backbone
    mean, std = channel_statistics(images.images, split)
    return EncoderConfig(
        architecture=backbone.architecture,
        stem=backbone.stem,
        head="linear",
        embedding_dim=params.embedding_dim,
        view_size=seen.view_size,
        split=split,
        mean=mean,
        std=std,
    )


def _point(step: int, played: list[GameLosses]) -> dict[str, Number]:
    """Point of the learning curve: means over the last steps.

    Raises:
        InputError: when a loss is not finite.
    """
    row: dict[str, Number] = {"step": step}
    for name, values in zip(("shared_nats", "classified_nats"), zip(*played, strict=True), strict=True):
        row[name] = "" if values[0] is None else _mean(step, name, torch.stack(values))
    return row


def _mean(step: int, name: str, values: Float[Tensor, "steps"]) -> float:
    if not values.isfinite().all():
        raise InputError(
            f"{name} of a view generator is not finite by step {step}; lower its generator_rate or estimator_rate"
        )
    return values.mean().item()
