"""Evaluation of a frozen encoder's features.

accuracy         from scores and labels to percent
knn              nearest neighbours among the training images
linear           logistic regression on the features
linear_settings  its settings
probe            its layer
segmentation     a small decoder of feature maps, for the classes of pixels
iou              intersection over union of those
mask_pictures    images above them
plane            features as places in a plane
intervals        95 % intervals over seeds and test images
headlines        the main line's headline numbers by seed
"""

from typing import TYPE_CHECKING

from annulus.late import late

if TYPE_CHECKING:
    from annulus.evals.intervals import Interval, between_tables, over_seeds, over_seeds_and_images, verdict
    from annulus.evals.knn import KnnOutcome, KnnSettings, evaluate_knn, search
    from annulus.evals.linear import LinearOutcome, probe_features
    from annulus.evals.linear_settings import LinearBudget, LinearSettings
else:
    _HOMES = {
        "intervals": "Interval between_tables over_seeds over_seeds_and_images verdict",
        "knn": "KnnOutcome KnnSettings evaluate_knn search",
        "linear": "LinearOutcome probe_features",
        "linear_settings": "LinearBudget LinearSettings",
    }
    __getattr__, __dir__ = late(__name__, _HOMES)

__all__ = [
    "Interval",
    "KnnOutcome",
    "KnnSettings",
    "LinearBudget",
    "LinearOutcome",
    "LinearSettings",
    "between_tables",
    "evaluate_knn",
    "over_seeds",
    "over_seeds_and_images",
    "probe_features",
    "search",
    "verdict",
]
