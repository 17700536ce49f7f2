"""NCE and CNCE of a toy, with critics of their own: many runs, over shares and seeds, trained as one.

Every query's negatives come from the closest share of the points to it, in the critic's own embedding, as a method
takes them from its bank; here every point is embedded anew at each step.

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
from annulus.studies.estimators.bounds import INFONCE
from annulus.studies.estimators.critics import Separable
from annulus.studies.estimators.ensembles import Ensemble
from annulus.studies.estimators.params import ConditionalParams, ConditionalVariant
from annulus.studies.estimators.spread import std_over_seeds
from annulus.studies.estimators.supremum import supremum
from annulus.studies.estimators.toys import SumOfGaussians, Toy

Points = tuple[Float[Tensor, "r n dx"], Float[Tensor, "r n dy"]]  # x and y of several runs


class Run(NamedTuple):
    """One critic's share of the points that negatives come from, and its seed: of points, weights, order and draws."""

    percent: int
    seed: int


class Columns(nn.Sequential):
    """A network whose inner layers have a column per point: with ten units and thousands of points, the product of
    several networks at a time is six times faster so."""

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        columns = x.T
        for layer in self:
            linear = isinstance(layer, nn.Linear)
            columns = torch.addmm(layer.bias[:, None], layer.weight, columns) if linear else layer(columns)
        return columns.T


class Conditional:
    """Runs of one variant, trained together; each run has the same numbers as if it were trained separately."""

    def __init__(self, toy: Toy, runs: Sequence[Run], params: ConditionalParams, variant: ConditionalVariant) -> None:
        self.params, self.runs, self.variant, self.toy = params, list(runs), variant, toy
        self.temperature = params.temperature if variant.score == "cosine" else None
        self.x, self.y = self._points("points")
        critics = [self._critic(run.seed) for run in runs]
        self.of_x, self.of_y = (
            Ensemble([Columns(*network) for network in networks])
            for networks in ([c.of_x for c in critics], [c.of_y for c in critics])
        )
        self.optimizer = Adam([*self.of_x.parameters(), *self.of_y.parameters()], variant.learning_rate)
        self.draws = [generator(run.seed, "negatives") for run in runs]

    def train(self, after_epoch: Callable[[int], None] = lambda epoch: None) -> None:
        """All epochs, the first ones with negatives from all points; a last, smaller batch is left out."""
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
        """One batch of each run, with negatives from these shares."""
        queries = self._scaled(self.of_x(self.x.gather(1, index[..., None].expand(-1, -1, self.x.shape[2]))))
        loss = vmap(infonce)(*self._scores(queries, self._scaled(self.of_y(self.y)), index, percents))
        self.optimizer.zero_grad()
        loss.sum().backward()
        self.optimizer.step()

    @torch.no_grad()
    def estimates(self, percents: Sequence[int], unseen: bool = False) -> list[float]:
        """Each run's estimate in nats with negatives from these shares: mean over all points and repeated draws.

        Of the points trained on, or of as many unseen ones, others for each draw: a bound holds in expectation over
        points that the critic has not seen, and one set of them has more noise than the critics' seeds.
        In float64, since the estimates of collapsed critics are as small as the rounding of log K in float32.
        """
        index, bound = torch.arange(self.params.points).expand(len(self.runs), -1), INFONCE
        nats = torch.zeros(self.params.draws, len(self.runs), dtype=torch.float64)
        for repeat in range(self.params.draws):
            x, y = self._points("unseen points", repeat) if unseen else (self.x, self.y)
            queries, stored = (self._scaled(embeddings).double() for embeddings in (self.of_x(x), self.of_y(y)))
            positive, negatives = self._scores(queries, stored, index, percents)
            for run in range(len(self.runs)):
                nats[repeat, run] = bound.estimate(positive[run, :, 0], negatives[run])
        return nats.mean(dim=0).tolist()

    def _points(self, *names: str | int) -> Points:
        """The points of these names, each run's by its seed."""
        pairs = [self.toy.sample(self.params.points, generator(run.seed, *names)) for run in self.runs]
        return torch.stack([pair.x for pair in pairs]), torch.stack([pair.y for pair in pairs])

    def _scores(
        self,
        queries: Float[Tensor, "r b e"],
        stored: Float[Tensor, "r n e"],
        index: Int[Tensor, "r b"],
        percents: Sequence[int],
    ) -> tuple[Float[Tensor, "r b 1"], Float[Tensor, "r b k"]]:
        drawn_scores = []  # run by run: a run's scores of all points stay in the cache until those drawn are taken
        for run, (of_x, of_y) in enumerate(zip(queries.unbind(), stored.unbind(), strict=True)):
            scores = of_x @ of_y.T
            near = -torch.cdist(of_x, of_y) if self.variant.score == "distance" else scores
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
        # F.normalize over columns: its norm takes seven times as long as the network.
        return embedding * (self.temperature * embedding.square().sum(dim=-1, keepdim=True)).clamp_min(1e-24).rsqrt()


def train_variant(params: ConditionalParams, name: str) -> Mapping[str, Any]:
    """Estimates (shares, seeds) of a variant's trained critics, in nats.

    On points that they have not seen, and on those trained on, with negatives of their own share (`own`) and of all
    points (`uniform`).
    """
    own = [percent for percent in params.percents for _ in params.seeds]
    runs = [Run(percent, seed) for percent in params.percents for seed in params.seeds]
    conditional = Conditional(SumOfGaussians(), runs, params, params.variants[name])
    conditional.train()
    by_points, shape = {}, (len(params.percents), len(params.seeds))
    for where, unseen in {"unseen": True, "trained on": False}.items():
        nats = {"own": conditional.estimates(own, unseen), "uniform": conditional.estimates([100] * len(runs), unseen)}
        by_points[where] = {law: torch.tensor(values).view(shape).tolist() for law, values in nats.items()}
    return by_points


def rows(name: str, params: ConditionalParams, by_points: Mapping[str, Any]) -> list[dict[str, Number]]:
    """A variant's rows, by kind of points and by share; an interval is half the width of the 95 % one over seeds."""
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
            # Of critics by whose own score the points are the closest ones; by distance others are.
            "supremum_nats": "" if variant.score == "distance" else digits(supremum(SumOfGaussians.RHO, percent / 100)),
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
    """To four significant digits: these go down to millionths of a nat, which a table of nats would round away."""
    return f"{nats:.4g}"
