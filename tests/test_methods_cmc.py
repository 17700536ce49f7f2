"""CMC: the sum of two IRs with swapped banks."""

import pytest
import torch
import torch.nn.functional as F
from method_cases import (
    BATCH,
    DIM,
    IMAGES,
    INDEX,
    PROGRESS,
    TEMPERATURE,
    config_of,
    each_pick,
    method_of,
    section,
    views_of,
)
from plain_objectives import assert_same, plain_embeddings, plain_of, plain_scores

from annulus.compute.rng import derive
from annulus.config.methods import CMCParams
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.negatives.clusters import kmeans

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = CMCParams(**section(bank_rate=0.25, bank_start="random"))
SHAPE = (3, 3, 2)  # each channel holds the six numbers of one embedding
VIEWS = views_of(1, shape=SHAPE)


def cmc(sampler="uniform", neighbours="none", bound="infonce", negatives="all", seed=0, params=PARAMS):
    return method_of(params, config_of(sampler, neighbours, bound, negatives), seed)


def states(method):
    return [contrast.generator.get_state() for contrast in (method.l_contrast, method.ab_contrast)]


def plain(method, before=(None, None), progress=PROGRESS):
    """Sum of the losses, mean of the estimates and of the ceilings, of L in the ab bank and of ab in the L bank."""
    of_l = plain_embeddings(VIEWS[0][:, 0], method.encoder.l.weight)
    of_ab = plain_embeddings(VIEWS[0][:, 1], method.encoder.ab.weight)
    from_l, from_ab = (
        plain_of(contrast, progress, plain_scores(queries, bank, TEMPERATURE), INDEX, self_index=INDEX, state=state)
        for contrast, queries, bank, state in (
            (method.l_contrast, of_l, method.ab_bank.rows, before[0]),
            (method.ab_contrast, of_ab, method.l_bank.rows, before[1]),
        )
    )
    return from_l[0] + from_ab[0], (from_l[1] + from_ab[1]) / 2, (from_l[2] + from_ab[2]) / 2


def weights(method):
    return method.encoder.l.weight, method.encoder.ab.weight


@each_pick
def test_value_and_gradients_are_those_of_the_plain_loops(sampler, neighbours, bound, negatives, progress):
    """CMC, CMCRing, CMCCave; K is drawn for each of the two."""
    method = cmc(sampler, neighbours, bound, negatives)
    expected = plain(method, states(method), progress)
    assert_same(method.loss(VIEWS, INDEX, progress).estimate, expected, *weights(method))


def test_banks_and_negatives_of_the_two_sides_differ_and_each_clusters_the_bank_it_reads():
    method = cmc("outside", negatives=30)
    assert not torch.equal(method.l_bank.rows, method.ab_bank.rows)
    assert not torch.equal(*states(method))
    for name, contrast, bank in (("l", method.l_contrast, method.ab_bank), ("ab", method.ab_contrast, method.l_bank)):
        assert torch.equal(contrast.clusters, kmeans(bank.rows, 4, 3, 2, derive(0, "clusters", name, 0)))


def test_after_step_stores_each_embedding_in_its_own_bank():
    method = cmc("ring")
    before = method.l_bank.rows.clone(), method.ab_bank.rows.clone()
    step = method.loss(VIEWS, INDEX, PROGRESS)
    step.estimate.loss.backward()
    method.after_step(INDEX, step)
    others = [row for row in range(IMAGES) if row not in INDEX.tolist()]
    sides = zip((method.l_bank, method.ab_bank), before, weights(method), strict=True)
    for channel, (bank, old, weight) in enumerate(sides):
        seen = plain_embeddings(VIEWS[0][:, channel], weight)
        torch.testing.assert_close(bank.rows[INDEX], F.normalize(0.25 * old[INDEX] + 0.75 * seen, dim=1).detach())
        assert torch.equal(bank.rows[others], old[others])


def test_the_banks_start_from_their_own_encoder_s_half():
    method = cmc(params=PARAMS.model_copy(update={"bank_start": "encoder"}))
    halves = [F.normalize(torch.randn(IMAGES, DIM, dtype=torch.float64, generator=method.l_contrast.generator), dim=1)
              for _ in range(2)]  # fmt: skip
    joined = torch.cat(halves, dim=1) * 0.5**0.5
    method.start(lambda: joined)
    torch.testing.assert_close(method.l_bank.rows, halves[0])
    torch.testing.assert_close(method.ab_bank.rows, halves[1])
    torch.testing.assert_close(method.stored, joined)


def test_both_real_encoders_learn_from_what_they_see(generator):
    statistics = {"mean": (50.0, 0.0, 0.0), "std": (25.0,) * 3}
    config = EncoderConfig("alexnet", "cifar", "linear", embedding_dim=DIM, view_size=16, channels="lab", **statistics)
    encoder = build_encoder(config, seed=0)
    method = method_of(PARAMS, config_of("ring"), encoder=encoder).float()
    step = method.loss([torch.rand(BATCH, 3, 16, 16, generator=generator)], INDEX, PROGRESS)
    step.estimate.loss.backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name
