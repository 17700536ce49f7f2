"""The papers' objectives in plain loops: query by query, column by column, score by score."""

import math
from fractions import Fraction

import pytest
import torch

from annulus.config.bounds import InfoNCEParams, LAOriginalParams, LAParams, MLCPCParams, NCEParams
from annulus.config.negatives import CaveParams, CloseNeighbours, ClusterNeighbours
from annulus.negatives.samplers import Clusters, draw

# --- which columns, query by query --------------------------------------------------------------------


def in_own_cluster(column, clusters, query):
    """Whether a column is in the query's cluster in any clustering; -1 is no cluster."""
    rows = clusters.rows if clusters.rows.dim() == 2 else clusters.rows[:, query]
    return any(
        int(of_rows[column]) == int(of_queries[query]) >= 0
        for of_rows, of_queries in zip(rows, clusters.queries, strict=True)
    )


def plain_negatives(scores, own, others, sampler, progress, clusters, query):
    """One query's negatives from the papers: rank the other columns, keep a stretch, then cave's clusters.

    `own` is -1 for a query without its own column; `others` says how many columns the shares are of.
    """
    order = sorted((column for column in range(len(scores)) if column != own), key=lambda c: -float(scores[c]))
    way = Fraction(str(progress))
    outer = 1 - (1 - Fraction(str(getattr(sampler, "outer", 1)))) * way
    inner = Fraction(str(getattr(sampler, "inner", 0))) * way
    cave = isinstance(sampler, CaveParams) and way > 0
    first, last = math.floor(inner * others), math.floor(outer * others)
    if (first, last) == (0, others) and not cave:
        return set(order)  # no ranks needed: also the column that would have none where `others` are fewer
    kept = order[first:last]
    if not cave:
        return set(kept)
    return {column for column in kept if in_own_cluster(column, clusters, query) == (sampler.keep == "inside")}


def plain_neighbours(params, scores, own, others, trained, clusters, query):
    """The further positives: the closest share, grown in a line from start to until; or the query's clusters."""
    ranked = sorted((column for column in range(len(scores)) if column != own), key=lambda c: -float(scores[c]))
    match params:
        case CloseNeighbours(share=share, start=start, until=until):
            way = min(max((Fraction(trained) - Fraction(start)) / (Fraction(until) - Fraction(start)), 0), 1)
            return ranked[: math.floor(Fraction(str(share)) * way * others)]
        case ClusterNeighbours(start=start) if trained >= start:
            return [column for column in ranked if in_own_cluster(column, clusters, query)]
    return []


def sets_of(negatives, shape=None):
    """The columns of each query, absent ones left out; `shape` of the scores, where every column is one."""
    rows, present = negatives.rows, negatives.present
    if rows is None:
        queries, columns = shape if present is None else present.shape
        rows = torch.arange(columns).expand(queries, -1)
    present = torch.ones_like(rows, dtype=torch.bool) if present is None else present
    return [row[there].tolist() for row, there in zip(rows, present, strict=True)]


# --- what their scores come to ------------------------------------------------------------------------


def total(scores):
    """The sum of exp over a list of 0-dim scores."""
    return sum((score.exp() for score in scores), torch.zeros((), dtype=torch.float64))


def mean(values):
    return sum(values) / len(values)


def plain_partition(params, before, memory, negatives):
    """Z per query: given constant, mean over the first batch's negatives, moving average, exact sum; and the state."""
    rows = len(memory[0])
    if params.partition == "exact":
        return [total(scores).detach() for scores in memory], before  # Wu et al.: a constant
    drawn = [score for scores in negatives for score in scores]
    seen = rows * float(total(drawn).detach()) / len(drawn)
    match params.partition:
        case "constant":
            z = params.constant * rows
        case "first-batch":
            z = seen if before is None else before
        case "moving-average":
            z = seen if before is None else params.rate * before + (1 - params.rate) * seen
    return [z] * len(memory), z


def plain_softmax(bound, positives, negatives, trained):
    """(loss, ceiling) of infonce, cpc and mlcpc, with EqCo's weight alpha/K on each of K negatives."""
    losses, ceilings, tops, bottoms = [], [], [], []
    for near, far in zip(positives, negatives, strict=True):
        k, m = len(far), len(far) + 1
        alpha = getattr(bound, "alpha", 1.0)
        if isinstance(bound, MLCPCParams):
            alpha = bound.alpha_start * (bound.alpha_end / bound.alpha_start) ** trained
            m = 1 + mean([len(scores) for scores in negatives])
        beta = (m - alpha) / (m - 1)
        weight = 1.0 if bound.eqco_alpha is None else bound.eqco_alpha / k
        top, bottom = alpha * total(near), beta * weight * total(far)
        losses.append(-(top / (top + bottom)).log())
        ceilings.append(math.log(1 + beta * weight * k / (alpha * len(near))))
        tops.append(top)
        bottoms.append(bottom)
    if not isinstance(bound, MLCPCParams):
        return mean(losses), mean(ceilings)
    # Algorithm 1 of mlcpc: the divergence from 1/n on each positive to one softmax over everything.
    denominator, n = sum(tops) + sum(bottoms), len(tops)
    k = mean([len(scores) for scores in negatives])
    ceiling = math.log(1 + beta * (k if bound.eqco_alpha is None else bound.eqco_alpha) / alpha)
    return sum((1 / n) * ((1 / n) / (top / denominator)).log() for top in tops), ceiling


def plain_nce(positives, negatives, z, rows):
    """Wu et al. 2018: the positive told from K draws of noise that is uniform over the rows."""
    losses = []
    for [near], far, normaliser in zip(positives, negatives, z, strict=True):
        noise = len(far) / rows
        data = (near.exp() / normaliser) / (near.exp() / normaliser + noise)
        of_noise = [noise / (score.exp() / normaliser + noise) for score in far]
        losses.append(-(data.log() + sum(each.log() for each in of_noise)))
    return mean(losses)


def plain_estimate(
    objective,
    moment,
    scores,
    own=None,
    positive=None,
    cave_clusters=None,
    neighbour_clusters=None,
    drawn=None,
    z_before=None,
):
    """(loss, bound, ceiling, Z for the next batch) of these scores, query by query and score by score.

    `drawn` holds each query's negatives, where they are drawn; by default they are the sampler's whole set.
    """
    bound, ranked = objective.bound, scores.detach()
    columns = scores.shape[1]
    owns = [-1] * len(scores) if own is None else own.tolist()
    positives, negatives, close = [], [], []
    for query, mine in enumerate(owns):
        chosen = (
            drawn[query]
            if drawn is not None
            else plain_negatives(
                ranked[query],
                mine,
                columns - (own is not None),
                objective.sampler,
                moment.annealed,
                cave_clusters,
                query,
            )
        )
        others = plain_neighbours(
            objective.neighbours,
            ranked[query],
            mine,
            columns - (own is not None),
            moment.trained,
            neighbour_clusters,
            query,
        )
        first = scores[query, mine] if positive is None else positive[query]
        positives.append([first, *(scores[query, column] for column in others)])
        negatives.append([scores[query, column] for column in chosen])
        close.append([first, *(scores[query, column] for column in chosen if column in others)])
    if isinstance(bound, LAParams | LAOriginalParams):
        background = [[near[0], *far] for near, far in zip(positives, negatives, strict=True)]
        z, after = [1.0] * len(scores), z_before
        if isinstance(bound, LAOriginalParams):
            z, after = plain_partition(bound, z_before, scores, background)
        of_close, of_background = (
            [sum(score.exp() / each for score in members) for members, each in zip(sets, z, strict=True)]
            for sets in (close, background)
        )
        loss = mean([-(c.log() - b.log()) for c, b in zip(of_close, of_background, strict=True)])
        ceiling = mean([math.log(len(b) / len(c)) for c, b in zip(close, background, strict=True)])
        return loss, ceiling - loss.item(), ceiling, after
    if isinstance(bound, NCEParams):
        z, after = plain_partition(bound, z_before, scores, negatives)
        infonce, ceiling = plain_softmax(InfoNCEParams(eqco_alpha=None), positives, negatives, moment.trained)
        return plain_nce(positives, negatives, z, columns), ceiling - infonce.item(), ceiling, after
    loss, ceiling = plain_softmax(bound, positives, negatives, moment.trained)
    return loss, ceiling - loss.item(), ceiling, z_before


def clusters_of(buffer, index, columns):
    """The clusters of columns that are images, or none (-1), and of queries."""
    columns = torch.arange(buffer.shape[1]) if columns is None else columns
    return Clusters(torch.where(columns >= 0, buffer[:, columns.clamp(min=0)], -1), buffer[:, index])


def plain_of(contrast, moment, scores, index, own=None, positive=None, columns=None, state=None, z_before=None):
    """`plain_estimate` with the contrast's settings and clusters; `state` of its generator before it drew, for K."""
    objective, drawn = contrast.objective, None
    cave, others = (clusters_of(b, index, columns) for b in (contrast.clusters, contrast.neighbour_clusters))
    if objective.negatives != "all":
        generator = torch.Generator()
        generator.set_state(state)
        drawn = draw(
            scores.detach(), own, objective.negatives, objective.sampler, moment.annealed, generator, cave
        ).rows.tolist()
    return plain_estimate(objective, moment, scores, own, positive, cave, others, drawn, z_before)


# --- embeddings and their comparison --------------------------------------------------------------------


def plain_embeddings(views, weight):
    """What `Given` makes of views: their numbers times the weight, to unit length, one by one."""
    turned = [view.flatten() @ weight for view in views]
    return torch.stack([row / row.square().sum().sqrt() for row in turned])


def plain_scores(queries, rows, temperature):
    """z^T m / temperature, pair by pair."""
    return torch.stack([torch.stack([(query * row).sum() / temperature for row in rows]) for query in queries])


def gradient(value, *of):
    return torch.autograd.grad(value, of, retain_graph=True)


def assert_same(estimate, plain, *leaves):
    """Value, estimate and ceiling in nats, and the gradients in the leaves; `plain` is (loss, bound, ceiling, ...)."""
    loss, bound, ceiling = plain[:3]
    assert estimate.objective.item() == pytest.approx(loss.item(), rel=1e-9)
    assert estimate.loss.item() == pytest.approx(loss.item(), rel=1e-9)
    assert estimate.ceiling.item() == pytest.approx(ceiling, rel=1e-6)
    assert estimate.bound.item() == pytest.approx(bound, rel=1e-6, abs=1e-6)
    for ours, theirs in zip(gradient(estimate.objective, *leaves), gradient(loss, *leaves), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-12)
