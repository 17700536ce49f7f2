"""IR against plain loops over the papers' objectives: its bank, its critics, its state from step to step."""

import pytest
import torch
import torch.nn.functional as F
from method_cases import (
    IMAGES,
    INDEX,
    NORMALISERS,
    PROGRESS,
    TEMPERATURE,
    assert_plain,
    assert_resumes,
    config_of,
    each_pick,
    images_embedded,
    indices,
    method_of,
    section,
    views_of,
)
from plain_objectives import assert_same, plain_embeddings, plain_of, plain_scores

from annulus.config.methods import IRParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
VIEWS = views_of(1)


def params_of(**settings):
    return IRParams(**section(bank_rate=0.25, bank_start="random", critic="dot") | settings)


def ir(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0, **settings):
    return method_of(params_of(**settings), config_of(sampler, neighbours, bound, negatives), seed)


def plain(method, state=None, progress=PROGRESS, views=VIEWS, index=INDEX, z_before=None):
    queries = plain_embeddings(views[0], method.encoder.weight)
    scores = plain_scores(queries, method.bank.rows, TEMPERATURE)
    return plain_of(method.contrast, progress, scores, index, self_index=index, state=state, z_before=z_before)


@each_pick
def test_value_and_gradient_are_those_of_the_plain_loops(sampler, neighbours, bound, negatives, progress):
    """IR (ring eq. 3), BALL, IRing, CAVE."""
    assert_plain(ir(sampler, neighbours, bound, negatives), plain, VIEWS, progress)


@pytest.mark.parametrize("policy", NORMALISERS)
def test_the_original_ir_and_its_partition_are_those_of_plain_loops_step_after_step(policy):
    """Z is carried from step to step outside of the method, here as a number."""
    method, z = ir("ball", bound=f"binary-nce {policy}", negatives=12), None
    for number, index in enumerate(indices(4)):
        views = views_of(1, seed=number)
        state, before = method.contrast.generator.get_state(), z
        loss, bound, ceiling, z = plain(method, state, views=views, index=index, z_before=before)
        step = method.loss(views, index, PROGRESS)
        assert_same(step.estimate, (loss, bound, ceiling), method.encoder.weight)
        log_z = method.contrast.bound.partition.log_z
        assert log_z.isnan() if z is None else log_z.exp().item() == pytest.approx(z)
        method.after_step(index, step)


def test_a_critic_scores_the_pairs_and_learns():
    method = ir("ring", critic="mlp-1")
    queries = plain_embeddings(VIEWS[0], method.encoder.weight)
    expected = plain_of(method.contrast, PROGRESS, method.critic(queries, method.bank.rows), INDEX, self_index=INDEX)
    # What the last layer adds to every score alike has no gradient but rounding.
    leaves = [weight for weight in method.critic.parameters() if weight.ndim == 2]
    assert_same(method.loss(VIEWS, INDEX, PROGRESS).estimate, expected, *leaves)


# --- the bank -----------------------------------------------------------------------------------------


def test_the_bank_starts_from_the_encoder_where_asked_and_at_random_otherwise():
    kept, filled = ir(), ir(bank_start="encoder")
    before = kept.bank.rows.clone()
    for method in (kept, filled):
        method.start(images_embedded)
    assert torch.equal(kept.bank.rows, before)
    torch.testing.assert_close(filled.bank.rows, images_embedded())
    assert filled.stored is filled.bank.rows


def test_after_step_stores_the_embeddings_once_backward_has_read_the_bank():
    method = ir("ring")
    before = method.bank.rows.clone()
    step = method.loss(VIEWS, INDEX, PROGRESS)
    step.estimate.loss.backward()
    assert torch.equal(method.bank.rows, before), "the loss does not write"
    method.after_step(INDEX, step)
    expected = F.normalize(0.25 * before[INDEX] + 0.75 * plain_embeddings(VIEWS[0], method.encoder.weight), dim=1)
    torch.testing.assert_close(method.bank.rows[INDEX], expected.detach())
    others = [row for row in range(IMAGES) if row not in INDEX.tolist()]
    assert torch.equal(method.bank.rows[others], before[others])


def test_clusters_are_those_of_the_bank_anew_each_epoch():
    method = ir("outside", "k")
    found = []
    for epoch, rows in ((0, method.bank.rows), (1, method.bank.rows), (0, method.bank.rows.roll(7, dims=0))):
        method.bank.rows.copy_(rows)
        method.before_epoch(epoch, images_embedded)
        found.append((method.contrast.clusters, method.contrast.neighbour_clusters))
    for first, second, of_other_rows in zip(*found, strict=True):
        assert not torch.equal(first, second)
        assert not torch.equal(first, of_other_rows)


@pytest.mark.parametrize(
    ("sampler", "neighbours", "bound"), [("outside", "k", "la"), ("uniform", "none", "binary-nce first-batch")]
)
def test_a_loaded_method_goes_on_like_the_one_that_was_saved(sampler, neighbours, bound):
    """Weights, the critic's too, bank, clusters, partition and the negatives' random state are all in state_dict."""
    config = config_of(sampler, neighbours, bound, negatives=10)
    assert_resumes(params_of(critic="bilinear"), config, [views_of(1, seed=number) for number in range(6)])
