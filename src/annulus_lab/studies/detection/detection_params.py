"""Sections of params.yaml of the study of detection: detector, training, segmentation and tasks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len, MinLen

from annulus.errors import InputError
from annulus.evals.segmentation_settings import SegmentationSettings
from annulus.settings import Decay, Fraction, Positive, Rate, Section, Share, Steps, Width

Pixels = Annotated[int, Ge(1), Le(2**13)]  # pixels
Convolutions = Annotated[int, Ge(0), Le(20)]  # convolutions, one after the other
TwoCounts = Annotated[list[Steps], Len(2, 2)]  # before and after non-maximum suppression


@dataclass(frozen=True, kw_only=True)
class DetectorParams(Section):
    """Detector around a backbone; the comments have Detectron2's names.

    Source: Ren et al. 2015, arXiv:1506.01497, Section 3; He et al. 2017, arXiv:1703.06870, Sections 3 and 5; Lin et al.
    2016, arXiv:1612.03144, Section 4.
    """

    outputs: Literal["boxes", "masks", "keypoints"]  # Faster, Mask or Keypoint R-CNN
    neck: Literal["fpn", "c4"]  # a pyramid of all stages, or the last stage as the head of each box
    frozen: bool  # FREEZE_AT 5: no stage learns, statistics of batch normalisation stay; false: FREEZE_AT 0
    normalisation: Literal["none", "batch"]  # of the layers around a backbone that learns
    cascade: bool  # three box heads, one after the other, with rising overlaps (arXiv:1712.00726)
    shorter: Annotated[list[Pixels], MinLen(1)]  # MIN_SIZE_TRAIN: each image draws one of them
    shorter_test: Pixels  # MIN_SIZE_TEST
    longer: Pixels  # MAX_SIZE_*
    flip: bool  # half of the training images are mirrored
    skipped: Annotated[int, Ge(0), Le(3)]  # finest levels that the pyramid leaves out
    pyramid_width: Width  # FPN.OUT_CHANNELS
    anchors: Annotated[list[Pixels], MinLen(1)]  # one for each map of the pyramid; with c4 all on its one map
    proposals_train: TwoCounts  # RPN.PRE_NMS_TOPK_TRAIN of each map, POST_NMS_TOPK_TRAIN
    proposals_test: TwoCounts
    sampled_anchors: Steps  # RPN.BATCH_SIZE_PER_IMAGE
    sampled_boxes: Steps  # ROI_HEADS.BATCH_SIZE_PER_IMAGE
    box_size: Pixels  # features of a box, a side; c4 pools twice this side, and its last stage halves it
    box_convolutions: Convolutions
    box_width: Width
    mask_convolutions: Convolutions
    mask_width: Width
    keypoint_convolutions: Convolutions
    keypoint_width: Width
    score_threshold: Fraction
    detections: Steps  # of an image

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen and self.normalisation == "batch":
            raise InputError(
                "normalisation: batch is for a backbone that learns (frozen: false); with frozen: true take none"
            )
        if self.cascade and self.neck == "c4":
            raise InputError("cascade: true with neck: c4 is not built; take neck: fpn")
        if self.outputs == "keypoints" and self.neck == "c4":
            raise InputError("outputs: keypoints with neck: c4 is not built; take neck: fpn")

    def check_anchors(self, strides: Sequence[int]) -> None:
        """Checks the anchors of a pyramid.

        Raises:
            InputError: when there is not one anchor size for each of these strides and for a smaller map.
        """
        if self.neck == "fpn" and len(self.anchors) != len(strides) + 1:
            raise InputError(
                f"anchors: {self.anchors} for {len(strides)} levels of this encoder (strides "
                f"{', '.join(map(str, strides))}) and a smaller one; give {len(strides) + 1} sizes"
            )


@dataclass(frozen=True, kw_only=True)
class DetectorTrainingParams(Section):
    """SGD with momentum. The values belong to `reference_batch` images; `scaled` converts them to `batch_size`."""

    batch_size: Steps
    reference_batch: Steps
    learning_rate: Rate
    iterations: Steps
    drops: list[Steps]  # iterations after which the rate is a tenth
    warmup: Annotated[int, Ge(0), Le(10**7)]  # iterations of a rate that rises
    warmup_from: Fraction  # of the rate
    momentum: Share
    weight_decay: Decay
    clip: Positive | None  # largest gradient norm; null: no limit
    repeat_threshold: Fraction | None  # of LVIS: images of categories in a smaller share of the images are repeated

    def __post_init__(self) -> None:
        super().__post_init__()
        if sorted(self.drops) != self.drops or [drop for drop in self.drops if drop >= self.iterations]:
            raise InputError(f"drops: {self.drops} must rise and lie below iterations: {self.iterations}")

    def scaled(self) -> "DetectorTrainingParams":
        """Parameters for the same number of images with `batch_size`: a larger rate and fewer iterations for more.

        Source: Goyal et al. 2017, arXiv:1706.02677, Section 2.1 (the linear rule).
        """
        times = self.batch_size / self.reference_batch
        iterations = max(1, round(self.iterations / times))
        drops = sorted({min(max(1, round(drop / times)), iterations - 1) for drop in self.drops} - {0})
        changes = {
            "reference_batch": self.batch_size,
            "learning_rate": self.learning_rate * times,
            "iterations": iterations,
            "drops": drops,
            "warmup": round(self.warmup / times),
        }
        return replace(self, **changes)

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0.

        Source: Goyal et al. 2017, arXiv:1706.02677, Section 2.2 (gradual warm-up).
        """
        rate = self.learning_rate * math.prod(0.1 for drop in self.drops if step >= drop)
        if step < self.warmup:
            share = step / self.warmup
            rate *= self.warmup_from * (1 - share) + share
        return rate


@dataclass(frozen=True, kw_only=True)
class SegmentsParams(SegmentationSettings):
    """Segmentation decoder on a task's scenes: side of their squares in pixels, and training."""

    task: str
    side: Pixels


@dataclass(frozen=True, kw_only=True)
class TaskParams(Section):
    """Column of the papers' tables: the kind of annotations, and one of `configurations`."""

    kind: Literal["boxes", "masks", "keypoints", "voc", "lvis"]
    configuration: str
