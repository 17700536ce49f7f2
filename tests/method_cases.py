"""Settings of every kind, methods with given embeddings, and the results of plain loops for them."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from plain_objectives import assert_same, plain_embeddings, plain_of, plain_scores
from torch import nn

from annulus.bounds.alpha import CPC, MLCPC
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.infonce import InfoNCE
from annulus.bounds.la import LocalAggregation
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.methods.contrast_config import ContrastConfig, Progress
from annulus.methods.ir import IRSettings
from annulus.methods.moco import MoCoSettings
from annulus.methods.simclr import SimCLRSettings
from annulus.methods.simo import SiMoSettings
from annulus.methods.step import Setting
from annulus.negatives.neighbours import CloseNeighbours, ClusterNeighbours
from annulus.negatives.samplers import Ball, Cave, Ring, Uniform

CPU = torch.device("cpu")
IMAGES, BATCH, DIM, QUEUE, TEMPERATURE, SEED = 41, 5, 6, 23, 0.2, 7
INDEX = torch.tensor([3, 40, 0, 17, 22])
PROGRESS = Progress(training=0.5, annealing=1.0)

CAVE = Cave(outer=0.8, keep="outside", clusters=4, iterations=3, runs=2)
SAMPLERS = {
    "uniform": Uniform(),
    "ball": Ball(0.5),
    "ring": Ring(inner=0.2, outer=0.6),
    "outside": CAVE,
    "inside": replace(CAVE, outer=1.0, keep="inside"),
}
NEIGHBOURS = {
    "none": None,
    "s": CloseNeighbours(share=0.4, start=0.25, until=0.75, in_denominator=False),  # a fifth at PROGRESS
    "k": ClusterNeighbours(clusters=5, iterations=3, runs=2, start=0.5, in_denominator=True),
}
INFONCE = InfoNCE()
CURRICULUM = MLCPC(alpha_start=2.0, alpha_end=0.125, divide_by_alpha=False)
NORMALISERS = ("constant", "first-batch", "first-batch-candidates", "moving-average", "exact")
SEVERAL_POSITIVES = {
    "infonce": INFONCE,
    "infonce eqco": InfoNCE(eqco_alpha=64.0),
    "cpc": CPC(alpha=0.5),
    "cpc eqco": CPC(alpha=1.5, eqco_alpha=64.0),
    "la": LocalAggregation(),
}
BOUNDS = {
    **SEVERAL_POSITIVES,
    "mlcpc": CURRICULUM,
    "mlcpc eqco": replace(CURRICULUM, eqco_alpha=64.0),
    **{f"binary-nce {each}": BinaryNCE(normaliser=each, constant=2.25, rate=0.75) for each in NORMALISERS},
}


def config_of(sampler="uniform", neighbours="none", bound="infonce", negatives="all"):
    """ContrastConfig by name or by the parameters themselves."""
    chosen = zip((sampler, neighbours, bound), (SAMPLERS, NEIGHBOURS, BOUNDS), strict=True)
    return ContrastConfig(*(known[one] if isinstance(one, str) else one for one, known in chosen), negatives)


def at(training=PROGRESS.training, annealing=PROGRESS.annealing):
    """PROGRESS with these values changed."""
    return Progress(training, annealing)


# --- methods ------------------------------------------------------------------------------------------


def section(**settings):
    """Parameters that every method has."""
    every = {"temperature": TEMPERATURE, "negatives": "all", "embedding_dim": DIM, "warmup": 0.0, "head": "linear"}
    return every | settings


PARAMS = {
    "ir": IRSettings(**section(bank_rate=0.25, bank_start="random", critic="dot")),
    "moco": MoCoSettings(**section(momentum=0.9, shuffle_groups=2)),
    "simclr": SimCLRSettings(**section()),
    "simo": SiMoSettings(**section(momentum=0.9, batch_norm="sync", shuffle_groups=2)),
}


class Given(Encoder):
    """Encoder whose embeddings are the views' numbers times one weight, so that gradients and momentum show."""

    def __init__(self, generator):
        nn.Module.__init__(self)
        self.weight = nn.Parameter(torch.eye(DIM) + 0.3 * torch.randn(DIM, DIM, generator=generator))

    def forward(self, images):
        return F.normalize(images.flatten(start_dim=1) @ self.weight, dim=1)

    def embeddings_and_pooled(self, images):
        return self(images), images.flatten(start_dim=1)


class GivenPair(SplitEncoder):
    """The same for the first channel and for the second, with a weight each."""

    names = "l", "ab"

    def __init__(self, generator):
        nn.Module.__init__(self)
        self.parts = nn.ModuleList([Given(generator), Given(generator)])

    def embeddings(self, images):
        return tuple(part(images[:, channel]) for channel, part in enumerate(self.parts))

    def embeddings_and_pooled(self, images):
        return *self.embeddings(images), *images[:, :2].flatten(start_dim=2).unbind(dim=1)


def views_of(count=2, seed=4, batch=BATCH, shape=(3, 2, 1)):
    """`count` views of the same images, a little alike."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(batch, *shape, generator=generator, dtype=torch.float64)
    return [common + torch.randn(common.shape, generator=generator, dtype=torch.float64) for _ in range(count)]


VIEWS = {Given: views_of(), GivenPair: views_of(shape=(3, 3, 2))}


def images_embedded():
    """An embedding of every image, for methods that store none."""
    generator = torch.Generator().manual_seed(3)
    return F.normalize(torch.randn(IMAGES, DIM, generator=generator, dtype=torch.float64), dim=1)


def method_of(params, config=None, encoder=Given):
    """A method in double precision, with clusters of the first epoch; its queues hold older keys of some images.

    In a small batch every image has another one in its cluster, and one outside.
    """
    if isinstance(encoder, type):
        encoder = encoder(torch.Generator().manual_seed(2))
    setting = Setting(config_of() if config is None else config, IMAGES, IMAGES, QUEUE, SEED, CPU)
    method = params.method(encoder, params, setting).double()
    method.before_epoch(0, images_embedded)
    if method.memory == "batch":
        for contrast in method.contrasts:
            for clusters in (contrast.clusters, contrast.neighbour_clusters):
                clusters.zero_()
                clusters[:, INDEX[2:]] = 1
    for place, queue in enumerate(getattr(method, "queues", ())):
        queue.images.copy_(torch.arange(1, QUEUE + 1) + 10 * place)  # 0 and 40 have no key in the first one,
        queue.images[4] = 3  # image 3 has two,
        queue.images[[8, 9]] = -1  # two places were never written
    return method


def embedded(encoder, view):
    """Plain embeddings of a view by each network."""
    if isinstance(encoder, Given):
        return [plain_embeddings(view, encoder.weight)]
    return [plain_embeddings(view[:, channel], part.weight) for channel, part in enumerate(encoder.parts)]


def columns_of(view):
    """Columns that SimCLR compares a view with: all other images' views, from the next one round."""
    return [other % (2 * BATCH) for other in range(view + 1, view + 2 * BATCH) if other % BATCH != view % BATCH]


def contrast_arguments(method, views, part):
    """Arguments of a contrast: the scores of one network's queries against the other's memory, and their images."""
    other, count = -1 - part, 2 * BATCH
    if type(method.params) is SimCLRSettings:
        embeddings, images = embedded(method.encoder, torch.cat(views)), INDEX.repeat(2)
        similarity = plain_scores(embeddings[part], embeddings[other], TEMPERATURE)
        columns = torch.tensor([columns_of(view) for view in range(count)])
        scores = torch.stack([row[chosen] for row, chosen in zip(similarity, columns, strict=True)])
        positive = torch.stack([similarity[view, (view + BATCH) % count] for view in range(count)])
        return scores, images, None, positive, images[columns]
    queries = embedded(method.encoder, views[0])[part]
    if type(method.params) is IRSettings:
        return plain_scores(queries, method.banks[other].rows, TEMPERATURE), INDEX, INDEX
    keys = embedded(method.keys.encoder, views[1])[other]
    if type(method.params) is SiMoSettings:
        return plain_scores(queries, keys, TEMPERATURE), INDEX, torch.arange(BATCH), None, INDEX
    queue = method.queues[other]
    own = torch.tensor([[*(queue.images == image).nonzero().flatten().tolist(), -1, -1][:2] for image in INDEX])
    positive = (queries * keys).sum(dim=1) / TEMPERATURE
    return plain_scores(queries, queue.keys, TEMPERATURE), INDEX, own, positive, queue.images


def assert_as_plain(method, progress=PROGRESS):
    """Loss and gradients are sums of the networks' plain ones, bound and ceiling means; only the loss has gradients."""
    views = VIEWS[type(method.encoder)]
    plain = [
        plain_of(contrast, progress, *contrast_arguments(method, views, part), state=contrast.generator.get_state())
        for part, contrast in enumerate(method.contrasts)
    ]
    losses, bounds, ceilings, _ = zip(*plain, strict=True)
    estimate = method.loss(views, INDEX, progress).estimate
    expected = sum(losses), sum(bounds) / len(plain), sum(ceilings) / len(plain)
    assert_same(estimate, expected, *method.encoder.parameters())
    assert not any(value.requires_grad for value in (estimate.loss_nats, estimate.bound_nats, estimate.ceiling_nats))


def assert_equal_states(one, other):
    """All tensors and random states of two methods are equal bit for bit."""
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value.nan_to_num(), theirs[name].nan_to_num()), name
        else:
            assert torch.equal(value["generator"], theirs[name]["generator"]), name
