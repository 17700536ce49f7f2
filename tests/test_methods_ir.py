"""IR against plain loops over the papers' objectives: its bank, its critics, its state from step to step."""

import method_cases as cases
import pytest
import torch
import torch.nn.functional as F
from plain_objectives import assert_same, plain_embeddings, plain_of, plain_scores

from annulus.config.methods import IRParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
VIEWS = cases.views_of(1)


def params_of(**settings):
    return IRParams(**cases.section(bank_rate=0.25, bank_start="random", critic="dot") | settings)


def ir(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0, **settings):
    return cases.method_of(params_of(**settings), cases.config_of(sampler, neighbours, bound, negatives), seed)


def plain(method, state=None, progress=cases.PROGRESS, views=VIEWS, index=cases.INDEX, z_before=None):
    queries = plain_embeddings(views[0], method.encoder.weight)
    scores = plain_scores(queries, method.banks[0].rows, cases.TEMPERATURE)
    return plain_of(method.contrasts[0], progress, scores, index, self_index=index, state=state, z_before=z_before)


@cases.each_pick
def test_value_and_gradient_are_those_of_the_plain_loops(sampler, neighbours, bound, negatives, progress):
    """IR (ring eq. 3), BALL, IRing, CAVE."""
    cases.assert_plain(ir(sampler, neighbours, bound, negatives), plain, VIEWS, progress)


@pytest.mark.parametrize("policy", cases.NORMALISERS)
def test_the_original_ir_and_its_partition_are_those_of_plain_loops_step_after_step(policy):
    """Z is carried from step to step outside of the method, here as a number."""
    method, z = ir("ball", bound=f"binary-nce {policy}", negatives=12), None
    for number, index in enumerate(cases.indices(4)):
        views = cases.views_of(1, seed=number)
        state, before = method.contrasts[0].generator.get_state(), z
        loss, bound, ceiling, z = plain(method, state, views=views, index=index, z_before=before)
        step = method.loss(views, index, cases.PROGRESS)
        assert_same(step.estimate, (loss, bound, ceiling), method.encoder.weight)
        log_z = method.contrasts[0].bound.partition.log_z
        assert log_z.isnan() if z is None else log_z.exp().item() == pytest.approx(z)
        method.after_step(index, step)


def test_a_critic_scores_the_pairs_and_learns():
    method = ir("ring", critic="mlp-1")
    queries = plain_embeddings(VIEWS[0], method.encoder.weight)
    scores = method.critics[0](queries, method.banks[0].rows).every(None)[0]
    expected = plain_of(method.contrasts[0], cases.PROGRESS, scores, cases.INDEX, self_index=cases.INDEX)
    # What the last layer adds to every score alike has no gradient but rounding.
    leaves = [weight for weight in method.critics[0].parameters() if weight.ndim == 2]
    assert_same(method.loss(VIEWS, cases.INDEX, cases.PROGRESS).estimate, expected, *leaves)


# --- the bank -----------------------------------------------------------------------------------------


def test_the_bank_starts_from_the_encoder_where_asked_and_at_random_otherwise():
    kept, filled = ir(), ir(bank_start="encoder")
    before = kept.banks[0].rows.clone()
    for method in (kept, filled):
        method.start(cases.images_embedded)
    assert torch.equal(kept.banks[0].rows, before)
    torch.testing.assert_close(filled.banks[0].rows, cases.images_embedded())
    assert filled.stored is filled.banks[0].rows


def test_after_step_stores_the_embeddings_once_backward_has_read_the_bank():
    method = ir("ring")
    before = method.banks[0].rows.clone()
    step = method.loss(VIEWS, cases.INDEX, cases.PROGRESS)
    step.estimate.loss.backward()
    assert torch.equal(method.banks[0].rows, before), "the loss does not write"
    method.after_step(cases.INDEX, step)
    expected = F.normalize(0.25 * before[cases.INDEX] + 0.75 * plain_embeddings(VIEWS[0], method.encoder.weight), dim=1)
    torch.testing.assert_close(method.banks[0].rows[cases.INDEX], expected.detach())
    others = [row for row in range(cases.IMAGES) if row not in cases.INDEX.tolist()]
    assert torch.equal(method.banks[0].rows[others], before[others])


def test_clusters_are_those_of_the_bank_anew_each_epoch():
    method = ir("outside", "k")
    found = []
    [bank] = method.banks
    for epoch, rows in ((0, bank.rows), (1, bank.rows), (0, bank.rows.roll(7, dims=0))):
        bank.rows.copy_(rows)
        method.before_epoch(epoch, cases.images_embedded)
        found.append((method.contrasts[0].clusters, method.contrasts[0].neighbour_clusters))
    for first, second, of_other_rows in zip(*found, strict=True):
        assert not torch.equal(first, second)
        assert not torch.equal(first, of_other_rows)
