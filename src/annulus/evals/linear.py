"""Linear probe: multinomial logistic regression on a frozen encoder's features.

`inputs: features` is the fast default: cached features of each image's centre view, standardised, so one learning rate
suits every encoder. `inputs: views` is the papers' protocol: every epoch augments the images anew and uses the
encoder's features unchanged.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from annulus.device.device import without_autocast
from annulus.device.rng import generator
from annulus.encoders.extract import encode, extract
from annulus.encoders.features import Features, check_same_classes
from annulus.errors import InputError
from annulus.evals.accuracy import label_ranks, percent
from annulus.evals.linear_settings import LinearBudget, LinearSettings
from annulus.evals.probe import ROWS_AT_ONCE, Probe, Resumable, few_threads, predict, standardised, unchanged
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.optim.schedules import ConstantSchedule, CosineSchedule, PlateauSchedule, Policy, Schedule
from annulus.optim.sgd import SGD
from annulus.views.recipe import augment
from annulus.views.settings import ViewSet

log = logging.getLogger("annulus")

LOG_LINES = 10

Batches = Callable[[int], Iterator[tuple[Tensor, Tensor]]]  # number of an epoch -> its features and labels


@dataclass(frozen=True)
class LinearOutcome:
    """A fitted probe's numbers, one row per epoch, the predicted class of each test image, and masks of the right ones.

    `right` has a mask for each accuracy: a row for `annulus.over_seeds_and_images`.

    >>> labels = torch.arange(40) % 2
    >>> train = annulus.Features({"pooled": nn.functional.one_hot(labels).float()}, labels, classes=("cat", "dog"))
    >>> int(annulus.probe_features(train, train).right["top1_percent"].sum())
    40
    """

    metrics: dict[str, Number]
    history: list[dict[str, Number]]
    predicted: Int[Tensor, "n"]
    right: dict[str, Bool[np.ndarray, "n"]]


def fit(
    probe: Probe,
    batches: Batches,
    params: LinearSettings,
    scale: LinearBudget,
    without_patience: Policy,
    validation: Features,
    checkpoint: Resumable | None = None,
) -> list[dict[str, Number]]:
    """Minimises the mean cross-entropy by SGD with momentum; returns one row per epoch.

    With a checkpoint, it continues from the last saved epoch.

    A row's loss (nats; log(classes) at chance) and train accuracy are means over the epoch's batches, each before its
    step. With `patience` the learning rate falls tenfold on a plateau of the validation accuracy, else it follows the
    schedule `without_patience`. The validation part may be empty.

    Raises:
        InputError: if the loss is no longer finite, or `patience` has no validation part.
    """
    optimizer = SGD(
        probe.parameters(),
        lr=scale.learning_rate,
        momentum=params.momentum,
        weight_decay=params.weight_decay,
    )
    rates = Schedule(_policy(params, without_patience, validation), scale.learning_rate, warmup=0.0)
    history: list[dict[str, Number]] = []
    if checkpoint is not None and (state := checkpoint.load()) is not None:
        probe.load_state_dict(state["probe"])
        optimizer.load_state_dict(state["optimizer"])
        rates.load_state_dict(state["rates"])
        history = state["history"]
        log.info("linear: resuming after epoch %d of %d", len(history), scale.epochs)
    for epoch in range(len(history), scale.epochs):
        rate = rates.rate(epoch / scale.epochs)
        for group in optimizer.param_groups:
            group["lr"] = rate
        losses, right = [], []
        for features, labels in batches(epoch):
            scores = probe(features)
            loss = F.cross_entropy(scores, labels, reduction="none")
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
            losses.append(loss.detach())
            right.append(scores.detach().argmax(dim=1) == labels)
        _check_finite(losses, probe, epoch, rate)
        row = {
            "epoch": epoch + 1,
            "loss_nats": torch.cat(losses).double().mean().item(),
            "train_top1_percent": percent(torch.cat(right)),
        }
        if len(validation.labels):
            ranks = label_ranks(predict(probe, validation.layer(params.layer)), validation.labels)
            row["validation_top1_percent"] = percent(ranks < 1)
        row["learning_rate"] = rate
        rates.after_epoch(row.get("validation_top1_percent"))
        history.append(row)
        if checkpoint is not None and (checkpoint.due or epoch + 1 == scale.epochs):
            learning = {"probe": probe, "optimizer": optimizer, "rates": rates}
            checkpoint.save({"history": history} | {name: part.state_dict() for name, part in learning.items()})
        if (epoch + 1) % max(1, scale.epochs // LOG_LINES) == 0:
            log.info(_line(row, scale.epochs))
    return history


def feature_batches(
    features: Float[Tensor, "n ..."],
    labels: Int[Tensor, "n"],
    batch_size: int,
    seed: int,
    device: torch.device,
) -> Batches:
    """Batches with every row once per epoch, in an order that depends only on the seed and the epoch."""
    features, labels = features.to(device), labels.to(device)

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in _order(len(labels), batch_size, seed, epoch):
            rows = rows.to(device)
            yield features[rows].float(), labels[rows]

    return batches


def view_batches(
    encoder: nn.Module,
    images: ImageSet,
    params: LinearSettings,
    views: ViewSet,
    batch_size: int,
    seed: int,
    device: torch.device,
) -> Batches:
    """Batches in the order of `feature_batches`; each image is augmented anew and embedded by the frozen encoder."""

    store = images.images.on(device)

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        draws = generator(seed, "linear", "views", epoch)
        for rows, some in store.in_turn(_order(len(images), batch_size, seed, epoch)):
            batch = augment(some, replace(views, patches=None), encoder.view_size, draws, sizes=store.image_sizes(rows))
            yield encode(encoder, batch, [params.layer])[params.layer], images.labels[rows].to(device)

    return batches


def probe_features(
    train: Features,
    test: Features,
    params: LinearSettings | None = None,
    scale: LinearBudget | None = None,
    validation: Features | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> LinearOutcome:
    """Fits a linear probe on cached features: the fast default. `params.inputs` must be "features".

    `params` and `scale`: by default `LinearSettings()` and `LinearBudget()`. Without `patience` the learning rate falls
    to zero along half a cosine, and `validation` only adds its accuracy to the history. With `patience`, `validation`
    is required.

    Raises:
        InputError: if the splits name different classes, features or the loss are not finite, or `inputs` is "views".

    >>> labels = torch.arange(40) % 2
    >>> train = annulus.Features({"pooled": nn.functional.one_hot(labels).float()}, labels, classes=("cat", "dog"))
    >>> annulus.probe_features(train, train).metrics["top1_percent"]
    100.0
    """
    params, scale, device = params or LinearSettings(), scale or LinearBudget(), torch.device(device)
    for name, settings, kind in (("params", params, LinearSettings), ("scale", scale, LinearBudget)):
        if not isinstance(settings, kind):
            raise InputError(f"{name} is a {type(settings).__name__}; give annulus.{kind.__name__}(...)")
    if params.inputs != "features":
        raise InputError(
            f"inputs {params.inputs!r} augments images anew in each epoch, and features have no images; give "
            'inputs="features"'
        )
    for name, split in (("train", train), ("test", test)):
        if not isinstance(split, Features):
            raise InputError(f"{name} is a {type(split).__name__}; give annulus.Features, as extract_features returns")
    features = train.layer(params.layer).detach()
    if validation is None:
        validation = Features({params.layer: features[:0]}, train.labels[:0], train.classes)
    check_same_classes(train, validation, "validation")
    check_same_classes(train, test)
    for name, split in (("train", train), ("validation", validation), ("test", test)):
        if not all(some.isfinite().all() for some in split.layer(params.layer).split(ROWS_AT_ONCE)):
            raise InputError(
                f"{name} features hold NaN or infinity, from which a probe cannot learn; omit such images, or embed "
                "them by an encoder that gives finite numbers"
            )
    # The caller's modes must not apply. Autocast would reuse its copy of the first weights, which are 0.
    with few_threads(features[0].numel()), torch.inference_mode(False), torch.enable_grad(), without_autocast(device):
        probe = standardised(features, len(train.classes)).to(device)
        batches = feature_batches(features, train.labels, scale.batch_size, seed, device)
        history = fit(probe, batches, params, scale, CosineSchedule(), validation)
        return _outcome(probe, history, test, params)


def probe_views(
    encoder: nn.Module,
    train: ImageSet,
    validation: ImageSet,
    test: ImageSet,
    params: LinearSettings,
    scale: LinearBudget,
    views: ViewSet,
    seed: int,
    device: torch.device,
    checkpoint: Resumable | None = None,
) -> LinearOutcome:
    """Fits a linear probe by the papers' protocol. A killed probe continues from its checkpoint.

    Without `patience` the learning rate is constant. `views` augments the training images, always whole: its patches
    are ignored. Validation and test images are plain centre views.

    Source: Wu et al. 2020, arXiv:2005.13149, Appendix C.2; Wu et al. 2020, arXiv:2010.02037, Section 5 (layer: map).

    Raises:
        InputError: if the encoder's features or the loss are not finite.
    """
    held_out = extract(encoder, validation, [params.layer], device)
    dim = held_out.layer(params.layer).flatten(1).shape[1]
    probe = unchanged(dim, len(train.classes), device)
    batches = view_batches(encoder, train, params, views, scale.batch_size, seed, device)
    history = fit(probe, batches, params, scale, ConstantSchedule(), held_out, checkpoint)
    return _outcome(probe, history, extract(encoder, test, [params.layer], device), params)


def _outcome(probe: Probe, history: list[dict[str, Number]], test: Features, params: LinearSettings) -> LinearOutcome:
    """Evaluates the last epoch's probe on the test images, which no decision before has used."""
    scores = predict(probe, test.layer(params.layer))
    ranks = label_ranks(scores, test.labels)
    last = history[-1]
    metrics = {
        "top1_percent": percent(ranks < 1),
        "top5_percent": percent(ranks < 5),
        "epochs": last["epoch"],
        "images": len(test.labels),
        **{name: value for name, value in last.items() if name.endswith(("_percent", "_nats"))},
    }
    return LinearOutcome(metrics, history, scores.argmax(dim=1), {"top1_percent": (ranks < 1).numpy()})


def _policy(params: LinearSettings, without_patience: Policy, validation: Features) -> Policy:
    if params.patience is None:
        return without_patience
    if len(validation.labels) == 0:
        raise InputError(
            f"patience {params.patience} needs a validation accuracy, but the validation part has 0 images; "
            "give it images, or patience None and drops 0"
        )
    return PlateauSchedule(patience=params.patience, factor=0.1, drops=params.drops)


def _order(images: int, batch_size: int, seed: int, epoch: int) -> tuple[Int[Tensor, "b"], ...]:
    """An epoch's row numbers in batches; the last batch may be smaller."""
    return torch.randperm(images, generator=generator(seed, "linear", epoch)).split(batch_size)


def _check_finite(losses: Sequence[Float[Tensor, "_"]], probe: Probe, epoch: int, rate: float) -> None:
    """Checks all losses once an epoch: on a GPU a check of each loss would wait for its step."""
    finite = torch.stack([loss.isfinite().all() for loss in losses] + [probe.weight.isfinite().all()]).cpu()
    if not finite.all():
        step = min(int((~finite).nonzero()[0]), len(losses) - 1)  # the weights' entry stands for the last step
        raise InputError(
            f"linear probe: the loss is no longer finite at step {epoch * len(losses) + step + 1} "
            f"(epoch {epoch + 1}) with learning rate {rate:g}; lower the probe's learning_rate"
        )


def _line(row: dict[str, Number], epochs: int) -> str:
    validation = f", validation {row['validation_top1_percent']:.1f} %" if "validation_top1_percent" in row else ""
    return (
        f"linear: epoch {row['epoch']} of {epochs}, loss {row['loss_nats']:.4f} nats, "
        f"train {row['train_top1_percent']:.1f} %{validation}, learning rate {row['learning_rate']:.2g}"
    )
