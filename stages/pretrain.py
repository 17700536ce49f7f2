"""Pretrain one encoder: packed training images -> encoder weights, learning curve, metrics."""

import argparse
from collections.abc import Mapping
from typing import Any

import _path  # noqa: F401  this checkout's src first

from annulus.config import check_memory
from annulus.data import load_images
from annulus.device import pick_device
from annulus.encoders import EncoderConfig, build_encoder, save_encoder
from annulus.methods import InstanceDiscrimination
from annulus.scratch import Scratch, hash_code, hash_files
from annulus.stage import Results, run_stage
from annulus.training import Recipe, Training

READS = [
    "seed",
    "datasets.${dataset}.view_size",
    "methods.${method}",
    "bounds.${bound}",
    "samplers.${sampler}",
    "anneals.${anneal}",
    "view_sets.${views}",
    "backbones.${backbone}",
    "optimizer",
    "schedules.${schedule}",
    "scales.${scale}.pretrain",
]
PATHS = ["images", "encoder", "metrics", "history"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seed, scale, sampler = params["seed"], params["scales.${scale}.pretrain"], params["samplers.${sampler}"]
    method_params, device = params["methods.${method}"], pick_device()
    images = load_images(paths.images / "train.safetensors")
    validation = load_images(paths.images / "validation.safetensors")
    check_memory(len(images.images), scale, sampler)
    mean, std = images.channel_statistics()
    config = EncoderConfig.of(
        params["backbones.${backbone}"],
        head=method_params.head,
        embedding_dim=method_params.embedding_dim,
        view_size=params["datasets.${dataset}.view_size"],
        mean=mean,
        std=std,
    )
    encoder = build_encoder(config, seed)
    method = InstanceDiscrimination(encoder, len(images.images), method_params, sampler, scale.negatives, seed, device)
    recipe = Recipe(
        scale,
        params["optimizer"],
        params["schedules.${schedule}"],
        params["anneals.${anneal}"],
        params["view_sets.${views}"],
        seed,
    )
    training = Training(method, images, validation, recipe, device)
    key = {"params": params, "images": hash_files(paths.images), "code": hash_code(), "device": device.type}
    with Scratch("pretrain", key) as scratch:
        history = training.run(scratch)
        save_encoder(encoder, paths.encoder)
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    last = {name: value for name, value in history[-1].items() if name.endswith(("_nats", "_percent"))}
    metrics = last | {
        "epochs": scale.epochs,
        "train_images": len(images.images),
        "validation_images": len(validation.images),
        "negatives": scale.negatives,
        "weights": weights,
        "seed": seed,
    }
    return Results(metrics, history, written=scratch.done)


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
