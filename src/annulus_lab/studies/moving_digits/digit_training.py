"""Contrastive training on views that share chosen factors, and supervised training of one task."""

from collections.abc import Callable, Collection, Iterable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus.bounds.infonce import infonce
from annulus.device.device import pick_device
from annulus.device.rng import derive, first_weights, generator
from annulus.errors import InputError
from annulus.methods.critics import scaled
from annulus.optim.schedules import CosineSchedule, Schedule
from annulus.optim.sgd import SGD
from annulus.optim.torch_optimizers import Adam
from annulus.running import progress
from annulus_lab.studies.moving_digits.digit_networks import WIDTH, Views, build_views
from annulus_lab.studies.moving_digits.digit_tasks import FactorTask
from annulus_lab.studies.moving_digits.digits_params import DigitsTrainingParams
from annulus_lab.studies.moving_digits.moving_digits import World


def contrast(videos: Float[Tensor, "b d"], images: Float[Tensor, "b d"], temperature: float) -> Float[Tensor, ""]:
    """InfoNCE inside the batch, in nats: each video's own image against all images; log b at chance.

    Source: Tian et al. 2020, arXiv:2005.10243, Eq. 3.1, Appendix B.1.
    """
    scores = scaled(F.normalize(videos, dim=1), temperature) @ F.normalize(images, dim=1).T
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    return infonce(scores.diagonal()[:, None], scores.masked_fill(own, -torch.inf))


def train_supervised(world: World, params: DigitsTrainingParams, task: FactorTask, seed: int) -> nn.Sequential:
    """Trains a backbone and its head end to end on one task of single frames."""
    with first_weights(derive(seed, "head", task.name)):
        head = nn.Linear(WIDTH, task.outputs)
    network = nn.Sequential(build_views(derive(seed, "weights")).image, head).to(pick_device()).train()
    device = head.weight.device

    def loss(random: torch.Generator) -> Float[Tensor, ""]:
        scenes = world.scenes(params.batch_size, random)
        return task.loss(network(world.pixels(scenes).to(device)), task.truth(world, scenes).to(device))

    fit(network, loss, params, seed)
    return network


def train_views(world: World, params: DigitsTrainingParams, shared: Collection[str], seed: int) -> tuple[Views, float]:
    """Trains networks on pairs that share these factors; returns them and the last epoch's mean loss in nats."""
    views = build_views(derive(seed, "weights")).to(pick_device()).train()
    device = next(views.parameters()).device

    def loss(random: torch.Generator) -> Float[Tensor, ""]:
        pair = world.pairs(params.batch_size, shared, random)
        videos = views.embed_videos(world.pixels(pair.first).to(device), world.params.frames)
        return contrast(videos, views.image(world.pixels(pair.second).to(device)), params.temperature)

    return views, fit(views, loss, params, seed)


def fit(
    network: nn.Module, loss: Callable[[torch.Generator], Tensor], params: DigitsTrainingParams, seed: int
) -> float:
    """Minimises `loss` of newly drawn batches; returns the mean loss of the last epoch.

    Raises:
        InputError: at the end of an epoch, when a loss or a weight is not finite.
    """
    optimizer = build_optimizer(network, params)
    rates = Schedule(CosineSchedule(), params.learning_rate, warmup=0.0)
    random, per_epoch = generator(seed, "videos"), params.videos // params.batch_size
    steps, losses = params.epochs * per_epoch, torch.zeros(per_epoch, device=next(network.parameters()).device)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rates.rate(step / steps)
        value = loss(random)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses[step % per_epoch] = value.detach()
        if (step + 1) % per_epoch == 0:
            _check_finite([losses, *network.parameters()], (step + 1) // per_epoch, params.learning_rate)
        seen, total = (step + 1) * params.batch_size, steps * params.batch_size
        progress.report(seen, total, partial("{} of {} batches".format, step + 1, steps), step + 1 == steps)
    return losses.mean().item()


def _check_finite(tensors: Iterable[Tensor], epoch: int, rate: float) -> None:
    if not all(tensor.isfinite().all() for tensor in tensors):
        raise InputError(
            f"moving digits: a loss or a weight is not finite in epoch {epoch} with learning rate {rate:g}; lower it"
        )


def build_optimizer(network: nn.Module, params: DigitsTrainingParams) -> SGD | Adam:
    """SGD with momentum; Adam if the momentum is null."""
    if params.momentum is None:
        return Adam(network.parameters(), params.learning_rate, fused=True)
    return SGD(network.parameters(), params.learning_rate, momentum=params.momentum)
