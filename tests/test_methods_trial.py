"""Samplers and bounds of one's own: right ones pass a trial on made-up scores, faulty ones are refused by name."""

from dataclasses import dataclass, make_dataclass, replace

import pytest
import torch
from settings import load
from torch.nn.functional import logsigmoid

from annulus import ContrastConfig, Selection, bounds, negatives
from annulus.bounds import BOUNDS
from annulus.errors import InputError
from annulus.methods.trial import try_bound, try_sampler
from annulus.negatives import SAMPLERS, Ring, Uniform
from annulus.negatives.clusters import Clustering
from annulus.settings import Section
from annulus_lab.config import all_params

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


class Own(negatives.Sampler):
    """A sampler that draws columns by weight and has no set."""

    def weights(self, scores):
        return (0.5 * scores).softmax(dim=1)

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        return negatives.draw_weighted(self.weights(scores), self_index, k, generator)


class Set(Own):
    """The same with all columns as its set."""

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        if k == "all":
            return negatives.uniform(scores, self_index, k, generator)
        return Own.draw(self, scores, self_index, k, generator)


class Alike(Set):
    """A set of all columns, drawn uniformly by equal weights."""

    def weights(self, scores):
        return torch.ones_like(scores)


class Apart(Own):
    """Different columns: the first k of a random order of the closest half."""

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        closest = negatives.ball(scores, self_index, 0.5, "all", generator)
        if k == "all":
            return closest
        order = negatives.fractions(*closest.index.shape, generator).argsort(dim=1)
        return Selection(closest.index.gather(1, order[:, :k]))


class Common(negatives.Sampler):
    """The same columns for all queries of a batch, without each query's own."""

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        if k == "all":
            return negatives.uniform(scores, self_index, k, generator)
        columns = (negatives.fractions(1, k, generator) * scores.shape[1]).long().expand(len(scores), k)
        return Selection(columns, columns != self_index[:, None])


class Images(Set):
    """Columns of images with an odd number; `clusters.columns` holds the numbers."""

    clustering = "images"

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        odd = negatives.Clusters(clusters.columns % 2, torch.zeros_like(clusters.queries))
        return negatives.cave(scores, self_index, 1.0, odd, k, generator)


def drawing(draw):
    return type("Mine", (Own,), {"draw": lambda self, *arguments: draw(*arguments)})()


class Plain(negatives.Sampler):
    def shares(self):
        return 0.0, 0.5


FAULTY = {
    "shares that are no property": (Plain(), "Plain.shares is a method; write @property above it"),
    "of weights with a set": (Set(), "Set.draw does not draw uniformly from the set that it returns for k 'all'"),
    "of torch": (
        drawing(lambda scores, own, k, generator, *_: torch.multinomial(scores.softmax(1), 8, generator=generator)),
        r"Mine.draw fails on made-up scores: TypeError: .*\(test_methods_trial.py, line \d+\); its generator is for",
    ),
    "more columns": (
        drawing(lambda scores, *_: scores.topk(1024).indices),
        "Mine.draw fails on made-up scores: RuntimeError: .* where 256 columns or 8 negatives are too few for it, "
        "raise annulus.InputError",
    ),
    "while it anneals": (
        drawing(
            lambda scores, own, k, generator, progress, *_: negatives.ball(
                scores, own, {0.0: 1.0, 1.0: 0.1}[progress], k, generator
            )
        ),
        "Mine.draw fails on made-up scores: KeyError: 0.5",
    ),
    "the same row": (
        drawing(lambda scores, *_: scores.topk(8).indices),
        "Mine.draw gives a Tensor for k 8; give annulus.Selection",
    ),
    "own columns": (
        drawing(lambda scores, own, k, generator, *_: negatives.uniform(scores, None, k, generator)),
        "Mine.draw gives columns of the query's own image; leave out those of `self_index`",
    ),
    "by other numbers": (
        drawing(lambda scores, own, k, *_: negatives.ring(scores, own, 0.1, 0.5, k, fresh())),
        "Mine.draw gives other columns from the same random state",
    ),
    "all for k": (
        drawing(lambda scores, own, k, generator, *_: negatives.uniform(scores, own, "all", generator)),
        "Mine.draw gives all columns for k 8",
    ),
    "the hardest": (
        drawing(
            lambda scores, own, k, generator, *_: negatives.ball(scores, own, 0.5 if k == "all" else 0.1, k, generator)
        ),
        "Mine.draw does not draw uniformly",
    ),
    "beyond": (
        drawing(lambda scores, own, k, *_: Selection(torch.full((len(scores), 8), scores.shape[1]))),
        "Mine.draw fails on made-up scores: .*an index holds the numbers of columns",
    ),
}
seeds = iter(range(100))


def fresh():
    return torch.Generator().manual_seed(next(seeds))


@pytest.mark.parametrize(("sampler", "match"), FAULTY.values(), ids=FAULTY)
def test_a_sampler_that_draws_otherwise_than_it_says_is_refused_where_a_contrast_is_made(sampler, match):
    with pytest.raises(InputError, match=match):
        ContrastConfig(sampler, negatives=4)


def test_right_samplers_pass_with_a_set_or_without_whatever_the_caller_has_chosen():
    for sampler in (Own(), Alike(), Apart(), Common(), Images(), negatives.Ring(inner=0.0001, outer=0.001)):
        try_sampler(sampler, 4)
    for sampler in (Alike(), Apart(), Common(), Images()):
        try_sampler(sampler, "all")
    before = torch.get_default_dtype()
    with torch.device("meta"), torch.inference_mode():
        torch.set_default_dtype(torch.float16)
        try:
            ContrastConfig(Own(), negatives=4)
        finally:
            torch.set_default_dtype(before)
    with pytest.raises(InputError, match="negatives 'all': a sampler that draws by weight has no set"):
        ContrastConfig(Own())


@pytest.mark.parametrize(("clusters", "labels"), [(5, 5), (4096, 8)])  # more clusters would hold too few columns
def test_a_sampler_that_clusters_is_tried_with_the_clusters_of_columns_and_queries_by_its_settings(clusters, labels):
    calls = []

    class Clustered(Alike):
        clustering = Clustering(clusters=clusters, iterations=1, runs=3)

        def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
            clusters.check(*scores.shape)
            calls.append((k, progress))
            own = clusters.columns[:, self_index]
            assert clusters.columns.shape == (3, scores.shape[1])
            assert clusters.columns.dtype == torch.int32
            assert all(len(row.unique()) == labels for row in clusters.columns)
            assert torch.equal(clusters.queries, own)
            return Alike.draw(self, scores, self_index, k, generator)

    try_sampler(Clustered(), "all")
    assert {(8, 0.0), (8, 0.5), (8, 1.0), ("all", 1.0)} <= set(calls)


@dataclass(frozen=True)
class Decoupled(bounds.Loss):
    def loss(self, positives, negatives, training=0.0):
        return (negatives.logsumexp(dim=1) - positives[:, 0]).mean()


class AsBound(bounds.Bound):
    """A loss reported as a bound."""

    def loss(self, positives, negatives, training=0.0):
        return Decoupled().loss(positives, negatives)

    def ceiling(self, positives, negatives, training=0.0):
        return (negatives / positives).log().mean()


def bound(loss=bounds.infonce, ceiling=lambda positives, negatives: (negatives / positives).log1p().mean()):
    kinds = {"loss": lambda self, *scores_and_share: loss(*scores_and_share[:2])}
    return type("Mine", (bounds.Bound,), kinds | {"ceiling": lambda self, *numbers: ceiling(*numbers[:2])})()


class OneWay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        return scores.mean()


class Unlimited(bounds.Bound):
    """Nguyen et al. 2010, arXiv:0809.0853: a bound without a ceiling."""

    def loss(self, positives, negatives, training=0.0):
        return (negatives - 1).exp().mean() - positives.mean()

    def estimate(self, positives, negatives, *further):
        loss = self.loss(positives, negatives)
        return bounds.Estimate(loss, loss.detach(), -loss.detach(), torch.tensor(torch.inf))


class Lost(bounds.Bound):
    """A bound of NaN with a finite loss and ceiling."""

    def estimate(self, *scores):
        return replace(bounds.InfoNCE().estimate(*scores), bound_nats=torch.tensor(torch.nan))


BOUND_FAULTS = {
    "no number": (Lost(), "the bound of Lost is nan nats, and its ceiling 2.773, where scores are all equal; give"),
    "no ceiling": (
        Unlimited(),
        "the bound of Unlimited is -0.3679 nats, and its ceiling inf, where scores are all equal; give finite numbers, "
        "which metrics are; derive a loss without a ceiling from annulus.bounds.Loss",
    ),
    "below 0": (AsBound(), "the bound of AsBound, .* is 100 nats where scores tell the positive apart, and not 2.7"),
    "its ceiling": (
        bound(ceiling=lambda positives, negatives: negatives.sum().float()),
        "the bound of Mine, .* is 477.2 nats where scores are all equal, and not 0 at most; mend its ceiling",
    ),
    "by little": (
        bound(ceiling=lambda positives, negatives: (negatives / positives).log1p().mean() + 0.002),
        "the bound of Mine, .* is 0.002 nats where scores are all equal, and not 0 at most",
    ),
    "its sign": (
        bound(lambda positives, negatives: 200 - bounds.infonce(positives, negatives), lambda *_: torch.tensor(2.0)),
        "the loss of Mine rises with the positives' scores where scores are all equal; turn its sign",
    ),
    "no mean": (
        bound(lambda positives, negatives: negatives.logsumexp(dim=1) - positives[:, 0]),
        r"loss of Mine is of shape \(32,\) where|Actual value: f32\[32\]",
    ),
    "no gradient": (bound(lambda *scores: bounds.infonce(*scores).detach()), "the loss of Mine has no gradient"),
    "not finite": (
        bound(lambda *scores: bounds.infonce(*scores) / 0),
        "the loss of Mine is inf where scores are all equal; give",
    ),
    "in its gradient": (
        bound(lambda positives, negatives: OneWay.apply(positives) - OneWay.apply(negatives)),
        "the gradient of Mine fails on made-up scores: .*; a loss is made of functions that torch can differentiate",
    ),
    "what it changes": (  # an estimate reads the scores again after the loss
        bound(lambda positives, negatives: bounds.infonce(positives, negatives.mul_(2))),
        r"the loss or ceiling of Mine fails on made-up scores: .*in-place operation. \(test_methods_trial.py, line ",
    ),
    "an error": (
        bound(lambda positives, negatives: positives @ negatives),
        r"the loss or ceiling of Mine fails on made-up scores: RuntimeError: .*\(test_methods_trial.py, line \d+\)",
    ),
}


@pytest.mark.parametrize(("faulty", "match"), BOUND_FAULTS.values(), ids=BOUND_FAULTS)
def test_a_bound_that_is_none_by_its_own_numbers_is_refused_where_a_contrast_is_made(faulty, match):
    with pytest.raises(InputError, match=match):
        ContrastConfig(bound=faulty)


@pytest.mark.parametrize(
    ("part", "value", "match"),
    [
        ("loss", torch.ones(32, requires_grad=True), r"loss of Mine is of shape \(32,\) where .* equal; give a"),
        ("ceiling_nats", torch.ones(32), r"ceiling_nats of Mine is of shape \(32,\) .* a mean over queries"),
        ("ceiling_nats", 2.7, "ceiling_nats of Mine is a float where scores are all equal; give a tensor"),
    ],
)
def test_an_estimate_of_which_a_part_is_no_tensor_of_one_number_is_refused(part, value, match):
    """One case is a ceiling without its mean. The part is set afterwards, since tests check types at creation."""

    def estimate(self, *scores):
        result = bounds.InfoNCE().estimate(*scores)
        object.__setattr__(result, part, value)
        return result

    with pytest.raises(InputError, match=match):
        try_bound(type("Mine", (bounds.Bound,), {"estimate": estimate})())


def test_an_estimate_that_is_none_is_refused():
    mine = type("Mine", (bounds.Bound,), {"estimate": lambda self, positives, *_: positives.mean()})()
    with pytest.raises(InputError, match=r"estimate of Mine gives a Tensor; give annulus\.bounds\.Estimate"):
        try_bound(mine)


def test_right_bounds_pass_and_a_loss_that_is_none_reports_infonce_of_the_same_scores(generator):
    for right in (bound(), Decoupled()):
        try_bound(right)
        with torch.device("meta"), torch.inference_mode():
            try_bound(right)
    for dtype in (torch.bfloat16, torch.float16):
        torch.set_default_dtype(dtype)
        try:
            try_bound(bounds.InfoNCE(eqco_alpha=100.0 if dtype == torch.bfloat16 else 1000.0))  # rounded up by these
            assert torch.get_default_dtype() == dtype
        finally:
            torch.set_default_dtype(torch.float32)
    positives, others = torch.randn(6, 1, generator=generator), torch.randn(6, 9, generator=generator)
    others[0, 3:] = -torch.inf
    counts = torch.tensor([3] + [9] * 5)
    actual, expected = (
        one.estimate(positives.clone().requires_grad_(), others.clone().requires_grad_(), 0.5, counts, lambda: None)
        for one in (Decoupled(), bounds.InfoNCE())
    )
    assert float(actual.bound_nats) == pytest.approx(float(expected.bound_nats))
    assert float(actual.ceiling_nats) == pytest.approx(float(expected.ceiling_nats))
    assert float(actual.loss_nats) == pytest.approx(float(Decoupled().loss(positives, others)))
    assert actual.loss.requires_grad
    assert not actual.bound_nats.requires_grad


def spectral(positives, negatives):
    """HaoChen et al. 2021, arXiv:2106.04156, Eq. 6: its squares grow with any large score."""
    return -2 * positives[:, 0].mean() + negatives.square().mean()


def regularised(positives, negatives):
    """Bardes et al. 2022, arXiv:2105.04906: the distance of the two views, and a variance of at least 1."""
    spread = (negatives.var(dim=0) + 1e-4).sqrt()
    return (1 - positives / 10).square().mean() + (1 - spread).relu().mean()


def sigmoid(positives, negatives):
    """Zhai et al. 2023, arXiv:2303.15343, with bias -3."""
    return -(logsigmoid(positives[:, 0] - 3) + logsigmoid(3 - negatives).sum(dim=1)).mean()


def ranking(positives, negatives):
    """Ranking loss without a margin: it has no slope at equal scores."""
    return (negatives - positives).relu().mean()


def uniformity(positives, negatives):
    """Wang and Isola 2020, arXiv:2005.10242: the part of their loss that does not use the positives."""
    return negatives.exp().mean().log()


@pytest.mark.parametrize("loss", [spectral, regularised, sigmoid, ranking, uniformity])
def test_losses_of_the_literature_pass(loss):
    kinds = {"loss": lambda self, positives, negatives, training: loss(positives, negatives)}
    try_bound(type("Mine", (bounds.Loss,), kinds)())


seen = []


class Learning(bounds.Bound):
    """A loss with a layer of its own, whose weights and dropout come from torch's own random state."""

    def begin(self):
        return Layer()


class Layer(torch.nn.Module):
    neighbours = "refused"

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Linear(1, 1)

    def estimate(self, positives, negatives, *further):
        kept = torch.nn.functional.dropout(negatives, 0.1)
        seen.append(self.scale.weight.item())
        return Decoupled().estimate(positives * self.scale.weight.abs(), kept, *further)


def test_a_trial_of_what_draws_from_torch_s_own_random_state_neither_moves_nor_depends_on_it():
    seen.clear()
    for seed in range(3):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            try_bound(Learning())
            assert torch.equal(torch.get_rng_state(), before)
    assert seen[:2] == seen[2:4] == seen[4:]  # a trial begins it twice


def test_all_choices_of_params_yaml_pass_and_one_that_fails_is_named_by_its_keys(monkeypatch):
    for sampler in SAMPLERS:
        for bound in BOUNDS:
            load({"sampler": sampler, "bound": bound, "bounds.hcl.tau_plus": 0.0})
    monkeypatch.setattr(all_params, "_passed", set())
    monkeypatch.setattr(SAMPLERS["ring"], "draw", Set.draw)
    monkeypatch.setattr(SAMPLERS["ring"], "weights", Own.weights, raising=False)
    with pytest.raises(
        InputError, match=r"sampler: ring, bound: infonce, methods.ir.negatives: sampled: Ring.draw does"
    ):
        load({})


def test_choices_that_have_passed_are_tried_again_where_a_class_or_a_value_differs(monkeypatch):
    """One section has a list, which has no hash."""
    tried = []
    monkeypatch.setattr(all_params, "_passed", set())
    monkeypatch.setattr(all_params, "ContrastConfig", lambda *arguments: tried.append(arguments[0]))
    params = load({"sampler": "uniform"})
    listed = make_dataclass("Uniform", [("shares", list[float])], bases=(Section,), frozen=True)
    choices = [Uniform(), listed([0.5]), listed([0.5]), listed([0.7]), Ring(inner=0.1, outer=0.5), Uniform()]
    for sampler in choices:
        object.__setattr__(params.samplers, "uniform", sampler)
        params._try_contrast()
    assert tried == [Uniform(), listed([0.5]), listed([0.7]), choices[4]]
