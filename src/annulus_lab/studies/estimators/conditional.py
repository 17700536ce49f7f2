"""NCE and CNCE of a toy, each with its own critic: many runs, over shares and seeds, trained as one.

A query's negatives come from the closest share of the points, by the critic's own embedding. A method draws them from
its bank in the same way, but here each step embeds every point anew.

Source: Wu et al. 2020, arXiv:2005.13149, Appendix E (VINCE); Wu et al. 2020, arXiv:2010.02037, Appendix B (CNCE).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import vmap

from annulus.bounds.infonce import infonce
from annulus.device.rng import derive, first_weights, generator
from annulus.evals.intervals import over_seeds
from annulus.files.results import Number
from annulus.negatives.by_rank import ball
from annulus.optim.torch_optimizers import Adam
from annulus_lab.studies.estimators.bounds import INFONCE
from annulus_lab.studies.estimators.critics import Separable
from annulus_lab.studies.estimators.ensembles import Ensemble
from annulus_lab.studies.estimators.estimators_params import ConditionalParams, ConditionalVariant
from annulus_lab.studies.estimators.spread import std_over_seeds
from annulus_lab.studies.estimators.supremum import supremum
from annulus_lab.studies.estimators.toys import SumOfGaussians, Toy
from annulus_lab.studies.shared.outcomes import by_seed

RunPoints = tuple[Float[Tensor, "r n dx"], Float[Tensor, "r n dy"]]  # x and y of several runs


class CriticRun(NamedTuple):
    """One critic: percent of the points that give negatives, and the seed of points, weights, order and draws."""

    percent: int
    seed: int


class Columns(nn.Sequential):
    """Network whose inner layers have a column per point.

    With ten units and thousands of points the batched product of several networks is six times faster in this form.
    """

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        columns = x.T
        for layer in self:
            linear = isinstance(layer, nn.Linear)
            columns = torch.addmm(layer.bias[:, None], layer.weight, columns) if linear else layer(columns)
        return columns.T


class Conditional:
    """Runs of one variant, trained together; each run has the numbers of a separate training."""

    def __init__(
        self, toy: Toy, runs: Sequence[CriticRun], params: ConditionalParams, variant: ConditionalVariant
    ) -> None:
        self.params, self.runs, self.variant, self.toy = params, list(runs), variant, toy
        self.temperature = params.temperature if variant.score == "cosine" else None
        self.x, self.y = self._points("points")
        critics = [self._critic(run.seed) for run in runs]
        self.x_network, self.y_network = (
            Ensemble([Columns(*network) for network in networks])
            for networks in ([c.x_network for c in critics], [c.y_network for c in critics])
        )
        self.optimizer = Adam([*self.x_network.parameters(), *self.y_network.parameters()], variant.learning_rate)
        self.draws = [generator(run.seed, "negatives") for run in runs]

    def train(self, after_epoch: Callable[[int], None] = lambda epoch: None) -> None:
        """Trains all epochs, the first ones with negatives from all points; leaves out a last, smaller batch."""
        size, uniform = self.params.batch_size, round(self.variant.warm_start * self.params.epochs)
        own = [run.percent for run in self.runs]
        for epoch in range(self.params.epochs):
            percents = own if epoch >= uniform else [100] * len(own)
            order = torch.stack(
                [torch.randperm(self.params.points, generator=generator(run.seed, "order", epoch)) for run in self.runs]
            )
            for start in range(0, self.params.points - size + 1, size):
                self.step(order[:, start : start + size], percents)
            after_epoch(epoch)

    def step(self, index: Int[Tensor, "r b"], percents: Sequence[int]) -> None:
        """Trains one batch of each run, with negatives from these shares in percent."""
        queries = self._scaled(self.x_network(self.x.gather(1, index[..., None].expand(-1, -1, self.x.shape[2]))))
        loss = vmap(infonce)(*self._scores(queries, self._scaled(self.y_network(self.y)), index, percents))
        self.optimizer.zero_grad()
        loss.sum().backward()
        self.optimizer.step()

    @torch.no_grad()
    def estimates(self, percents: Sequence[int], unseen: bool = False) -> list[float]:
        """Each run's estimate in nats with negatives from these shares: mean over all points and repeated draws.

        With `unseen`, each draw has as many new points in place of the training points. A bound holds in expectation
        over unseen points, and one set of them has more noise than the critics' seeds. Scores are in float64, since
        the estimates of collapsed critics are as small as the rounding of log K in float32.
        """
        index, bound = torch.arange(self.params.points).expand(len(self.runs), -1), INFONCE
        nats = torch.zeros(self.params.draws, len(self.runs), dtype=torch.float64)
        for repeat in range(self.params.draws):
            x, y = self._points("unseen points", repeat) if unseen else (self.x, self.y)
            queries, stored = (
                self._scaled(embeddings).double() for embeddings in (self.x_network(x), self.y_network(y))
            )
            positive, negatives = self._scores(queries, stored, index, percents)
            for run in range(len(self.runs)):
                nats[repeat, run] = bound.estimate(positive[run, :, 0], negatives[run])
        return nats.mean(dim=0).tolist()

    def _points(self, *names: str | int) -> RunPoints:
        """Points of each run, drawn by its seed and these names."""
        pairs = [self.toy.sample(self.params.points, generator(run.seed, *names)) for run in self.runs]
        return torch.stack([pair.x for pair in pairs]), torch.stack([pair.y for pair in pairs])

    def _scores(
        self,
        queries: Float[Tensor, "r b e"],
        stored: Float[Tensor, "r n e"],
        index: Int[Tensor, "r b"],
        percents: Sequence[int],
    ) -> tuple[Float[Tensor, "r b 1"], Float[Tensor, "r b k"]]:
        drawn_scores = []  # run by run, so that a run's scores of all points stay in the cache until the draw
        for run, (run_queries, run_stored) in enumerate(zip(queries.unbind(), stored.unbind(), strict=True)):
            scores = run_queries @ run_stored.T
            near = -torch.cdist(run_queries, run_stored) if self.variant.score == "distance" else scores
            drawn = ball(near.detach(), index[run], percents[run] / 100, self.params.negatives, self.draws[run])
            drawn_scores.append(scores.gather(1, torch.cat([index[run, :, None], drawn.index], dim=1)))
        scores = torch.stack(drawn_scores)
        return scores[..., :1], scores[..., 1:]

    def _critic(self, seed: int) -> nn.Module:
        p = self.params
        with first_weights(derive(seed, "weights")):
            return Separable(self.x.shape[2], p.hidden, p.layers, p.outputs, self.temperature)

    def _scaled(self, embedding: Float[Tensor, "r n e"]) -> Float[Tensor, "r n e"]:
        if self.temperature is None:
            return embedding
        # In place of F.normalize: over columns its norm takes seven times the network's time.
        return embedding * (self.temperature * embedding.square().sum(dim=-1, keepdim=True)).clamp_min(1e-24).rsqrt()


def train_variant(params: ConditionalParams, name: str) -> Mapping[str, Any]:
    """Trains a variant's critics; returns their estimates (shares, seeds) in nats.

    The points are unseen ones and the training points. Negatives come from the critic's own share (`own`) and from all
    points (`uniform`).
    """
    own = [percent for percent in params.percents for _ in params.seeds]
    runs = [CriticRun(percent, seed) for percent in params.percents for seed in params.seeds]
    conditional = Conditional(SumOfGaussians(), runs, params, params.variants[name])
    conditional.train()
    by_points, shape = {}, (len(params.percents), len(params.seeds))
    for where, unseen in {"unseen": True, "trained on": False}.items():
        nats = {"own": conditional.estimates(own, unseen), "uniform": conditional.estimates([100] * len(runs), unseen)}
        by_points[where] = {law: torch.tensor(values).view(shape).tolist() for law, values in nats.items()}
    return by_points


def rows(name: str, params: ConditionalParams, by_points: Mapping[str, Any]) -> list[dict[str, Number]]:
    """Rows of a variant, by kind of points and by share; an interval is half of the 95 % interval over seeds."""
    variant = params.variants[name]
    return [
        {
            "variant": name,
            "score": variant.score,
            "learning_rate": variant.learning_rate,
            "warm_start": variant.warm_start,
            "points": points,
            "method": "NCE" if percent == 100 else "CNCE",
            "percent_closest": percent,
            "estimate_nats": digits(over_seeds(nats["own"][place]).mean),
            **_spread("", nats["own"][place]),
            "uniform_nats": digits(over_seeds(nats["uniform"][place]).mean),
            **_spread("uniform_", nats["uniform"][place]),
            # It holds only if the critic's own score ranks the points, and not a distance.
            "supremum_nats": "" if variant.score == "distance" else digits(supremum(SumOfGaussians.RHO, percent / 100)),
            **by_seed("estimate_nats", dict(zip(params.seeds, map(digits, nats["own"][place]), strict=True))),
            **by_seed("uniform_nats", dict(zip(params.seeds, map(digits, nats["uniform"][place]), strict=True))),
        }
        for points, nats in by_points.items()
        for place, percent in enumerate(params.percents)
    ]


def _spread(law: str, nats: list[float]) -> dict[str, str]:
    std, half = std_over_seeds(nats), over_seeds(nats).half
    return {
        f"{law}std_over_seeds_nats": "" if std == "" else digits(std),
        f"{law}interval_nats": "" if half is None else digits(half),
    }


def digits(nats: float) -> str:
    """Four significant digits: the values go down to millionths of a nat, which a table of nats would round to 0."""
    return f"{nats:.4g}"
