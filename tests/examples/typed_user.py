"""A program that uses the public interface, for the type checker: it must find nothing here."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

import annulus


def train(network: nn.Module, batches: Iterable[tuple[Tensor, Tensor, Tensor]], images: int) -> list[float]:
    """MoCo with ring negatives, annealed, in a loop of one's own."""
    ring = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.01, outer=0.1), negatives=64)
    method = annulus.MoCo.create(network, images=images, dim=128, queue=4096, contrast=ring)
    optimizer, annealing = torch.optim.SGD(network.parameters(), lr=0.03), annulus.negatives.LinearAnnealing(until=0.5)
    losses = []
    for step, (view, other, index) in enumerate(batches):
        result = method.loss([view, other], index, annulus.Progress(step / 1000, annealing.progress(step / 1000)))
        optimizer.zero_grad(), result.estimate.loss.backward(), optimizer.step()
        method.after_step(index, result)
        losses.append(result.estimate.bound_nats.item())
    return losses


def evaluate(images: Tensor, labels: Tensor, path: str) -> str:
    encoder = annulus.load_encoder(path)
    features: annulus.Features = annulus.extract_features(encoder, images, labels, ("cat", "dog"))
    found = annulus.evaluate_knn(features, features, annulus.KnnSettings(k=20, temperature=0.07, layer="pooled"))
    interval: annulus.Interval = annulus.over_seeds_and_images(found.right["top1_percent"][None]).times(100)
    return f"{interval.mean:.1f} {annulus.verdict(interval)}"
