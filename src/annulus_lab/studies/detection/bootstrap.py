"""95 % intervals of average precision, over seeds and over test pictures.

Average precision is not a mean over pictures, so a bootstrap gives its variance over them. It draws pictures with
replacement. Every seed and every variant has the same draws, so that differences are paired.
"""

from collections.abc import Sequence

import numpy as np
import torch
from faster_coco_eval import COCOeval_faster
from jaxtyping import Float, Int

from annulus.device.rng import generator
from annulus.evals.intervals import Interval, over_seeds, with_images
from annulus_lab.studies.detection.annotated import Annotated, Detection
from annulus_lab.studies.detection.average_precision import TASKS, coco_evaluation, means
from annulus_lab.studies.detection.eleven_points import match_detections, mean_precisions

LISTED = 2**20  # pairs of a category and a picture that faster-coco-eval lists at once. LVIS has 24 million


def resampled(truth: Annotated, detections: Sequence[Detection], resamples: int) -> dict[str, Float[np.ndarray, " r"]]:
    """Numbers of `evaluate`, except those by size, on the pictures and on `resamples` draws of as many pictures.

    A draw without a counted object gives NaN. Detections are matched once; a draw repeats the matches of its pictures.
    Two detectors with the same pictures have the same draws.
    """
    by_draw = _numbers_by_draw(truth, detections, draws(len(truth.pictures), resamples))
    return {name: np.array([draw.get(name, np.nan) for draw in by_draw]) for name in sorted(by_draw[0])}


def draws(pictures: int, resamples: int) -> list[Int[np.ndarray, " n"]]:
    """Weight of each picture in each resample: first all ones, then counts in a draw with replacement."""
    drawn = torch.randint(pictures, (resamples, pictures), generator=generator(0, "bootstrap", pictures))
    return [np.ones(pictures, dtype=np.int64), *(np.bincount(row, minlength=pictures) for row in drawn.numpy())]


def interval(table: Float[np.ndarray, "s r"]) -> Interval:
    """Mean over seeds of the first column, and its interval. For a difference, pass the difference of two tables.

    Let D be the variance over seeds of the first column and V the variance over draws of the mean over S seeds. Let W
    be the sum over seeds of the variance over draws of a seed's deviation from that mean, / (S - 1). The variance of
    the mean is (D + max(S V - W, 0)) / S. D is the part of the seeds and of the pictures within a seed. The other term
    is the part that all seeds share by the same pictures, as with the mean squares of annulus.evals.intervals.

    Source: Efron 1979, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7.
    """
    seeds = len(table)
    draws = table[:, 1:][:, ~np.isnan(table[:, 1:]).any(axis=0)]
    count = draws.shape[1]
    if count < 2:
        return Interval(float(table[:, 0].mean()), 0.0, 0)
    over_draws = float(draws.mean(axis=0).var(ddof=1))
    rest = float((draws - draws.mean(axis=0)).var(axis=1, ddof=1).sum()) / max(seeds - 1, 1)
    shares = [(over_draws, count - 1)], [(rest / seeds, max(seeds - 1, 1) * (count - 1))]
    return with_images(over_seeds(table[:, 0].tolist()), *shares)


def _numbers_by_draw(
    truth: Annotated, detections: Sequence[Detection], draws: Sequence[Int[np.ndarray, " n"]]
) -> list[dict[str, float]]:
    """Numbers of each draw of picture weights."""
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

    It reads and writes two private fields, since the package has no public fields for the matches. The package's
    evaluator for several processes (utils/pytorch/coco_eval.py) merges pictures in the same fields.
    """

    def __init__(self, truth: Annotated, detections: Sequence[Detection], task: str) -> None:
        evaluation = coco_evaluation(truth, detections, task, separate=True)
        params, categories = evaluation.params, evaluation.params.catIds
        place = {picture.id: position for position, picture in enumerate(truth.pictures)}
        places = [place[picture] for picture in params.imgIds]
        concerned: dict[int, set[int]] = {}  # pictures with an object or a detection; the others change nothing
        for coco in (evaluation.cocoGt, evaluation.cocoDt):
            for annotation in coco.anns.values():
                concerned.setdefault(annotation["category_id"], set()).add(place[annotation["image_id"]])
        # For each category the pictures, and the matches in them.
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
        # Without the annotations: the sum over matches does not read them.
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
