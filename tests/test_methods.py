"""Instance discrimination against plain loops over the papers' objective, its gradient, its two verbs."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from annulus.config import BallParams, CaveParams, IRParams, RingParams, UniformParams
from annulus.encoders import Encoder, EncoderConfig, build_encoder
from annulus.methods import InstanceDiscrimination
from annulus.negatives import draw

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

IMAGES, TEMPERATURE = 41, 0.2
PARAMS = IRParams(temperature=TEMPERATURE, bank_rate=0.25, bank_start="random", embedding_dim=6, head="linear")
SAMPLERS = {
    "uniform": UniformParams(),
    "ball": BallParams(outer=0.5),
    "ring": RingParams(outer=0.5, inner=0.1),
    "outside": CaveParams(outer=0.8, clusters=3, runs=2, iterations=3, keep="outside"),
    "inside": CaveParams(outer=1.0, clusters=3, runs=2, iterations=3, keep="inside"),
}
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
INDEX = torch.tensor([3, 40, 0, 17, 22])
VIEWS = torch.zeros(5, 3, 8, 8)  # `Given` does not look at them


class Given(Encoder):
    """An encoder whose embeddings are given, as weights to be differentiated."""

    def __init__(self, anchor):
        nn.Module.__init__(self)
        self.anchor = nn.Parameter(anchor)

    def forward(self, images):
        return self.anchor


def method_of(sampler, negatives="all", seed=0):
    generator = torch.Generator().manual_seed(2)
    anchor = F.normalize(torch.randn(5, 6, generator=generator, dtype=torch.float64), dim=1)
    method = InstanceDiscrimination(
        Given(anchor), IMAGES, PARAMS, sampler, negatives, seed, torch.device("cpu")
    ).double()
    method.before_epoch(0)
    return method


def candidates_of(method, negatives_generator=None):
    """Each query's negative rows as the sampler gives them."""
    scores = method.encoder.anchor.detach() @ method.bank.rows.T / TEMPERATURE
    generator = negatives_generator or torch.Generator()
    clusters = method.clusters if isinstance(method.sampler, CaveParams) else None
    found = draw(scores, INDEX, method.negatives, method.sampler, 1.0, generator, clusters)
    if found.present is None:
        return found.rows.tolist()
    return [rows[there].tolist() for rows, there in zip(found.rows, found.present, strict=True)]


def plain_scores(method, query, rows):
    """s_j = z^T M[j] / temperature, by loops."""
    anchor = method.encoder.anchor[query].tolist()
    bank = method.bank.rows.tolist()
    return [sum(a * m for a, m in zip(anchor, bank[row], strict=True)) / TEMPERATURE for row in rows]


def plain_loss(method, candidates):
    """IR (ring eq. 3) as a loss, without its constant: mean over i of log sum_{i, j} exp s_j - s_i."""
    losses = []
    for query, negatives in enumerate(candidates):
        [own] = plain_scores(method, query, [int(INDEX[query])])
        scores = plain_scores(method, query, negatives)
        losses.append(math.log(math.exp(own) + sum(math.exp(score) for score in scores)) - own)
    return sum(losses) / len(losses)


# --- the loss -----------------------------------------------------------------------------------------


@each_sampler
@pytest.mark.parametrize("negatives", [30, "all"])
def test_the_loss_equals_the_plain_loop_over_the_paper_s_objective(sampler, negatives):
    method = method_of(sampler, negatives)
    same_draws = torch.Generator()
    same_draws.set_state(method.generator.get_state())
    candidates = candidates_of(method, same_draws)
    step = method.loss(VIEWS, INDEX, 1.0)
    assert step.loss.item() == pytest.approx(plain_loss(method, candidates), rel=1e-12)
    ceiling = sum(math.log(1 + len(rows)) for rows in candidates) / len(candidates)
    assert step.ceiling.item() == pytest.approx(ceiling, rel=1e-6)
    assert torch.equal(step.embedding, method.encoder.anchor.detach())
    assert not step.embedding.requires_grad


@each_sampler
def test_the_gradient_is_the_own_row_minus_the_expected_row(sampler):
    """d loss / d z = -(1/T) (M[i] - sum_j p_j M[j]), p the softmax over the candidates; mean over the batch."""
    method = method_of(sampler)
    candidates = candidates_of(method)
    method.loss(VIEWS, INDEX, 1.0).loss.backward()
    for query, negatives in enumerate(candidates):
        own = int(INDEX[query])
        rows = [own, *negatives]
        weights = [math.exp(score) for score in plain_scores(method, query, rows)]
        bank = method.bank.rows.tolist()
        expected = [
            -(bank[own][d] - sum(w * bank[r][d] for w, r in zip(weights, rows, strict=True)) / sum(weights))
            / (TEMPERATURE * len(candidates))
            for d in range(6)
        ]
        assert method.encoder.anchor.grad[query].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("sampler", ["ring", "outside"])
def test_the_gradient_agrees_with_finite_differences(sampler):
    method = method_of(SAMPLERS[sampler])

    def loss(anchor):
        method.encoder.anchor = anchor
        return method.loss(VIEWS, INDEX, 1.0).loss

    anchor = method.encoder.anchor.detach().clone().requires_grad_()
    del method.encoder.anchor  # a parameter, which would refuse a plain tensor
    assert torch.autograd.gradcheck(loss, anchor)


def test_the_bank_gets_no_gradient():
    method = method_of(SAMPLERS["ring"])
    method.loss(VIEWS, INDEX, 1.0).loss.backward()
    assert not method.bank.rows.requires_grad
    assert method.bank.rows.grad is None


def test_ring_and_ball_of_the_whole_memory_give_the_loss_of_ir():
    """ring statement 8: IRing at w_l = 0, w_u = 100 is IR."""
    losses = [
        method_of(sampler, 30).loss(VIEWS, INDEX, 1.0).loss.item()
        for sampler in (UniformParams(), BallParams(outer=1.0), RingParams(outer=1.0, inner=0.0))
    ]
    assert losses[0] == losses[1] == losses[2]


@each_sampler
def test_progress_0_gives_the_loss_of_ir_and_progress_1_does_not(sampler):
    ir = method_of(UniformParams(), 30).loss(VIEWS, INDEX, 1.0).loss.item()
    assert method_of(sampler, 30).loss(VIEWS, INDEX, 0.0).loss.item() == ir
    if sampler != UniformParams():
        assert method_of(sampler, 30).loss(VIEWS, INDEX, 1.0).loss.item() != ir


def test_the_seed_repeats_bank_and_negatives_and_steps_draw_anew():
    first, again, other = (method_of(SAMPLERS["ring"], 5, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.bank.rows, again.bank.rows)
    assert not torch.equal(first.bank.rows, other.bank.rows)
    other.bank.rows.copy_(first.bank.rows)
    losses = [[method.loss(VIEWS, INDEX, 1.0).loss.item() for _ in range(3)] for method in (first, again, other)]
    assert losses[0] == losses[1]
    assert len({*losses[0], *losses[2]}) == 6


# --- the two verbs ------------------------------------------------------------------------------------


def test_after_step_stores_the_embeddings_once_backward_has_read_the_bank():
    method = method_of(SAMPLERS["ring"])
    before = method.bank.rows.clone()
    step = method.loss(VIEWS, INDEX, 1.0)
    step.loss.backward()
    assert torch.equal(method.bank.rows, before), "the loss does not write"
    method.after_step(INDEX, step)
    expected = F.normalize(0.25 * before[INDEX] + 0.75 * step.embedding, dim=1)
    torch.testing.assert_close(method.bank.rows[INDEX], expected)
    others = [row for row in range(IMAGES) if row not in INDEX.tolist()]
    assert torch.equal(method.bank.rows[others], before[others])


def test_after_step_before_backward_is_refused_by_autograd():
    method = method_of(SAMPLERS["ring"])
    step = method.loss(VIEWS, INDEX, 1.0)
    method.after_step(INDEX, step)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        step.loss.backward()


# --- clusters -----------------------------------------------------------------------------------------


def test_cave_clusters_the_bank_anew_each_epoch_and_the_seed_repeats_it():
    first, again = (method_of(SAMPLERS["outside"]) for _ in range(2))
    epochs = []
    for epoch in range(3):
        for method in (first, again):
            method.before_epoch(epoch)
        assert first.clusters.shape == (2, IMAGES)
        assert torch.equal(first.clusters, again.clusters)
        epochs.append(first.clusters)
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[1], epochs[2])


def test_an_epoch_of_one_seed_does_not_cluster_as_another_epoch_of_the_next_seed():
    first, second = (method_of(SAMPLERS["outside"], seed=seed) for seed in (0, 1))
    second.bank.rows.copy_(first.bank.rows)
    first.before_epoch(1)
    second.before_epoch(0)
    assert not torch.equal(first.clusters, second.clusters)


def test_clusters_are_those_of_the_sampler_s_settings():
    method = method_of(SAMPLERS["outside"].model_copy(update={"clusters": 7, "iterations": 100}))
    for assigned in method.clusters:  # a hundred iterations reach the fixed point: each row at its nearest mean
        assert assigned.unique().tolist() == list(range(7))
        means = torch.stack([method.bank.rows[assigned == cluster].mean(dim=0) for cluster in range(7)])
        assert torch.equal(torch.cdist(method.bank.rows, means).argmin(dim=1).int(), assigned)


def test_cave_follows_the_bank():
    method = method_of(SAMPLERS["outside"])
    before = method.clusters
    method.bank.rows.copy_(method.bank.rows.roll(7, dims=0))
    method.before_epoch(0)
    assert not torch.equal(method.clusters, before)


@each_sampler
def test_a_loaded_method_goes_on_like_the_one_that_was_saved(sampler):
    """Weights, bank, clusters and the negatives' random state are all in state_dict."""
    original, resumed = method_of(sampler, 10), method_of(sampler, 10, seed=1)
    for _ in range(2):
        step = original.loss(VIEWS, INDEX, 1.0)
        original.after_step(INDEX, step)
    resumed.load_state_dict(original.state_dict())
    for _ in range(2):
        steps = [method.loss(VIEWS, INDEX, 1.0) for method in (original, resumed)]
        assert steps[0].loss.item() == steps[1].loss.item()
        for method, step in zip((original, resumed), steps, strict=True):
            method.after_step(INDEX, step)
    assert torch.equal(original.bank.rows, resumed.bank.rows)


# --- with a real encoder ------------------------------------------------------------------------------


def test_every_weight_of_a_real_encoder_learns(generator):
    statistics = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    config = EncoderConfig("alexnet", "cifar", "mlp", embedding_dim=6, view_size=16, channels="rgb", **statistics)
    encoder = build_encoder(config, seed=0)
    method = InstanceDiscrimination(encoder, IMAGES, PARAMS, SAMPLERS["ring"], "all", 0, torch.device("cpu"))
    step = method.loss(torch.rand(5, 3, 16, 16, generator=generator), INDEX, 1.0)
    step.loss.backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name
    given = method_of(SAMPLERS["ring"])
    given.encoder = Given(step.embedding.double())
    assert step.loss.item() == pytest.approx(plain_loss(given, candidates_of(given)), rel=1e-4)
