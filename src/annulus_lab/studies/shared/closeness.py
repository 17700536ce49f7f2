"""Rows of a trained encoder: weight and class of the closest ones, rank of a view's own, tolerance of a class."""

import statistics

import torch
import torch.nn.functional as F
from torch import Tensor

from annulus.bounds.hcl import HCL
from annulus.evals.geometry import tolerance
from annulus.files.results import Number
from annulus.methods.contrast import Contrast
from annulus.methods.critics import scaled
from annulus.training.embeddings import embeddings
from annulus.training.loop import Training
from annulus_lab.studies.shared.information import view_embeddings
from annulus_lab.studies.shared.measured import GRADIENT

HARD, HARDEST = 0.1, 0.01  # shares of the rows: the papers' ball, and the part that a ring leaves out
CLOSEST = 10  # rows whose class is compared


@torch.no_grad()
def closeness(training: Training, views: int, seed: int) -> dict[str, Number]:
    """Measures of one view of each of `views` training images against the embeddings of all; means over views.

    hard_weight_percent, hardest_weight_percent: softmax weight of the closest tenth and the closest hundredth of the
    other rows, at the method's temperature. Near 100, uniform negatives are hard ones.
    hard_gradient_percent: under HCL without tau_plus, the closest tenth's share of the loss's gradient by the scores of
    all other rows. Under InfoNCE it is hard_weight_percent. It may pass 100: HCL's gradient attracts the farthest rows.
    closest_of_class_percent: share of the view's class among the ten closest other rows, if classes are known; a row
    without a class counts as another class.
    own_rank_percent: median share of the other rows that are closer than the view's own row; 0 for the closest.
    tolerance_cosine: mean similarity of two rows of one class, if classes are known.
    With a split into two networks the views of each meet the rows of the other, and the numbers are means.

    Source: Wu et al. 2020, arXiv:2010.02037, Section 3 (a ring leaves out the closest rows); Wu et al. 2020,
    arXiv:2005.13149, Section 4 (hard negatives); Robinson et al. 2021, arXiv:2010.04592, Section 3 (HCL).
    """
    source, encoder = training.source, training.method.encoder
    chosen = torch.arange(min(views, len(source))) * len(source) // min(views, len(source))
    rows = [
        F.normalize(part, dim=1)
        for part in embeddings(encoder, source, training.device).chunk(len(encoder.names), dim=1)
    ]
    (queries,) = view_embeddings(training, source.take(chosen), "closeness views", 1, seed)
    temperature, labels = training.method.params.temperature, source.labels.to(training.device)
    measures = [
        _measures(scaled(query, temperature) @ part.T, chosen.to(training.device), labels, contrast)
        for query, part, contrast in zip(queries, reversed(rows), training.method.contrasts, strict=True)
    ]
    similarities = [value for part in rows if (value := tolerance(part, labels)) is not None]
    means = {name: statistics.fmean(numbers[name] for numbers in measures) for name in measures[0]}
    return means | ({"tolerance_cosine": statistics.fmean(similarities)} if similarities else {})


def _measures(scores: Tensor, own: Tensor, labels: Tensor, contrast: Contrast | None = None) -> dict[str, float]:
    """Measures of scores (views, rows), the column of each view's own row (views,), and each row's class (rows,)."""
    at_own = scores.gather(1, own[:, None])
    rank = (scores > at_own).sum(dim=1).float().median() / (scores.shape[1] - 1)
    others = scores.scatter(1, own[:, None], -torch.inf)
    weights, closest = others.softmax(dim=1).sort(dim=1, descending=True)
    number = scores.shape[1] - 1
    hard, hardest = (weights[:, : max(round(share * number), 1)].sum(dim=1).mean() for share in (HARD, HARDEST))
    known = labels[own] >= 0
    same = labels[closest[known, : min(CLOSEST, number)]] == labels[own][known, None]
    numbers = {"hard_weight_percent": hard, "hardest_weight_percent": hardest, "own_rank_percent": rank}
    bound = None if contrast is None else contrast.config.bound
    if isinstance(bound, HCL) and bound.tau_plus == 0:  # with it the positive decides whether negatives have a gradient
        numbers[GRADIENT] = _gradient_share(contrast, at_own, others, closest[:, : max(round(HARD * number), 1)])
    if known.any():
        numbers["closest_of_class_percent"] = same.float().mean()
    return {name: 100 * value.item() for name, value in numbers.items()}


def _gradient_share(contrast: Contrast, positives: Tensor, others: Tensor, closest: Tensor) -> Tensor:
    """Mean share of the columns `closest` (views, c) in the loss's gradient by `others` (views, rows)."""
    with torch.enable_grad():
        negatives = others.double().requires_grad_()
        loss = contrast.bound.loss(positives.double(), negatives, training=1.0)
        (gradient,) = torch.autograd.grad(loss, negatives)
    return (gradient.gather(1, closest).sum(dim=1) / gradient.sum(dim=1)).mean()
