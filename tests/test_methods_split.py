"""Methods with a split: two networks, each compared with the other's memory, in plain loops; with a bank, CMC."""

import pytest
import torch
import torch.nn.functional as F
from method_cases import (
    BATCH,
    DIM,
    IMAGES,
    INDEX,
    PROGRESS,
    QUEUE,
    TEMPERATURE,
    GivenPair,
    config_of,
    each_pick,
    in_two_clusters,
    method_of,
    section,
    views_of,
)
from plain_objectives import assert_same, plain_embeddings, plain_of, plain_scores
from test_methods_simclr import columns_of

from annulus.compute.rng import derive
from annulus.config.methods import IRParams, MoCoParams, SimCLRParams, SiMoParams
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.negatives.clusters import kmeans
from annulus.views.splits import ColourSplit

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
PARAMS = {
    "ir": IRParams(**section(bank_rate=0.25, bank_start="random", critic="dot")),
    "moco": MoCoParams(**section(momentum=0.9, shuffle_groups=1)),
    "simo": SiMoParams(**section(momentum=0.9, batch_norm="sync", shuffle_groups=1)),
    "simclr": SimCLRParams(**section()),
}
SHAPE = (3, 3, 2)  # the first two channels hold the six numbers of one embedding each
VIEWS = views_of(2, shape=SHAPE)


def split(name="ir", sampler="uniform", neighbours="none", bound="infonce", negatives="all", **settings):
    params = PARAMS[name].model_copy(update=settings)
    encoder = GivenPair(torch.Generator().manual_seed(2))
    return method_of(params, config_of(sampler, neighbours, bound, negatives), encoder=encoder)


def states(method):
    return [contrast.generator.get_state() for contrast in method.contrasts]


def weights(method):
    return [part.weight for part in method.encoder.parts]


def halves(encoder, view):
    return [plain_embeddings(view[:, channel], part.weight) for channel, part in enumerate(encoder.parts)]


def side(name, method, part):
    """Scores of one part's queries against the other part's memory, and what else a contrast is told of them."""
    other = 1 - part
    if name == "simclr":
        embeddings, images = halves(method.encoder, torch.cat(VIEWS)), torch.cat([INDEX, INDEX])
        similarity = plain_scores(embeddings[part], embeddings[other], TEMPERATURE)
        columns = torch.tensor([columns_of(view) for view in range(2 * BATCH)])
        scores = torch.stack([row[chosen] for row, chosen in zip(similarity, columns, strict=True)])
        positive = torch.stack([similarity[view, (view + BATCH) % (2 * BATCH)] for view in range(2 * BATCH)])
        return scores, images, None, positive, images[columns]
    queries = halves(method.encoder, VIEWS[0])[part]
    if name == "ir":
        return plain_scores(queries, method.banks[other].rows, TEMPERATURE), INDEX, INDEX
    keys = halves(method.keys.encoder, VIEWS[1])[other]
    if name == "simo":
        return plain_scores(queries, keys, TEMPERATURE), INDEX, torch.arange(BATCH), None, INDEX
    queue = method.queues[other]
    positive = (queries * keys).sum(dim=1) / TEMPERATURE
    own = torch.tensor([[*(queue.images == image).nonzero().flatten().tolist(), -1, -1][:2] for image in INDEX])
    return plain_scores(queries, queue.keys, TEMPERATURE), INDEX, own, positive, queue.images


@pytest.mark.parametrize("name", PARAMS)
@each_pick
def test_value_and_gradients_are_the_sums_of_two_plain_losses(name, sampler, neighbours, bound, negatives, progress):
    """CMC, CMCRing, CMCCave and the same over queues and batches; K is drawn for each of the two."""
    method = split(name, sampler, neighbours, bound, negatives)
    if name in ("simo", "simclr"):
        method = in_two_clusters(method)
    for place, queue in enumerate(getattr(method, "queues", ())):  # images 3, 17 and 22 have older keys in one
        queue.images.copy_(torch.arange(1, QUEUE + 1) + 10 * place)
    before = states(method)
    sides = [
        plain_of(method.contrasts[part], progress, *side(name, method, part), state=before[part]) for part in range(2)
    ]
    (loss, bound_nats, ceiling), (other_loss, other_bound, other_ceiling) = (found[:3] for found in sides)
    expected = loss + other_loss, (bound_nats + other_bound) / 2, (ceiling + other_ceiling) / 2
    assert_same(method.loss(VIEWS, INDEX, progress).estimate, expected, *weights(method))


@pytest.mark.parametrize(("name", "memory"), [("ir", "rows"), ("moco", "keys")])
def test_memories_and_negatives_of_the_two_parts_differ(name, memory):
    method = split(name, "ring", negatives=30)
    held = [getattr(one, memory) for one in (method.banks if name == "ir" else method.queues)]
    assert not torch.equal(*held)
    assert not torch.equal(*states(method))


def test_each_part_clusters_the_bank_that_it_reads():
    method = split("ir", "outside", negatives=30)
    for contrast, bank in zip(method.contrasts, reversed(method.banks), strict=True):
        assert torch.equal(contrast.clusters, kmeans(bank.rows, 4, 3, 2, derive(0, "clusters", contrast.name, 0)))


def test_after_step_stores_each_embedding_in_its_own_memory():
    bank, queue = split("ir", "ring"), split("moco")
    before = [one.rows.clone() for one in bank.banks]
    for method in (bank, queue):
        step = method.loss(VIEWS, INDEX, PROGRESS)
        step.estimate.loss.backward()
        method.after_step(INDEX, step)
    others = [row for row in range(IMAGES) if row not in INDEX.tolist()]
    for one, old, seen in zip(bank.banks, before, halves(bank.encoder, VIEWS[0]), strict=True):
        torch.testing.assert_close(one.rows[INDEX], F.normalize(0.25 * old[INDEX] + 0.75 * seen, dim=1).detach())
        assert torch.equal(one.rows[others], old[others])
    keys = halves(split("moco").encoder, VIEWS[1])  # the key encoder as it was, before it followed
    for one, pushed in zip(queue.queues, keys, strict=True):
        torch.testing.assert_close(one.keys[:BATCH], pushed.detach())
    newest = queue.stored_of(torch.tensor([7, 3]))
    torch.testing.assert_close(newest[1], torch.cat([pushed[0] for pushed in keys]).detach() * 0.5**0.5)
    assert not newest[0].any(), "the queue holds no key of image 7"


def test_the_banks_start_from_their_own_network_s_half():
    method = split("ir", bank_start="encoder")
    draws = torch.Generator().manual_seed(0)
    starts = [F.normalize(torch.randn(IMAGES, DIM, dtype=torch.float64, generator=draws), dim=1) for _ in range(2)]
    joined = torch.cat(starts, dim=1) * 0.5**0.5
    method.start(lambda: joined)
    for bank, start in zip(method.banks, starts, strict=True):
        torch.testing.assert_close(bank.rows, start)
    torch.testing.assert_close(method.stored, joined)


@pytest.mark.parametrize("name", PARAMS)
def test_both_real_networks_learn_from_what_they_see(name, generator):
    statistics = {"mean": (50.0, 0.0, 0.0), "std": (25.0,) * 3}
    split = ColourSplit("lab")
    config = EncoderConfig("alexnet", "cifar", "linear", embedding_dim=DIM, view_size=16, split=split, **statistics)
    encoder = build_encoder(config, seed=0)
    method = method_of(PARAMS[name], config_of("ring"), encoder=encoder).float()
    views = [torch.rand(BATCH, 3, 16, 16, generator=generator) for _ in range(2)]
    method.loss(views, INDEX, PROGRESS).estimate.loss.backward()
    for place, weight in encoder.named_parameters():
        assert weight.grad.isfinite().all(), place
        assert weight.grad.abs().sum() > 0, place
