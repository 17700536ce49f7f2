"""SiMo against plain loops over the keys of its batch, K of them drawn per query, with EqCo's margin."""

import logging
import math

import pytest
import torch
from method_cases import (
    BATCH,
    COMBINATIONS,
    INDEX,
    PROGRESS,
    SAMPLERS,
    TEMPERATURE,
    assert_resumes,
    at,
    config_of,
    indices,
    method_of,
    section,
    views_of,
)
from plain_objectives import assert_same, gradient, plain_embeddings, plain_of, plain_scores

from annulus.bounds.infonce import InfoNCE
from annulus.config.methods import SiMoParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = SiMoParams(**section(momentum=0.9, batch_norm="sync", shuffle_groups=2))
VIEWS = views_of(2)


def simo(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0, params=PARAMS):
    return method_of(params, config_of(sampler, neighbours, bound, negatives), seed)


def plain(method, state=None, progress=PROGRESS, views=VIEWS, index=INDEX):
    queries = plain_embeddings(views[0], method.encoder.weight)
    keys = plain_embeddings(views[1], method.keys.encoder.weight)
    scores = plain_scores(queries, keys, TEMPERATURE)
    return plain_of(
        method.contrast, progress, scores, index, self_index=torch.arange(BATCH), columns=index, state=state
    )


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("negatives", [3, "all"])
def test_every_sampler_has_the_value_and_gradient_of_the_plain_loops(sampler, negatives):
    method = simo(sampler, negatives=negatives)
    if sampler in ("outside", "inside"):  # few images: clusters that every image of the batch has another one in
        method.contrast.clusters = torch.zeros_like(method.contrast.clusters)
        method.contrast.clusters[:, INDEX[2:]] = 1
    state = method.contrast.generator.get_state()
    estimate = method.loss(VIEWS, INDEX, PROGRESS).estimate
    assert_same(estimate, plain(method, state), method.encoder.weight)


@pytest.mark.parametrize(("bound", "neighbours"), COMBINATIONS, ids=[" + ".join(pair) for pair in COMBINATIONS])
def test_every_bound_and_neighbours_have_the_value_and_gradient_of_the_plain_loops(bound, neighbours):
    method = simo("ring", neighbours, bound)
    if neighbours == "k":
        method.contrast.neighbour_clusters[:, INDEX[:2]] = 9
        method.contrast.neighbour_clusters[:, INDEX[2:]] = 8
    assert_same(method.loss(VIEWS, INDEX, PROGRESS).estimate, plain(method), method.encoder.weight)


@pytest.mark.parametrize("progress", [at(0.0, 0.0), at(0.6, 0.5), at(0.9, 1.0)], ids=str)
def test_the_progress_reaches_sampler_and_neighbours(progress):
    method = simo("ring", "s")
    assert_same(method.loss(VIEWS, INDEX, progress).estimate, plain(method, progress=progress), method.encoder.weight)


@pytest.mark.parametrize("k", [1, 3, 4, "all"])
def test_eqco_weighs_each_of_k_negatives_by_alpha_over_the_k_really_used(k):
    """eqco eq. 10, mean over queries, with the draws read off the method's own generator."""
    alpha = 256.0
    method = simo(bound=InfoNCE(eqco_alpha=alpha), negatives=k)
    queries = plain_embeddings(VIEWS[0], method.encoder.weight)
    keys = plain_embeddings(VIEWS[1], method.keys.encoder.weight)
    generator = torch.Generator()
    generator.set_state(method.contrast.generator.get_state())
    if k == "all":
        drawn = [[j for j in range(BATCH) if j != i] for i in range(BATCH)]
    else:  # uniform over the b - 1 others: past the own key, numbers go on one further
        picked = torch.randint(BATCH - 1, (BATCH, k), generator=generator).tolist()
        drawn = [[j + (j >= i) for j in row] for i, row in enumerate(picked)]
    losses = []
    for i, chosen in enumerate(drawn):
        assert i not in chosen
        s = [(queries[i] @ key / TEMPERATURE).exp() for key in keys]
        losses.append(-(s[i] / (s[i] + alpha / len(chosen) * sum(s[j] for j in chosen))).log())
    estimate = method.loss(VIEWS, INDEX, PROGRESS).estimate
    expected = sum(losses) / BATCH
    assert_same(estimate, (expected, math.log(257) - expected.item(), math.log(257)), method.encoder.weight)


def test_negatives_are_drawn_per_query_among_all_other_keys_and_anew_at_each_step(monkeypatch):
    method, seen = simo(negatives=200), []
    loss = InfoNCE.loss
    monkeypatch.setattr(InfoNCE, "loss", lambda self, p, n, *rest: seen.append(n) or loss(self, p, n, *rest))
    for _ in range(2):
        step = method.loss(VIEWS, INDEX, PROGRESS)
    keys = plain_embeddings(VIEWS[1], method.keys.encoder.weight)
    scores = plain_scores(step.queries, keys, TEMPERATURE).detach()
    places = [(found.detach()[:, :, None] - scores[:, None, :]).abs().argmin(dim=2) for found in seen]
    for query in range(BATCH):
        assert set(places[0][query].tolist()) == set(range(BATCH)) - {query}
    offsets = (places[0] - torch.arange(BATCH)[:, None]) % BATCH
    assert not any(torch.equal(offsets[0], offsets[query]) for query in range(1, BATCH))
    assert not torch.equal(*places)


def test_keys_get_no_gradient_and_queries_do():
    method = simo()
    views = [view.clone().requires_grad_() for view in VIEWS]
    method.loss(views, INDEX, PROGRESS).estimate.loss.backward()
    assert views[0].grad.abs().sum() > 0
    assert views[1].grad is None
    assert [name for name, weight in method.named_parameters() if weight.requires_grad] == ["encoder.weight"]


def test_the_key_encoder_follows_after_the_step_and_nothing_else_is_stored():
    method = simo()
    slow = method.keys.encoder.weight.clone()
    for number, index in enumerate(indices(4)):
        views = views_of(2, seed=number)
        step = method.loss(views, index, PROGRESS)
        assert_same(step.estimate, plain(method, views=views, index=index), method.encoder.weight)
        assert torch.equal(method.keys.encoder.weight, slow)
        method.encoder.weight.data -= 0.1 * gradient(step.estimate.loss, method.encoder.weight)[0]
        method.after_step(index, step)
        slow = 0.9 * slow + 0.1 * method.encoder.weight.detach()
        torch.testing.assert_close(method.keys.encoder.weight, slow)
        slow = method.keys.encoder.weight.clone()
    assert method.stored is None


def test_one_process_has_nobody_to_synchronise_with_and_says_so(caplog):
    with caplog.at_level(logging.WARNING, "annulus"):
        assert simo().keys.groups is None
        assert caplog.messages == [
            "methods.simo.batch_norm: sync has no other process to synchronise with; "
            "in one process it is ordinary batch normalisation over the whole batch"
        ]
        caplog.clear()
        assert simo(params=PARAMS.model_copy(update={"batch_norm": "shuffle"})).keys.groups == 2
        assert caplog.messages == []


@pytest.mark.parametrize("batch_norm", ["sync", "shuffle"])
def test_a_loaded_method_goes_on_like_the_one_that_was_saved(batch_norm):
    params = PARAMS.model_copy(update={"batch_norm": batch_norm})
    config = config_of("ball", bound="binary-nce moving-average", negatives=3)
    assert_resumes(params, config, [views_of(2, seed=number) for number in range(6)])
