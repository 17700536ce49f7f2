"""From predicted and true classes of pixels to intersection over union, in percent."""

from jaxtyping import Float, Int64, Integer
from torch import Tensor

from annulus.files.images import IGNORED


def confusion(predicted: Integer[Tensor, "*n"], masks: Integer[Tensor, "*n"], classes: int) -> Int64[Tensor, "c c"]:
    """Counts of pixels by true class (row) and predicted class (column), without ignored pixels.

    Both hold classes from 0 to classes - 1, masks also IGNORED.
    """
    labelled = masks != IGNORED
    pairs = masks[labelled].long() * classes + predicted[labelled].long()
    return pairs.bincount(minlength=classes**2).view(classes, classes)


def iou(counts: Int64[Tensor, "c c"]) -> Float[Tensor, "c"]:
    """TP / (TP + FP + FN) of each class, in [0, 1]; 0 where a class is neither there nor predicted.

    Source: Long et al. 2015, arXiv:1411.4038, Section 5 (mean IU).
    """
    found = counts.diagonal().double()
    union = counts.sum(dim=0) + counts.sum(dim=1) - counts.diagonal()
    return found / union.clamp(min=1)


def mean_iou(counts: Int64[Tensor, "c c"]) -> float:
    """The mean of `iou` over the classes that have true pixels, in percent.

    A class without true pixels has no IoU of its own; where it is predicted, the true classes lose those pixels.

    Source: Tian et al. 2020, arXiv:2005.10243, Appendix B.3 (mean IoU for labeled classes).
    """
    return 100 * iou(counts)[counts.sum(dim=1) > 0].mean().item()


def pixel_accuracy(counts: Int64[Tensor, "c c"]) -> float:
    """Share of the labelled pixels whose class is predicted, in percent."""
    return 100 * (counts.diagonal().sum() / counts.sum()).item()
