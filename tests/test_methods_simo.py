"""SiMo against plain loops over the keys of its batch, K of them drawn per query, with EqCo's margin."""

import logging

import method_cases as cases
import pytest
import torch
from plain_objectives import assert_same, gradient, plain_embeddings, plain_of, plain_scores

from annulus.config.methods import SiMoParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = SiMoParams(**cases.section(momentum=0.9, batch_norm="sync", shuffle_groups=2))
VIEWS = cases.views_of(2)


def simo(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0, params=PARAMS):
    return cases.method_of(params, cases.config_of(sampler, neighbours, bound, negatives), seed)


def plain(method, state=None, progress=cases.PROGRESS, views=VIEWS, index=cases.INDEX):
    queries = plain_embeddings(views[0], method.encoder.weight)
    keys = plain_embeddings(views[1], method.keys.encoder.weight)
    scores = plain_scores(queries, keys, cases.TEMPERATURE)
    return plain_of(
        method.contrasts[0], progress, scores, index, self_index=torch.arange(cases.BATCH), columns=index, state=state
    )


@cases.each_pick
def test_value_and_gradient_are_those_of_the_plain_loops(sampler, neighbours, bound, negatives, progress):
    """EqCo's margin is that of the K really used."""
    method = cases.in_two_clusters(simo(sampler, neighbours, bound, negatives))
    cases.assert_plain(method, plain, VIEWS, progress)


def test_the_key_encoder_follows_after_the_step_and_nothing_else_is_stored():
    method = simo()
    slow = method.keys.encoder.weight.clone()
    for number, index in enumerate(cases.indices(4)):
        views = cases.views_of(2, seed=number)
        step = method.loss(views, index, cases.PROGRESS)
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
