"""The papers' objectives in plain loops: query by query, column by column, score by score."""

import math
from fractions import Fraction

import pytest
import torch

from annulus.bounds.alpha import CPC, MLCPC
from annulus.bounds.binary_nce import BinaryNCE
from annulus.bounds.infonce import InfoNCE
from annulus.bounds.la import LocalAggregation
from annulus.negatives.clusters import Clusters
from annulus.negatives.neighbours import CloseNeighbours, ClusterNeighbours
from annulus.negatives.samplers import Cave

# --- columns, query by query --------------------------------------------------------------------------


def in_own_cluster(column, clusters, query):
    """True if any clustering has a column in the query's cluster; -1 means without a cluster."""
    rows = clusters.columns if clusters.columns.dim() == 2 else clusters.columns[:, query]
    return any(
        int(row_clusters[column]) == int(query_clusters[query]) >= 0
        for row_clusters, query_clusters in zip(rows, clusters.queries, strict=True)
    )


def ranked_others(scores, own):
    """The columns that are not the query's own, closest first."""
    values = scores.tolist()
    return sorted((column for column in range(len(values)) if column not in own), key=lambda column: -values[column])


def plain_negatives(scores, own, others, sampler, progress, clusters, query):
    """One query's negatives from the papers: rank the other columns, keep a stretch, then cave's clusters.

    `own` holds the query's own columns; `others` is the number of columns that shares refer to.
    """
    order = ranked_others(scores, own)
    way = Fraction(str(progress))
    outer = 1 - (1 - Fraction(str(getattr(sampler, "outer", 1)))) * way
    inner = Fraction(str(getattr(sampler, "inner", 0))) * way
    cave = isinstance(sampler, Cave) and way > 0
    first, last = math.floor(inner * others), math.floor(outer * others)
    if (first, last) == (0, others) and not cave:
        return set(order)  # without ranks: includes a column that has none if `others` is smaller
    stretch = order[first:last]
    if not cave:
        return set(stretch)
    return {column for column in stretch if in_own_cluster(column, clusters, query) == (sampler.keep == "inside")}


def plain_neighbours(params, scores, own, others, training, clusters, query):
    """The further positives: the closest share, growing linearly from start to until; or the query's clusters."""
    ranked = ranked_others(scores, own)
    match params:
        case CloseNeighbours(share=share, start=start, until=until):
            way = min(max((Fraction(training) - Fraction(start)) / (Fraction(until) - Fraction(start)), 0), 1)
            return ranked[: math.floor(Fraction(str(share)) * way * others)]
        case ClusterNeighbours(start=start) if training >= start:
            return [column for column in ranked if in_own_cluster(column, clusters, query)]
    return []


def sets_of(negatives, shape=None):
    """Columns of each query without absent ones; `shape` is the scores', for negatives without an index."""
    index, mask = negatives.index, negatives.mask
    if index is None:
        own = [[]] * shape[0] if negatives.own is None else negatives.own.view(shape[0], -1).tolist()
        return [[column for column in range(shape[1]) if column not in mine] for mine in own]
    mask = torch.ones_like(index, dtype=torch.bool) if mask is None else mask
    return [row[there].tolist() for row, there in zip(index, mask, strict=True)]


# --- losses of their scores ---------------------------------------------------------------------------


def total(scores):
    """The sum of exp over a list of 0-dim scores."""
    return torch.stack([torch.full((), -torch.inf, dtype=torch.float64), *scores]).exp().sum()


def mean(values):
    return sum(values) / len(values)


def present_scores(scores):
    """Each query's scores as a list, absent ones left out."""
    return [[score for score in row if score > -math.inf] for row in scores]


def plain_partition(bound, before, memory, draws):
    """Z per query (constant, mean over the first batch's draws, moving average or exact sum), and the state."""
    rows = len(memory[0])
    if bound.normaliser == "exact":
        return [total(scores).detach() for scores in memory], before  # Wu et al.: a constant
    draws = [score for scores in draws for score in scores]
    batch_z = rows * float(total(draws).detach()) / len(draws)
    match bound.normaliser:
        case "constant":
            z = bound.constant * rows
        case "first-batch" | "first-batch-candidates":
            z = batch_z if before is None else before
        case "moving-average":
            z = batch_z if before is None else bound.rate * before + (1 - bound.rate) * batch_z
    return [z] * len(memory), z


def plain_softmax(bound, positives, negatives, training, in_denominator=True):
    """(loss, ceiling) of infonce, cpc and mlcpc, with EqCo's weight alpha/K on each of K negatives.

    Neighbours, the positives after the first, are candidates too; or, as the papers print it, only in the numerator.
    """
    losses, ceilings, tops, bottoms = [], [], [], []
    for near, far in zip(positives, negatives, strict=True):
        k, m = len(far), len(far) + 1
        alpha = bound.alpha if isinstance(bound, CPC) else 1.0
        if isinstance(bound, MLCPC):
            alpha = bound.alpha_start * (bound.alpha_end / bound.alpha_start) ** training
            m = 1 + mean([len(scores) for scores in negatives])
        beta = (m - alpha) / (m - 1)
        weight = 1.0 if bound.eqco_alpha is None else bound.eqco_alpha / k
        top, bottom = alpha * total(near), beta * weight * total(far)
        losses.append(-(top / (bottom + (top if in_denominator else alpha * near[0].exp()))).log())
        ceilings.append(math.log(1 + beta * weight * k / (alpha * len(near))))
        tops.append(top)
        bottoms.append(bottom)
    if not isinstance(bound, MLCPC):
        return mean(losses), mean(ceilings)
    # Algorithm 1 of mlcpc: the divergence from 1/n on each positive to one softmax over everything.
    denominator, n = sum(tops) + sum(bottoms), len(tops)
    k = mean([len(scores) for scores in negatives])
    ceiling = math.log(1 + beta * (k if bound.eqco_alpha is None else bound.eqco_alpha) / alpha)
    return sum((1 / n) * ((1 / n) / (top / denominator)).log() for top in tops), ceiling


def plain_estimate(scores, own, negatives):
    """InfoNCE's ceiling less its loss, of queries with these own columns and these negatives."""
    positives = [[row[column]] for row, column in zip(scores, own, strict=True)]
    chosen = [list(row[columns]) for row, columns in zip(scores, negatives, strict=True)]
    loss, ceiling = plain_softmax(InfoNCE(), positives, chosen, 0.0)
    return ceiling - loss.item()


def plain_la(close, negatives):
    """Eq. 5 of ring without its constant: log of the close ones' share in the sum over the own and the negatives."""
    background = [[near[0], *far] for near, far in zip(close, negatives, strict=True)]
    losses = [total(all_).log() - total(near).log() for near, all_ in zip(close, background, strict=True)]
    ceilings = [math.log(len(all_) / len(near)) for near, all_ in zip(close, background, strict=True)]
    return mean(losses), mean(ceilings)


def plain_binary_nce(positives, negatives, z, rows):
    """Wu et al. 2018: classifies the positive against K draws of noise that is uniform over the rows."""
    losses = []
    for [near], far, normaliser in zip(positives, negatives, z, strict=True):
        noise = len(far) / rows
        data = (near.exp() / normaliser) / (near.exp() / normaliser + noise)
        noise_odds = [noise / (score.exp() / normaliser + noise) for score in far]
        losses.append(-(data.log() + sum(each.log() for each in noise_odds)))
    return mean(losses)


def make_clusters(buffer, index, columns):
    """The clusters of columns that are images, or none (-1), and of queries."""
    columns = torch.arange(buffer.shape[1]) if columns is None else columns
    return Clusters(torch.where(columns >= 0, buffer[:, columns.clamp(min=0)], -1), buffer[:, index])


def plain_of(
    contrast, progress, scores, index, self_index=None, positive=None, columns=None, state=None, z_before=None
):
    """(loss, bound, ceiling, Z for the next batch) of these scores, query by query and score by score.

    Settings and clusters are the contrast's; `state` is its generator's before it drew K negatives.
    """
    config, bound, ranked = contrast.config, contrast.config.bound, scores.detach()
    cave, near = (make_clusters(b, index, columns) for b in (contrast.clusters, contrast.neighbour_clusters))
    draws = None
    if config.negatives != "all":
        generator = torch.Generator()
        generator.set_state(state)
        draws = config.sampler.draw(
            ranked, self_index, config.negatives, generator, progress.annealing, cave
        ).index.tolist()
    own_columns = [[]] * len(scores) if self_index is None else self_index.view(len(scores), -1).tolist()
    positives, negatives, close = [], [], []
    count = scores.shape[1] - (self_index is not None)
    for query, mine in enumerate(own_columns):
        row = ranked[query]
        others = plain_neighbours(config.neighbours, row, mine, count, progress.training, near, query)
        if draws is None:
            chosen = plain_negatives(row, mine, count, config.sampler, progress.annealing, cave, query)
        else:
            chosen = draws[query]
        first = scores[query, mine[0]] if positive is None else positive[query]
        positives.append([first, *(scores[query, column] for column in others)])
        negatives.append([scores[query, column] for column in chosen])
        close.append([first, *(scores[query, column] for column in chosen if column in others)])
    if isinstance(bound, LocalAggregation):
        loss, ceiling = plain_la(close, negatives)
        return loss, ceiling - loss.item(), ceiling, z_before
    if isinstance(bound, BinaryNCE):
        both = [near[:1] + far for near, far in zip(positives, negatives, strict=True)]
        draws = both if bound.normaliser == "first-batch-candidates" else negatives
        z, after = plain_partition(bound, z_before, scores, draws)
        infonce, ceiling = plain_softmax(InfoNCE(), positives, negatives, progress.training)
        return plain_binary_nce(positives, negatives, z, scores.shape[1]), ceiling - infonce.item(), ceiling, after
    loss, ceiling = plain_softmax(bound, positives, negatives, progress.training)
    reached = ceiling - loss.item()
    if config.neighbours is not None and not config.neighbours.in_denominator:
        loss, _ = plain_softmax(bound, positives, negatives, progress.training, in_denominator=False)
    return loss, reached, ceiling, z_before


# --- embeddings and their comparison --------------------------------------------------------------------


def plain_embeddings(views, weight):
    """Embeddings of `Given` for views, one by one: their numbers times the weight, at unit length."""
    turned = [view.flatten() @ weight for view in views]
    return torch.stack([row / row.square().sum().sqrt() for row in turned])


def plain_scores(queries, rows, temperature):
    """z^T m / temperature, query by query."""
    return torch.stack([rows @ query / temperature for query in queries])


def gradient(value, *inputs):
    return torch.autograd.grad(value, inputs, retain_graph=True)


def assert_same(estimate, plain, *leaves):
    """Value, estimate, ceiling (nats) and gradients in the leaves are equal; `plain` is (loss, bound, ceiling, ...)."""
    loss, bound, ceiling = plain[:3]
    assert estimate.loss.item() == pytest.approx(loss.item(), rel=1e-9)
    assert estimate.loss_nats.item() == pytest.approx(loss.item(), rel=1e-9)
    assert estimate.ceiling_nats.item() == pytest.approx(ceiling, rel=1e-6)
    assert estimate.bound_nats.item() == pytest.approx(bound, rel=1e-6, abs=1e-6)
    for ours, theirs in zip(gradient(estimate.loss, *leaves), gradient(loss, *leaves), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-12)
