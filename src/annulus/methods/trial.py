"""Trial of samplers and bounds on made-up scores, so that a fault appears before training and not at its end."""

import math
from inspect import ismethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.bounds.bound import Bound, Estimate
from annulus.device.distributed import world_size
from annulus.device.trial_contexts import naming, usual
from annulus.errors import InputError
from annulus.negatives.by_rank import Count
from annulus.negatives.clusters import Clustering, Clusters
from annulus.negatives.random_numbers import Shared
from annulus.negatives.samplers import Sampler
from annulus.negatives.selection import Selection

ROWS, REPEATS, COLUMNS, DRAWN = 4, 128, 256, 8  # 1,024 draws for each of 4 rows of scores
FAR = 10.0  # standard deviations of chi-squared: draws by weights that vary by half of their mean reach it
QUERIES, NEGATIVES, APART, NATS, TEMPERATURE = 32, 15, 50.0, 1e-3, 0.02  # of a bound's trial


@usual()
def try_sampler(sampler: Sampler, negatives: Count) -> None:
    """Raises InputError if a sampler contradicts itself. A sampler whose set is empty with few columns is not tried.

    Raises:
        InputError: when its `shares` or `clustering` is a method; when its `draw` raises an error or returns no
            columns, other columns from the same random state, or the query's own; when it does not draw uniformly from
            the set that it returns for k "all"; when it has no set and `negatives` is "all".
    """
    name = f"{type(sampler).__name__}.draw"
    if methods := [name for name in ("shares", "clustering") if ismethod(getattr(sampler, name))]:
        raise InputError(f"{type(sampler).__name__}.{methods[0]} is a method; write @property above it")
    scores, own = _trial_scores()
    for progress in (0.0, 0.5):
        _select(sampler, scores, own, DRAWN, progress)
    drawn, again, whole = (_select(sampler, scores, own, k, 1.0) for k in (DRAWN, DRAWN, "all"))
    if isinstance(drawn, InputError) or isinstance(again, InputError):
        return
    with naming(name, "scores", "an index holds the numbers of columns, (b, k)"):
        counts, repeated = _counts(drawn, scores), _counts(again, scores)
    if not torch.equal(counts, repeated):
        raise InputError(f"{name} gives other columns from the same random state; let it draw by `generator` alone")
    if counts.gather(1, own[::REPEATS, None]).any():
        raise InputError(f"{name} gives columns of the query's own image; leave out those of `self_index`")
    if isinstance(whole, InputError):
        if negatives == "all":
            raise whole
        return
    members = whole.marked(scores)[::REPEATS]
    if not _uniform_over(counts, members) and not _uniform_over(_counts_over_batches(sampler), members):
        raise InputError(
            f"{name} does not draw uniformly from the set that it returns for k 'all'; return this set, or raise "
            "annulus.InputError for k 'all', as negatives.draw_weighted does"
        )


@usual()
def try_bound(bound: Bound) -> None:
    """Raises InputError if a bound contradicts itself: its loss, its ceiling or its estimate.

    Raises:
        InputError: when its estimate is not an `Estimate` of tensors of one number each; when its loss is not a
            finite number with a gradient, or rises with the positives' scores where all scores are equal; when the
            bound or its ceiling is not finite, the bound is above 0 for equal scores, or exceeds its ceiling.
    """
    if world_size() > 1:  # this process may be here alone, and some losses communicate
        return
    name = type(bound).__name__
    for apart, most in ((0.0, 0.0), (APART, math.inf)):
        where = "where scores tell the positive apart" if apart else "where scores are all equal"
        positives = torch.full((QUERIES, 1), apart, requires_grad=True)
        negatives = torch.full((QUERIES, NEGATIVES), -apart, requires_grad=True)
        counts, every = torch.full((QUERIES,), NEGATIVES), torch.cat([positives, negatives], dim=1).detach()
        advice = "both are functions of scores or numbers of them, and tensors"
        with naming(f"the loss or ceiling of {name}", "scores", advice):
            try:
                begun = bound.at(TEMPERATURE).begin()
                estimate = begun.estimate(positives, negatives, 0.5, counts, lambda every=every: every)
            except InputError:  # such as alpha above the number of candidates, which is small here
                return
        _check_parts(estimate, name, where)
        loss = estimate.loss
        if not loss.isfinite() or not loss.requires_grad:
            fault = f"is {loss.item():.4g}" if loss.requires_grad else "has no gradient"
            raise InputError(
                f"the loss of {name} {fault} {where}; give a finite number with a gradient, a mean over queries"
            )
        # The value of a loss of squares, such as the spectral one, proves nothing: it grows with any large scores.
        with naming(f"the gradient of {name}", "scores", "a loss is made of functions that torch can differentiate"):
            (slope,) = torch.autograd.grad(loss, positives, allow_unused=True)
        if not apart and slope is not None and slope.sum() > 0:
            raise InputError(f"the loss of {name} rises with the positives' scores {where}; turn its sign")
        nats, ceiling = float(estimate.bound_nats), float(estimate.ceiling_nats)
        if not math.isfinite(nats + ceiling):
            raise InputError(
                f"the bound of {name} is {nats:.4g} nats, and its ceiling {ceiling:.4g}, {where}; give finite numbers, "
                "which metrics are; derive a loss without a ceiling from annulus.bounds.Loss"
            )
        if nats > min(most, ceiling) + NATS:
            raise InputError(
                f"the bound of {name}, its ceiling less its loss, is {nats:.4g} nats {where}, and not "
                f"{min(most, ceiling):.4g} at most; mend its ceiling, or derive a loss that is no bound from "
                "annulus.bounds.Loss"
            )


def _check_parts(estimate: object, name: str, where: str) -> None:
    """Raises InputError unless training can stack and average the parts of an estimate.

    Raises:
        InputError: with the first part that is not a tensor of one number.
    """
    if not isinstance(estimate, Estimate):
        raise InputError(f"estimate of {name} gives a {type(estimate).__name__}; give annulus.bounds.Estimate")
    for part in ("loss", "loss_nats", "ceiling_nats", "bound_nats"):  # a bound has the shape of its ceiling and loss
        given = getattr(estimate, part)
        if not isinstance(given, Tensor) or given.ndim:
            kind = f"of shape {tuple(given.shape)}" if isinstance(given, Tensor) else f"a {type(given).__name__}"
            raise InputError(f"{part} of {name} is {kind} {where}; give a tensor of one number, a mean over queries")


def _trial_scores() -> tuple[Float[Tensor, "b n"], Int[Tensor, "b"]]:
    """Scores with repeated rows, and the queries' own columns."""
    scores = 3 * torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    return scores.repeat_interleave(REPEATS, dim=0), torch.arange(ROWS).repeat_interleave(REPEATS)


def _counts_over_batches(sampler: Sampler) -> Int[Tensor, "rows n"]:
    """Counts of draws over separate batches, since the queries of one batch may share their draws."""
    scores, own = (made[::REPEATS] for made in _trial_scores())
    drawn = (_select(sampler, scores, own, DRAWN, 1.0, seed=batch) for batch in range(REPEATS))
    return sum(selection.occurrences(scores) for selection in drawn if isinstance(selection, Selection))


def _select(
    sampler: Sampler, scores: Float[Tensor, "b n"], own: Int[Tensor, "b"], k: Count, progress: float, seed: int = 0
) -> Selection | InputError:
    """The sampler's selection, or its InputError, from the seed's random state."""
    random, clustering = Shared(torch.Generator().manual_seed(seed)), sampler.clustering  # as in training
    clusters = None
    if clustering is not None:
        numbers = torch.arange(COLUMNS, dtype=torch.int32)[None]
        runs, count = (clustering.runs, min(clustering.clusters, 8)) if isinstance(clustering, Clustering) else (1, 8)
        columns = numbers if clustering == "images" else numbers.repeat(runs, 1) % count
        clusters = Clusters(columns, columns[:, own])
    advice = (
        "its generator is for the functions of annulus.negatives, such as draw_weighted, ring and fractions; where "
        f"{COLUMNS} columns or {DRAWN} negatives are too few for it, raise annulus.InputError"
    )
    with naming(f"{type(sampler).__name__}.draw", "scores", advice):
        try:
            answer = sampler.draw(scores, own, k, random, progress, clusters)
        except InputError as error:
            return error
    if not isinstance(answer, Selection) or (answer.index is None and k != "all"):
        kind = "all columns" if isinstance(answer, Selection) else f"a {type(answer).__name__}"
        raise InputError(f"{type(sampler).__name__}.draw gives {kind} for k {k!r}; give annulus.Selection(index)")
    return answer


def _counts(drawn: Selection, scores: Float[Tensor, "b n"]) -> Int[Tensor, "rows n"]:
    """The number of times that each column was drawn for each row of scores."""
    return drawn.occurrences(scores).view(ROWS, REPEATS, COLUMNS).sum(dim=1)


def _uniform_over(counts: Int[Tensor, "rows n"], members: Bool[Tensor, "rows n"]) -> bool:
    """Returns True if draws hit only the members, and all about equally often by Pearson's chi-squared."""
    size = members.sum(dim=1)
    expected = (counts.sum(dim=1) / size)[:, None]
    chi_squared = ((counts - expected).square() * members / expected).sum(dim=1)
    return not counts[~members].any() and bool((chi_squared <= size + FAR * (2 * size).sqrt()).all())
