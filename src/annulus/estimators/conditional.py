"""NCE and CNCE of a toy, with critics of their own: many runs, over shares and seeds, trained as one.

Every query's negatives come from the closest share of the points to it, in the critic's own embedding, as a method
takes them from its bank; here every point is embedded anew at each step.

Source: mutualinfo 5.7 (VINCE), ring 5.6 (CNCE).
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import vmap

from annulus import bounds
from annulus.config.estimators import ConditionalParams
from annulus.config.negatives import BallParams
from annulus.estimators.critics import Separable
from annulus.estimators.fitting import Ensemble, seeded
from annulus.estimators.toys import Toy
from annulus.estimators.values import InfoNCE
from annulus.negatives import draw
from annulus.rng import derive, generator

Points = tuple[Float[Tensor, "r n dx"], Float[Tensor, "r n dy"]]  # x and y of several runs


class Run(NamedTuple):
    """One critic's share of the points that negatives come from, and its seed: of points, weights, order and draws."""

    percent: int
    seed: int


class Conditional:
    """Runs of one setting, trained together; a run's numbers are those that it would have alone."""

    def __init__(
        self, toy: Toy, runs: Sequence[Run], params: ConditionalParams, nearness: Literal["dot", "l2"]
    ) -> None:
        self.params, self.runs, self.nearness, self.toy = params, list(runs), nearness, toy
        self.x, self.y = self.points("points")
        critics = [seeded(self._critic, derive(run.seed, "weights")) for run in runs]
        self.of_x, self.of_y = Ensemble([c.of_x for c in critics]), Ensemble([c.of_y for c in critics])
        self.optimizer = torch.optim.Adam([*self.of_x.parameters(), *self.of_y.parameters()], params.learning_rate)
        self.draws = [generator(run.seed, "negatives") for run in runs]

    def points(self, name: str) -> Points:
        """The points of this name, each run's by its seed: `points` are those trained on."""
        pairs = [self.toy.sample(self.params.points, generator(run.seed, name)) for run in self.runs]
        return torch.stack([pair.x for pair in pairs]), torch.stack([pair.y for pair in pairs])

    def train(self, after_epoch: Callable[[int], None] = lambda epoch: None) -> None:
        """All epochs; a last, smaller batch is left out."""
        size = self.params.batch_size
        for epoch in range(self.params.epochs):
            order = torch.stack(
                [torch.randperm(self.params.points, generator=generator(run.seed, "order", epoch)) for run in self.runs]
            )
            for start in range(0, self.params.points - size + 1, size):
                self.step(order[:, start : start + size])
            after_epoch(epoch)

    def step(self, index: Int[Tensor, "r b"]) -> None:
        """One batch of each run."""
        queries = self._scaled(self.of_x(self.x.gather(1, index[..., None].expand(-1, -1, self.x.shape[2]))))
        own = [run.percent for run in self.runs]
        loss = vmap(bounds.infonce)(*self._scores(queries, self._scaled(self.of_y(self.y)), index, own))
        self.optimizer.zero_grad()
        loss.sum().backward()
        self.optimizer.step()

    @torch.no_grad()
    def estimates(self, percents: Sequence[int], points: Points | None = None) -> list[float]:
        """Each run's estimate in nats with negatives from these shares: mean over all points and repeated draws.

        Of the points trained on, or of `points`: a bound holds in expectation over points that the critic has not seen.
        In float64, since the estimates of collapsed critics are as small as the rounding of log K in float32.
        """
        x, y = (self.x, self.y) if points is None else points
        queries, stored = (self._scaled(each).double() for each in (self.of_x(x), self.of_y(y)))
        every, bound = torch.arange(self.params.points).expand(len(self.runs), -1), InfoNCE()
        found = torch.zeros(self.params.draws, len(self.runs), dtype=torch.float64)
        for repeat in range(self.params.draws):
            positive, negatives = self._scores(queries, stored, every, percents)
            for run in range(len(self.runs)):
                found[repeat, run] = bound.estimate(positive[run, :, 0], negatives[run])
        return found.mean(dim=0).tolist()

    def _scores(
        self,
        queries: Float[Tensor, "r b e"],
        stored: Float[Tensor, "r n e"],
        index: Int[Tensor, "r b"],
        percents: Sequence[int],
    ) -> tuple[Float[Tensor, "r b 1"], Float[Tensor, "r b k"]]:
        with torch.no_grad():
            near = queries @ stored.transpose(1, 2) if self.nearness == "dot" else -torch.cdist(queries, stored)
            rows = [
                draw(near[run], index[run], self.params.negatives, BallParams(outer=percent / 100), 1.0, draws).rows
                for run, (percent, draws) in enumerate(zip(percents, self.draws, strict=True))
            ]
            chosen = torch.cat([index[..., None], torch.stack(rows)], dim=2)
            # Rows of all runs' points in one list: only what was drawn is scored with a gradient.
            listed = chosen + torch.arange(len(self.runs))[:, None, None] * stored.shape[1]
        candidates = stored.flatten(0, 1).index_select(0, listed.flatten()).view(*listed.shape, -1)
        scores = (candidates @ queries[..., None]).squeeze(-1)
        return scores[..., :1], scores[..., 1:]

    def _critic(self) -> nn.Module:
        p = self.params
        return Separable(self.x.shape[2], p.hidden, p.layers, p.outputs, p.temperatures[self.nearness])

    def _scaled(self, embedding: Float[Tensor, "r n e"]) -> Float[Tensor, "r n e"]:
        temperature = self.params.temperatures[self.nearness]
        return embedding if temperature is None else F.normalize(embedding, dim=-1) / temperature**0.5
