"""Intersection over union in percent, from predicted and true classes of pixels."""

from jaxtyping import Float, Int64, Integer
from torch import Tensor

from annulus.files.images import IGNORED


def confusion(predicted: Integer[Tensor, "*n"], masks: Integer[Tensor, "*n"], classes: int) -> Int64[Tensor, "c c"]:
    """Counts of pixels by true class (row) and predicted class (column), without ignored pixels.

    Both hold classes from 0 to classes - 1; masks may hold IGNORED too.
    """
    labelled = masks != IGNORED
    pairs = masks[labelled].long() * classes + predicted[labelled].long()
    return pairs.bincount(minlength=classes**2).view(classes, classes)


def iou(counts: Int64[Tensor, "c c"]) -> Float[Tensor, "c"]:
    """TP / (TP + FP + FN) of each class, in [0, 1]; 0 for a class without true and predicted pixels.

    Source: Long et al. 2015, arXiv:1411.4038, Section 5 (mean IU).
    """
    intersection = counts.diagonal().double()
    union = counts.sum(dim=0) + counts.sum(dim=1) - counts.diagonal()
    return intersection / union.clamp(min=1)


def mean_iou(counts: Int64[Tensor, "c c"]) -> float:
    """The mean of `iou` over the classes that have true pixels, in percent.

    A class without true pixels has no IoU in the mean; pixels that are predicted as it lower the true classes' IoU.

    Source: Tian et al. 2020, arXiv:2005.10243, Appendix B.3 (mean IoU for labeled classes).
    """
    return 100 * iou(counts)[counts.sum(dim=1) > 0].mean().item()


def pixel_accuracy(counts: Int64[Tensor, "c c"]) -> float:
    """Share of the labelled pixels whose class is predicted, in percent."""
    return 100 * (counts.diagonal().sum() / counts.sum()).item()
