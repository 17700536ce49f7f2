"""NCE and CNCE runs trained together against each run written out alone, and the sets of their negatives."""

import math
import statistics

import pytest
import torch
from plain_objectives import plain_estimate

from annulus.device.rng import derive, generator
from annulus_lab.studies.estimators import conditional as module
from annulus_lab.studies.estimators.conditional import Conditional, CriticRun
from annulus_lab.studies.estimators.critics import Separable
from annulus_lab.studies.estimators.estimators_params import ConditionalParams, ConditionalVariant
from annulus_lab.studies.estimators.toys import CorrelatedGaussians

pytestmark = pytest.mark.usefixtures("untouched_global_randomness", "in_float64")

POINTS, BATCH, K, EPOCHS = 60, 16, 12, 2
TOY = CorrelatedGaussians(2, 0.8)
each_score = pytest.mark.parametrize("score", ["cosine", "product", "distance"])


def settings(**changes) -> ConditionalParams:
    own = {"points": POINTS, "hidden": 16, "layers": 2, "outputs": 4, "temperature": 0.5, "batch_size": BATCH}
    own |= {"epochs": EPOCHS, "negatives": K, "percents": [100], "draws": 2, "variants": {"one": variant("cosine")}}
    own |= {"seeds": [0]}
    return ConditionalParams(**(own | changes))


def variant(score: str, warm_start: float = 0.0) -> ConditionalVariant:
    return ConditionalVariant(score=score, learning_rate=0.01, warm_start=warm_start)


class Draws:
    """Records the draws in order: one entry per run and step."""

    def __init__(self, monkeypatch) -> None:
        self.index, self.rows = [], []
        ball = module.ball

        def record(near, self_index, *others):
            drawn = ball(near, self_index, *others)
            self.index.append(self_index.clone())
            self.rows.append(drawn.index.clone())
            return drawn

        monkeypatch.setattr(module, "ball", record)


@pytest.fixture
def draws(monkeypatch) -> Draws:
    return Draws(monkeypatch)


def critic(seed: int, score: str) -> Separable:
    """A run's critic before its first step."""
    with torch.random.fork_rng():
        torch.manual_seed(derive(seed, "weights"))
        return Separable(2, 16, 2, 4, 0.5 if score == "cosine" else None)


def trained_critic(conditional: Conditional, run: int) -> Separable:
    """A run's current critic."""
    copy = critic(0, conditional.variant.score)
    for network, ensemble in ((copy.x_network, conditional.x_network), (copy.y_network, conditional.y_network)):
        state = {name: stacked[run] for name, stacked in zip(ensemble.names, ensemble.stacked, strict=True)}
        network.load_state_dict(state)
    return copy


def plain_scores(critic: Separable, x: torch.Tensor, y: torch.Tensor, score: str) -> torch.Tensor:
    """Products of embeddings; a cosine has unit lengths and is divided by the temperature 0.5."""
    embedded_x, embedded_y = critic.x_network(x), critic.y_network(y)
    if score != "cosine":
        return embedded_x @ embedded_y.T
    return (embedded_x @ embedded_y.T) / (embedded_x.norm(dim=1)[:, None] * embedded_y.norm(dim=1)) / 0.5


def closest(model: Separable, x: torch.Tensor, y: torch.Tensor, own: int, percent: int, score: str) -> list[int]:
    """Places of the closest share of the other points, closest first."""
    query, stored = model.embed_x(x[own : own + 1])[0], model.embed_y(y)

    def far(place: int) -> float:
        if score == "distance":
            return sum(((query - stored[place]) ** 2).tolist()) ** 0.5
        return -sum((query * stored[place]).tolist())

    others = sorted((place for place in range(len(y)) if place != own), key=far)
    return others[: math.floor(len(others) * percent / 100)]


@each_score
def test_a_run_is_adam_on_infonce_of_all_points_embedded_anew_at_each_step(score, draws):
    """A plain loop uses the recorded draws: gradients go through the query, its own y and the others'."""
    runs = [CriticRun(100, 3), CriticRun(10, 4)]
    conditional, epochs = Conditional(TOY, runs, settings(), variant(score)), []
    conditional.train(epochs.append)
    assert epochs == list(range(EPOCHS))
    steps = EPOCHS * (POINTS // BATCH)
    assert len(draws.rows) == steps * len(runs)
    for run, (_, seed) in enumerate(runs):
        x, y = TOY.sample(POINTS, generator(seed, "points"))
        plain = critic(seed, score)
        optimizer = torch.optim.Adam(plain.parameters(), 0.01)
        for step in range(steps):
            epoch, batch = divmod(step, POINTS // BATCH)
            order = torch.randperm(POINTS, generator=generator(seed, "order", epoch))
            index = order[batch * BATCH : (batch + 1) * BATCH]
            assert torch.equal(draws.index[step * len(runs) + run], index)
            scores = plain_scores(plain, x[index], y, score)
            rows = draws.rows[step * len(runs) + run]
            candidates = torch.cat([scores.gather(1, index[:, None]), scores.gather(1, rows)], dim=1)
            loss = (candidates.exp().sum(dim=1).log() - candidates[:, 0]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        trained = trained_critic(conditional, run)
        for weight, expected in zip(trained.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(weight, expected, rtol=0, atol=1e-9)


@each_score
@pytest.mark.parametrize(("warm_start", "first"), [(0.0, (100, 10, 50)), (0.5, (100, 100, 100))])
def test_negatives_are_all_of_the_closest_share_of_their_run_and_never_the_own_point(score, warm_start, first, draws):
    """Closeness uses the weights at each of two steps, then the last ones. A warm start draws step one from all."""
    params = settings(negatives=1500, epochs=2, batch_size=POINTS, draws=1)  # enough to draw every member of a set
    runs = [CriticRun(100, 0), CriticRun(10, 0), CriticRun(50, 7)]
    conditional = Conditional(TOY, runs, params, variant(score, warm_start))
    critics = [critic(run.seed, score) for run in runs]
    conditional.train(lambda epoch: critics.extend(trained_critic(conditional, run) for run in range(3)))
    conditional.estimates([10, 100, 50])
    percents = [*first, 100, 10, 50, 10, 100, 50]
    assert len(draws.rows) == len(critics) == len(percents)
    for call, (model, percent) in enumerate(zip(critics, percents, strict=True)):
        points = conditional.x[call % 3], conditional.y[call % 3]
        assert sorted(draws.index[call].tolist()) == list(range(POINTS))
        for own, rows in list(zip(draws.index[call].tolist(), draws.rows[call].tolist(), strict=True))[::9]:
            members = closest(model, *points, own, percent, score)
            assert len(members) == math.floor((POINTS - 1) * percent / 100)
            assert set(rows) == set(members)


@each_score
def test_an_estimate_is_the_mean_over_points_and_repeated_draws_in_float64(score, draws):
    torch.set_default_dtype(torch.float32)
    percents = [100, 10]
    conditional = Conditional(TOY, [CriticRun(percent, 5) for percent in percents], settings(draws=3), variant(score))
    conditional.train()
    draws.index.clear(), draws.rows.clear()
    estimates = conditional.estimates(percents)
    with torch.no_grad():  # all runs at once: a single run's embeddings differ by float32's rounding
        x = conditional._scaled(conditional.x_network(conditional.x)).double()
        y = conditional._scaled(conditional.y_network(conditional.y)).double()
    for run in range(2):
        scores = x[run] @ y[run].T
        torch.testing.assert_close(
            scores,
            trained_critic(conditional, run)(conditional.x[run], conditional.y[run]).double(),
            rtol=1e-4,
            atol=1e-4,
        )
        values = [plain_estimate(scores, range(POINTS), rows) for rows in draws.rows[run::2]]
        assert len(values) == 3
        assert estimates[run] == pytest.approx(statistics.fmean(values), abs=1e-11)


def test_a_critic_that_ignores_its_inputs_estimates_nothing_to_the_last_digit():
    """Table 3 of mutualinfo measures collapsed critics, so the rounding of log K must not show."""
    torch.set_default_dtype(torch.float32)
    conditional = Conditional(TOY, [CriticRun(10, 0)], settings(), variant("distance"))
    with torch.no_grad():
        for ensemble in (conditional.x_network, conditional.y_network):
            for name, stacked in zip(ensemble.names, ensemble.stacked, strict=True):
                if name.endswith("weight"):
                    stacked.zero_()
    assert conditional.estimates([10]) == pytest.approx([0.0], abs=1e-12)


def test_unseen_points_are_others_of_the_same_toy_and_it_is_they_that_are_measured():
    """An overfitted critic scores its few training points better than unseen points."""
    conditional = Conditional(TOY, [CriticRun(100, seed) for seed in range(3)], settings(epochs=40), variant("product"))
    conditional.train()
    known, others = (conditional.estimates([100] * 3, unseen) for unseen in (False, True))
    for seen, unseen in zip(known, others, strict=True):
        assert unseen < seen


def test_unseen_points_are_others_for_each_draw(draws):
    conditional = Conditional(TOY, [CriticRun(50, 5), CriticRun(100, 7)], settings(draws=3), variant("product"))
    draws.index.clear(), draws.rows.clear()
    estimates = conditional.estimates([50, 100], unseen=True)
    for run, seed in enumerate([5, 7]):
        values = []
        for repeat in range(3):
            points = TOY.sample(POINTS, generator(seed, "unseen points", repeat))
            with torch.no_grad():
                scores = trained_critic(conditional, run)(points.x, points.y)
            values.append(plain_estimate(scores, range(POINTS), draws.rows[2 * repeat + run]))
        assert estimates[run] == pytest.approx(statistics.fmean(values), abs=1e-11)
