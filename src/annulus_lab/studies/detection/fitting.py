"""Training loop of a detector: SGD with a warm-up and drops, deterministic by seed, resumed bit for bit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from annulus.device.rng import derive
from annulus.errors import InputError
from annulus.optim.sgd import SGD
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint
from annulus_lab.studies.detection.detection_params import DetectorTrainingParams

Losses = Callable[[int], dict[str, Tensor]]

SAVE_EVERY = 500  # steps


def fit(
    network: nn.Module, losses: Losses, params: DetectorTrainingParams, seed: int, checkpoint: Checkpoint | None
) -> float:
    """Minimises the sum of `losses(step)`; returns the mean loss of the last tenth of the steps.

    `params` are `scaled`. Detectors draw from torch's own generator. Each step seeds it anew, so a run that resumes at
    step k has the draws of the whole run. `fit` restores the generator at the end. Weights and biases decay, except in
    batch normalisation, as in Detectron2.

    Raises:
        InputError: when the loss is NaN or infinite.
    """
    optimizer = SGD(_groups(network, params.weight_decay), params.learning_rate, momentum=params.momentum)
    learning = {name: value for name, value in network.state_dict().items() if not _fixed(network, name)}
    begin, last = 0, []
    if checkpoint is not None and (state := checkpoint.load()) is not None:
        begin, last = state["step"], state["last"]
        network.load_state_dict(state["network"], strict=False)
        optimizer.load_state_dict(state["optimizer"])
    steps = params.iterations
    # On a GPU, detectors draw from its generator. Without CUDA a fork of it would start CUDA in every worker.
    gpus = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=gpus):
        for step in range(begin, steps):
            torch.random.manual_seed(derive(seed, "step", step))
            for group in optimizer.param_groups:
                group["lr"] = params.rate(step)
            terms = losses(step)
            total = torch.stack(list(terms.values())).sum()
            if not total.isfinite():
                parts = ", ".join(f"{name} {value.item():.3g}" for name, value in terms.items())
                raise InputError(
                    f"the loss is {total.item()} at step {step} ({parts}; rate {params.rate(step):.3g}); lower "
                    "training.learning_rate, or set training.clip"
                )
            optimizer.zero_grad()
            total.backward()
            if params.clip is not None:
                nn.utils.clip_grad_norm_([one for one in network.parameters() if one.requires_grad], params.clip)
            optimizer.step()
            if step >= steps - max(1, steps // 10):
                last.append(total.item())
            text = partial("{} of {} steps".format, step + 1, steps)
            progress.report((step + 1) * params.batch_size, steps * params.batch_size, text, step + 1 == steps)
            if checkpoint is not None and (step + 1) % SAVE_EVERY == 0 and step + 1 < steps:
                snapshot: dict[str, Any] = {"step": step + 1, "last": last, "optimizer": optimizer.state_dict()}
                checkpoint.save(snapshot | {"network": {name: value.detach() for name, value in learning.items()}})
    return sum(last) / len(last)


def _groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Groups of the parameters that learn; batch normalisation has no decay (WEIGHT_DECAY_NORM 0)."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    norms = {id(one) for module in norms for one in module.parameters()}
    learning = [one for one in network.parameters() if one.requires_grad]
    groups = [
        {"params": [one for one in learning if id(one) not in norms], "weight_decay": decay},
        {"params": [one for one in learning if id(one) in norms], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _fixed(network: nn.Module, name: str) -> bool:
    """Returns True if training never changes a tensor: a parameter without gradient, or a buffer in evaluation mode."""
    owner = network.get_submodule(name.rpartition(".")[0])
    parameter = dict(owner.named_parameters(recurse=False)).get(name.rpartition(".")[2])
    return not owner.training if parameter is None else not parameter.requires_grad
