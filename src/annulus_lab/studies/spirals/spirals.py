"""Two intertwined spirals, seen through noise.

Without noise both views are equal, and the encoder does not learn the spirals. With a little noise it separates them.
With much noise the views share nothing.

Source: Wu et al. 2020, arXiv:2005.13149, Appendix G, Figure 6. One spiral is clockwise and one counter-clockwise; the
paper does not give their equation. Here each is the other's mirror image, left and right. They cross twice a turn,
above and below their middle, and cannot be separated there. Points lie evenly along the angle, so their own coordinates
predict little of their spiral.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.bounds.infonce import infonce
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.evals.intervals import over_seeds, verdict
from annulus.files.results import Number
from annulus.methods.critics import scaled
from annulus.methods.memory import MemoryBank
from annulus.optim.sgd import SGD
from annulus.optim.torch_optimizers import LBFGS
from annulus_lab.studies.shared.outcomes import by_seed, with_interval
from annulus_lab.studies.spirals.spirals_params import SpiralsParams

OverSeeds = Mapping[int, Mapping[str, Any]]  # seed -> result of `train_spirals`

SIDE = 2.0  # points lie in [-SIDE, SIDE] squared
READ_OUT_STEPS = 50  # of L-BFGS, which converges in fewer


class Spirals(NamedTuple):
    """Points, and the spiral of each."""

    points: Float[Tensor, "n 2"]
    labels: Int[Tensor, "n"]


def spirals(count: int, turns: float, inner: float, random: torch.Generator) -> Spirals:
    """Points, evenly spread over the angle, half of them on each spiral; the radius grows from `inner` to 1 of SIDE.

    The first spiral starts on the right and is counter-clockwise, the second starts on the left and is clockwise.
    """
    share, labels = torch.rand(count, generator=random), torch.arange(count) % 2
    angle, radius = 2 * math.pi * turns * share, SIDE * (inner + (1 - inner) * share)
    return Spirals(radius[:, None] * torch.stack([(1 - 2 * labels) * angle.cos(), angle.sin()], dim=1), labels)


def view(points: Float[Tensor, "n 2"], noise: float, random: torch.Generator) -> Float[Tensor, "n 2"]:
    """Points with U(0, noise) added to each coordinate."""
    return points + noise * torch.rand(points.shape, generator=random)


def build_encoder(params: SpiralsParams, seed: int) -> nn.Sequential:
    """MLP to the plane, with initial weights by He's rule, or by PyTorch's: uniform in +-1 / sqrt(inputs)."""
    widths, random = [2, *[params.hidden] * params.layers, 2], generator(seed, "weights")
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        linear = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
        if params.start == "he":
            nn.init.kaiming_normal_(linear.weight, generator=random)
            nn.init.zeros_(linear.bias)
        else:
            for weights in (linear.weight, linear.bias):
                nn.init.uniform_(weights, -(inputs**-0.5), inputs**-0.5, generator=random)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train_spirals(params: SpiralsParams, key: tuple[float, int]) -> Mapping[str, Any]:
    """Trains an encoder on views with this noise, for (noise, seed); returns its curve, its plane and read-outs.

    The read-out `accuracy` uses the plane, `circle` its unit vectors, and `points` the points' own coordinates.
    """
    noise, seed = key
    train, test = (
        spirals(count, params.turns, params.inner, generator(seed, name))
        for name, count in (("points", params.points), ("test points", params.test_points))
    )
    encoder = build_encoder(params, seed)
    curve = train_encoder(encoder, train, params, noise, seed)
    with torch.no_grad():
        planes = encoder(train.points), encoder(test.points)
        circles = [F.normalize(plane, dim=1) for plane in planes]
    first_points = slice(params.shown_points)
    return {
        "curve": curve,
        "accuracy": read_out(planes[0], train.labels, planes[1], test.labels),
        "circle": read_out(circles[0], train.labels, circles[1], test.labels),
        "points": read_out(train.points, train.labels, test.points, test.labels),
        "plane": planes[1][first_points].tolist(),
        "labels": test.labels[first_points].tolist(),
    }


def train_encoder(encoder: nn.Module, train: Spirals, params: SpiralsParams, noise: float, seed: int) -> list[float]:
    """Trains IR on views with this noise; returns the mean loss in nats of `curve_points` stretches of training.

    Raises:
        InputError: when a point's place is not finite, with the iteration, the noise, the seed and the rate.
    """
    bank = MemoryBank(params.points, 2, params.bank_rate, generator(seed, "bank"))
    seen, order, draws = (generator(seed, name) for name in ("views", "order", "negatives"))
    with torch.no_grad():
        bank.fill(encoder(view(train.points, noise, seen)))
    optimizer = SGD(
        encoder.parameters(), params.learning_rate, momentum=params.momentum, weight_decay=params.weight_decay
    )
    losses = torch.zeros(params.iterations)
    for step in range(params.iterations):
        index = torch.randint(params.points, (params.batch_size,), generator=order)
        plane = encoder(view(train.points[index], noise, seen))
        if not plane.norm(dim=1).isfinite().all():
            raise InputError(
                f"spirals: a point's place is not finite at iteration {step + 1} (noise {noise:g}, seed {seed}) "
                f"with learning rate {params.learning_rate:g}; lower it"
            )
        queries = F.normalize(plane, dim=1)
        drawn = torch.randint(params.points, (params.negatives,), generator=draws)  # the same for the whole batch
        scaled_queries = scaled(queries, params.temperature)
        negatives = (scaled_queries @ bank.rows[drawn].T).masked_fill(drawn == index[:, None], -torch.inf)
        loss = infonce((scaled_queries * bank.rows[index]).sum(dim=1, keepdim=True), negatives)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank.update(index, queries.detach())
        losses[step] = loss.detach()
    return [part.mean().item() for part in losses.tensor_split(params.curve_points)]


def read_out(
    learn: Float[Tensor, "n d"], labels: Int[Tensor, "n"], seen: Float[Tensor, "m d"], expected: Int[Tensor, "m"]
) -> float:
    """Percent of unseen points whose spiral a logistic regression predicts from their place in the plane."""
    mean, std = learn.mean(dim=0), learn.std(dim=0).clamp_min(1e-6)
    inputs, targets = ((learn - mean) / std).double(), labels.double()
    weight = torch.zeros(learn.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = LBFGS([weight], max_iter=READ_OUT_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(inputs @ weight[:-1] + weight[-1], targets)
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        predicted = ((seen - mean) / std).double() @ weight[:-1] + weight[-1] > 0
    return 100 * (predicted == expected.bool()).double().mean().item()


def row(params: SpiralsParams, noise: float, results: OverSeeds, base: OverSeeds) -> dict[str, Number]:
    """Row of the bound at the end of training, the three read-outs, and the gain over no noise in pairs of a seed."""
    ceiling = math.log(1 + params.negatives)
    seeds = {
        "bound_nats": {seed: ceiling - one["curve"][-1] for seed, one in results.items()},
        "top1_percent": {seed: one["accuracy"] for seed, one in results.items()},
        "gain_percent": {seed: one["accuracy"] - base[seed]["accuracy"] for seed, one in results.items()},
    }
    gains = over_seeds(list(seeds["gain_percent"].values()))
    return {
        "noise": noise,
        "seeds": len(results),
        **with_interval("bound_nats", over_seeds(list(seeds["bound_nats"].values()))),
        "ceiling_nats": ceiling,
        **with_interval("top1_percent", over_seeds(list(seeds["top1_percent"].values()))),
        **with_interval("circle_percent", over_seeds([one["circle"] for one in results.values()])),
        **with_interval("coordinates_percent", over_seeds([one["points"] for one in results.values()])),
        **with_interval("gain_percent", gains),
        "verdict": "base" if results is base else verdict(gains, unit=" points"),
        **{column: value for name, values in seeds.items() for column, value in by_seed(name, values).items()},
    }


def curve_rows(params: SpiralsParams, by_noise: Mapping[float, OverSeeds]) -> list[dict[str, Number]]:
    """Rows of the loss over training, mean over seeds; `x` is the iteration at which a stretch ends."""
    ends = torch.arange(1, params.iterations + 1).tensor_split(params.curve_points)
    return [
        {"series": f"noise {noise:g}", "x": int(end[-1])}
        | with_interval("loss_nats", over_seeds([one["curve"][place] for one in results.values()]))
        for noise, results in by_noise.items()
        for place, end in enumerate(ends)
    ]


def plane_rows(by_noise: Mapping[float, OverSeeds]) -> list[dict[str, Number]]:
    """Rows of unseen points in the learned plane of the first seed, with their spirals."""
    return [
        {"noise": noise, "x": round(x, 4), "y": round(y, 4), "spiral": label}
        for noise, results in by_noise.items()
        for first in list(results.values())[:1]
        for (x, y), label in zip(first["plane"], first["labels"], strict=True)
    ]
