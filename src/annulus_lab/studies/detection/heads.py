"""Heads of each box: class and box, mask, keypoints.

With a pyramid they are separate small networks. With C4 the backbone's last stage is the head of boxes and masks.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torchvision.models.detection.faster_rcnn import FastRCNNConvFCHead, FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.keypoint_rcnn import KeypointRCNNHeads, KeypointRCNNPredictor
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.roi_heads import RoIHeads, fastrcnn_loss

from annulus_lab.studies.detection.detection_params import DetectorParams
from annulus_lab.studies.detection.levels import Levels
from annulus_lab.studies.detection.roi_align import Pool, masks_in_boxes
from annulus_lab.studies.detection.samples import Target


class Heads(RoIHeads):
    """torchvision's heads, whose mask targets come from the true masks by an aligned RoIAlign."""

    def forward(
        self,
        features: dict[str, Tensor],
        proposals: list[Tensor],
        image_shapes: list[tuple[int, int]],
        targets: list[Target] | None = None,
    ) -> tuple[list[Target], dict[str, Float[Tensor, ""]]]:
        if targets is None or not self.training or not self.has_mask():
            return super().forward(features, proposals, image_shapes, targets)
        boxes, matched, labels, offsets = self.select_training_samples(proposals, targets)
        pooled = self.box_head(self.box_roi_pool(features, boxes, image_shapes))
        class_loss, box_loss = fastrcnn_loss(*self.box_predictor(pooled), labels, offsets)
        objects = [own > 0 for own in labels]
        boxes, matched, labels = (
            [own[some] for own, some in zip(parts, objects, strict=True)] for parts in (boxes, matched, labels)
        )
        logits = self.mask_predictor(self.mask_head(self.mask_roi_pool(features, boxes, image_shapes)))
        masks = [target["masks"] for target in targets]
        truth = [masks_in_boxes(*parts, logits.shape[-1]) for parts in zip(masks, matched, boxes, strict=True)]
        masks_loss = mask_loss(logits, torch.cat(truth), torch.cat(labels))
        return [], {"loss_classifier": class_loss, "loss_box_reg": box_loss, "loss_mask": masks_loss}


def mask_loss(
    logits: Float[Tensor, "n c p p"], truth: Float[Tensor, "n p p"], labels: Int64[Tensor, " n"]
) -> Float[Tensor, ""]:
    """Mean binary cross-entropy, in nats, of the masks of the true classes; 0 without boxes.

    Source: He et al. 2017, arXiv:1703.06870, Section 3.
    """
    if len(truth) == 0:
        return logits.sum() * 0
    own = logits[torch.arange(len(labels), device=labels.device), labels]
    return F.binary_cross_entropy_with_logits(own, truth)


class StageHead(nn.Module):
    """Stage of the backbone as a head: its map of a box's features, or for classes the map's mean."""

    def __init__(self, stage: nn.Module, mean: bool) -> None:
        super().__init__()
        self.stage, self.mean = stage, mean

    def forward(self, features: Float[Tensor, "n c y x"]) -> Tensor:
        maps = self.stage(features)
        return maps.mean(dim=(2, 3)) if self.mean else maps


def build_heads(levels: Levels, params: DetectorParams, width: int, classes: int, points: int) -> Heads:
    """Builds the heads on maps of `width` channels; keypoints need a pyramid."""
    pyramid = params.neck == "fpn"
    strides = levels.strides[params.skipped :] if pyramid else levels.strides[-2:-1]
    modules: dict[str, nn.Module] = {}
    if pyramid:
        box_head, box_width = _box_head(params, width)
        if params.outputs == "masks":
            modules["mask_roi_pool"] = Pool(strides, 2 * params.box_size)
            layers = (params.mask_width,) * params.mask_convolutions
            norm = nn.BatchNorm2d if params.normalisation == "batch" else None
            modules["mask_head"] = MaskRCNNHeads(width, layers, 1, norm) if layers else nn.Identity()
            mask_channels = params.mask_width if layers else width
    else:
        stage, mask_channels = levels.stages[-1], levels.channels[-1]
        box_head, box_width = StageHead(stage, mean=True), mask_channels
        if params.outputs == "masks":
            modules |= {"mask_roi_pool": Pool(strides, 2 * params.box_size), "mask_head": StageHead(stage, mean=False)}
    if params.outputs == "masks":
        modules["mask_predictor"] = MaskRCNNPredictor(mask_channels, params.mask_width, classes + 1)
    if params.outputs == "keypoints":
        layers = (params.keypoint_width,) * params.keypoint_convolutions
        modules["keypoint_roi_pool"] = Pool(strides, 2 * params.box_size)
        modules["keypoint_head"] = KeypointRCNNHeads(width, layers) if layers else nn.Identity()
        modules["keypoint_predictor"] = KeypointRCNNPredictor(params.keypoint_width if layers else width, points)
    return Heads(
        Pool(strides, params.box_size if pyramid else 2 * params.box_size),
        box_head,
        FastRCNNPredictor(box_width, classes + 1),
        fg_iou_thresh=0.5,
        bg_iou_thresh=0.5,
        batch_size_per_image=params.sampled_boxes,
        positive_fraction=0.25,
        bbox_reg_weights=None,
        score_thresh=params.score_threshold,
        nms_thresh=0.5,
        detections_per_img=params.detections,
        **modules,
    )


def _box_head(params: DetectorParams, width: int) -> tuple[nn.Module, int]:
    """Head of two linear layers, or of convolutions and one linear layer; and its width."""
    if params.box_convolutions == 0:
        return TwoMLPHead(width * params.box_size**2, params.box_width), params.box_width
    norm = nn.BatchNorm2d if params.normalisation == "batch" else None
    layers = [params.pyramid_width] * params.box_convolutions
    size = (width, params.box_size, params.box_size)
    return FastRCNNConvFCHead(size, layers, [params.box_width], norm), params.box_width
