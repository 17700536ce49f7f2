"""Accuracy of frozen encoders on a new image set (target): linear probe and few-shot episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from annulus.device.device import pick_device
from annulus.device.rng import generator
from annulus.encoders.encoder import Encoder, SplitEncoder, build_encoder
from annulus.encoders.extract import extract
from annulus.encoders.saved import load_encoder
from annulus.evals.intervals import Interval, over_seeds_and_images
from annulus.evals.linear import probe_features
from annulus.files.images import ImageSet, load_images
from annulus.files.results import Number
from annulus.views.splits import channel_statistics
from annulus_lab.config.params import filled
from annulus_lab.studies.shared.outcomes import verdict_text, with_interval
from annulus_lab.studies.transfer.few_shot import accuracies, draw_episodes
from annulus_lab.studies.transfer.target_tables import MAIN
from annulus_lab.studies.transfer.transfer_params import FewShotParams, ProbeParams

PROTOCOLS = ("linear", "few_shot")

RightParts = Mapping[
    str, Mapping[int, Mapping[str, Sequence[float]]]
]  # variant -> seed -> protocol -> parts that are right


def normalised(encoder: Encoder | SplitEncoder, train: ImageSet) -> Encoder | SplitEncoder:
    """Encoder whose input has mean 0 and variance 1 by channel over a target's training images.

    A constant channel becomes 0; in grey images both colour channels do.

    Source: Wu et al. 2020, arXiv:2010.02037, Section 5.
    """
    split = encoder.config.split
    mean, std = train.channel_statistics() if split is None else channel_statistics(train.images, split, grey=True)
    config = replace(encoder.config, mean=mean, std=std)
    network = build_encoder(config, seed=0)  # the next line replaces the weights, but not mean and std
    network.load_state_dict(encoder.state_dict())
    return network.eval().requires_grad_(False)


@cache
def target_splits(folder: Path) -> tuple[ImageSet, ImageSet]:
    """Training and test images of a target, read once a process; workers that are forked afterwards share them."""
    train, test = (load_images(folder / f"{split}.safetensors") for split in ("train", "test"))
    return train, test


def evaluate_transfer(settings: Mapping[str, Any], key: tuple[str, int]) -> Mapping[str, Any]:
    """Right test images of the linear probe, and right shares of the episodes' queries, for (variant, seed).

    Features are extracted once. Runs of one seed share the probe's order, and all runs share the episodes.
    """
    (_, seed), device = key, pick_device()
    probe, few = filled(ProbeParams, settings["probe"]), filled(FewShotParams, settings["few_shot"])
    train, test = target_splits(settings["images"])
    # The episodes come first: too few images are refused before an hour's probe.
    classes = settings["episode_classes"]
    random = generator(settings["episodes_seed"], "episodes", settings["target"])
    episodes = draw_episodes(test.labels, classes, few.ways, few.shots, few.queries, few.episodes, random)
    encoder = normalised(load_encoder(settings["encoder"]), train)
    layers = sorted({probe.layer, "pooled"})
    train_features, test_features = (extract(encoder, images, layers, device) for images in (train, test))
    linear = probe_features(train_features, test_features, *probe.linear, seed=seed, device=device)
    shares = accuracies(
        test_features.layer("pooled"), train_features.layer("pooled").mean(dim=0), episodes, few.classifier
    )
    return {"linear": linear.right["top1_percent"].astype(float).tolist(), "few_shot": shares.tolist()}


def metrics_row(right: RightParts) -> dict[str, Number]:
    """Accuracies of each variant, and the main line's gains over the others, with 95 % intervals.

    Intervals are over seeds and test images or episodes; gains are paired by both.
    """
    row: dict[str, Number] = {}
    for variant, seed_results in right.items():
        for protocol in PROTOCOLS:
            row |= with_interval(f"{variant}_{protocol}_top1_percent", _over(_table(seed_results, protocol)))
    for base in right:
        for protocol in PROTOCOLS if base != MAIN else ():
            difference = _over(_table(right[MAIN], protocol) - _table(right[base], protocol))
            row |= with_interval(f"over_{base}_{protocol}_gain_percent", difference)
            row[f"over_{base}_{protocol}_verdict"] = verdict_text(difference)
    return row


def further_row(right: RightParts) -> dict[str, Number]:
    """Accuracies of `encoder`, and its gains over `base`, with the same intervals."""
    row: dict[str, Number] = {}
    for protocol in PROTOCOLS:
        own, base = (_table(right[name], protocol) for name in ("encoder", "base"))
        row |= with_interval(f"encoder_{protocol}_top1_percent", _over(own))
        row |= with_interval(f"over_base_{protocol}_gain_percent", _over(own - base))
        row[f"over_base_{protocol}_verdict"] = verdict_text(_over(own - base))
    return row


def _table(seed_results: Mapping[int, Mapping[str, Sequence[float]]], protocol: str) -> np.ndarray:
    return np.array([parts[protocol] for parts in seed_results.values()])


def _over(table: np.ndarray) -> Interval:
    return over_seeds_and_images(table).times(100)
