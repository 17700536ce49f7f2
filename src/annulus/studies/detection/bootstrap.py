"""95 % intervals of average precision, over seeds and over test pictures.

Average precision is no mean over pictures, so its variance over them is a bootstrap's: pictures are drawn with
replacement, and the same draws serve every seed and every variant, so that differences are paired.
"""

from collections.abc import Sequence

import numpy as np
import torch
from faster_coco_eval import COCOeval_faster
from jaxtyping import Float, Int

from annulus.device.rng import generator
from annulus.evals.intervals import Interval, over_seeds, with_images
from annulus.studies.detection.annotated import Annotated, Detection
from annulus.studies.detection.average_precision import TASKS, evaluation_of, means
from annulus.studies.detection.eleven_points import match_detections, mean_precisions

LISTED = 2**20  # results that faster-coco-eval lists at once: a category's in a picture. LVIS has 24 million


def resampled(truth: Annotated, detections: Sequence[Detection], resamples: int) -> dict[str, Float[np.ndarray, " r"]]:
    """Each number of `evaluate` without those by size, on the pictures themselves and on `resamples` draws of as many.

    NaN where a draw has no object that counts. Detections are matched once; a draw repeats the matches of its pictures.
    Two detectors with the same pictures are resampled alike.
    """
    by_draw = _numbers_by_draw(truth, detections, draws(len(truth.pictures), resamples))
    return {name: np.array([draw.get(name, np.nan) for draw in by_draw]) for name in sorted(by_draw[0])}


def draws(pictures: int, resamples: int) -> list[Int[np.ndarray, " n"]]:
    """Weight of each picture in each resample: first all ones, then counts of drawing as many with replacement."""
    drawn = torch.randint(pictures, (resamples, pictures), generator=generator(0, "bootstrap", pictures))
    return [np.ones(pictures, dtype=np.int64), *(np.bincount(row, minlength=pictures) for row in drawn.numpy())]


def interval(table: Float[np.ndarray, "s r"]) -> Interval:
    """The mean over seeds of the first column, and its interval; of a difference, give the difference of two tables.

    With D = variance over seeds of the first column, V = variance over draws of the mean over S seeds, and W = sum over
    seeds of the variance over draws of a seed's deviation from that mean, / (S - 1), the variance of the mean is
    (D + max(S V - W, 0)) / S: D holds the seeds and what is left of pictures within a seed, the other part what all
    seeds owe to the same pictures, as with the mean squares of annulus.evals.intervals.

    Source: Efron 1979, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7.
    """
    seeds = len(table)
    draws = table[:, 1:][:, ~np.isnan(table[:, 1:]).any(axis=0)]
    count = draws.shape[1]
    if count < 2:
        return Interval(float(table[:, 0].mean()), 0.0, 0)
    of_pictures = float(draws.mean(axis=0).var(ddof=1))
    rest = float((draws - draws.mean(axis=0)).var(axis=1, ddof=1).sum()) / max(seeds - 1, 1)
    shares = [(of_pictures, count - 1)], [(rest / seeds, max(seeds - 1, 1) * (count - 1))]
    return with_images(over_seeds(table[:, 0].tolist()), *shares)


def _numbers_by_draw(
    truth: Annotated, detections: Sequence[Detection], draws: Sequence[Int[np.ndarray, " n"]]
) -> list[dict[str, float]]:
    """Numbers of each draw, given the weight of each picture."""
    by_draw: list[dict[str, float]] = [{} for _ in draws]
    for task, name in TASKS[truth.kind].items():
        matches = _Matches(truth, detections, task)
        for numbers, counts in zip(by_draw, draws, strict=True):
            numbers |= means(matches.precision(counts), truth.categories, name)
    if truth.kind == "voc":
        matched = [match_detections(truth, detections, category.id) for category in truth.categories]
        for numbers, counts in zip(by_draw, draws, strict=True):
            numbers |= mean_precisions(matched, counts)
    return by_draw


class _Matches:
    """Matches of faster-coco-eval in each picture for each category, of one seed and task.

    Matches are read from and given back to the two fields in which the package's own evaluator for several processes
    (utils/pytorch/coco_eval.py) merges pictures; it has no public ones for them.
    """

    def __init__(self, truth: Annotated, detections: Sequence[Detection], task: str) -> None:
        evaluation = evaluation_of(truth, detections, task, separate=True)
        params, categories = evaluation.params, evaluation.params.catIds
        place = {picture.id: position for position, picture in enumerate(truth.pictures)}
        places = [place[picture] for picture in params.imgIds]
        concerned: dict[int, set[int]] = {}  # pictures with an object or a detection: all others change nothing
        for coco in (evaluation.cocoGt, evaluation.cocoDt):
            for annotation in coco.anns.values():
                concerned.setdefault(annotation["category_id"], set()).add(place[annotation["image_id"]])
        # Of each category the pictures, and the matches in them.
        self.by_category: list[tuple[Int[np.ndarray, " m"], list]] = []
        step = max(1, LISTED // len(places))
        for start in range(0, len(categories), step):
            params.catIds = categories[start : start + step]
            evaluation.evaluate()  # lists every picture for each category
            for number, category in enumerate(params.catIds):
                some = [row for row, position in enumerate(places) if position in concerned.get(category, ())]
                matched = [evaluation._evalImgs_cpp[number * len(places) + row] for row in some]
                self.by_category.append((np.array([places[row] for row in some], dtype=np.int64), matched))
        params.catIds = params.catIds[:1]  # one at a time; its number does not matter
        # Without the annotations, which adding up the matches does not read.
        self.added = COCOeval_faster(iouType=task, print_function=evaluation.print_function, separate_eval=True)
        self.added._paramsEval = params

    def precision(self, counts: Int[np.ndarray, " n"]) -> Float[np.ndarray, "t r k"]:
        """Precision by threshold, recall and category, with the pictures weighted by `counts`; -1 without objects."""
        columns = []
        for places, matched in self.by_category:
            drawn = [matched[row] for row in np.repeat(np.arange(len(places)), counts[places])]
            self.added._paramsEval.imgIds = list(range(len(drawn)))
            self.added._evalImgs_cpp = drawn
            self.added.accumulate()
            columns.append(np.asarray(self.added.eval["precision"])[:, :, 0, 0, 0])
        return np.stack(columns, axis=2)
