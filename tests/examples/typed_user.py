"""A program with types, in which mypy --strict finds no mistake (torch gives `Tensor.backward` no type)."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

import annulus


def train(network: nn.Module, batches: Iterable[tuple[Tensor, Tensor, Tensor]], images: int) -> float:
    ring = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.01, outer=0.1), negatives=64)
    method = annulus.MoCo.create(network, images=images, dim=128, queue=4096, contrast=ring)
    optimizer, annealing = torch.optim.SGD(network.parameters(), lr=0.03), annulus.negatives.LinearAnnealing(until=0.5)
    for step, (view, other, index) in enumerate(batches):
        progress = annulus.Progress(step / 1000, annealing.progress(step / 1000))
        result = method.loss([view, other], index, progress)
        optimizer.zero_grad()
        torch.autograd.backward(result.estimate.loss)
        optimizer.step()
        method.after_step(index, result)
    return result.estimate.bound_nats.item()


def evaluate(images: Tensor, labels: Tensor, path: str) -> str:
    features: annulus.Features = annulus.extract_features(annulus.load_encoder(path), images, labels, ("cat", "dog"))
    found = annulus.evaluate_knn(features, features, annulus.KnnSettings(k=20, temperature=0.07, layer="pooled"))
    interval: annulus.Interval = annulus.over_seeds_and_images(found.right["top1_percent"][None])
    return f"{100 * interval.mean:.1f} %: {annulus.verdict(interval)}"
