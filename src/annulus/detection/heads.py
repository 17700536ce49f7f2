"""The heads that look at each box: class and box, mask, keypoints.

With a pyramid they are small networks of their own. With C4 the backbone's last stage is the head of boxes and masks.
"""

from jaxtyping import Float
from torch import Tensor, nn
from torchvision.models.detection.faster_rcnn import FastRCNNConvFCHead, FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.keypoint_rcnn import KeypointRCNNHeads, KeypointRCNNPredictor
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.roi_heads import RoIHeads

from annulus.detection.levels import Levels
from annulus.detection.params import DetectorParams
from annulus.detection.roi_align import Pool
from annulus.errors import InputError


class StageHead(nn.Module):
    """A stage of the backbone as a head: of each box's features the stage's map, or for classes its mean."""

    def __init__(self, stage: nn.Module, mean: bool) -> None:
        super().__init__()
        self.stage, self.mean = stage, mean

    def forward(self, features: Float[Tensor, "n c y x"]) -> Tensor:
        maps = self.stage(features)
        return maps.mean(dim=(2, 3)) if self.mean else maps


def build_heads(levels: Levels, params: DetectorParams, width: int, classes: int, points: int) -> RoIHeads:
    """The heads on maps of `width` channels.

    Raises:
        InputError: for keypoints without a pyramid, which no paper has.
    """
    pyramid = params.neck == "fpn"
    strides = levels.strides[params.skipped :] if pyramid else levels.strides[-2:-1]
    found: dict[str, nn.Module] = {}
    if pyramid:
        box_head, box_width = _box_head(params, width)
        if params.outputs == "masks":
            found["mask_roi_pool"] = Pool(strides, 2 * params.box_size)
            layers = (params.mask_width,) * params.mask_convolutions
            norm = nn.BatchNorm2d if params.normalisation == "batch" else None
            found["mask_head"] = MaskRCNNHeads(width, layers, 1, norm) if layers else nn.Identity()
            of_mask = params.mask_width if layers else width
    else:
        stage, of_mask = levels.stages[-1], levels.channels[-1]
        box_head, box_width = StageHead(stage, mean=True), of_mask
        if params.outputs == "masks":
            found |= {"mask_roi_pool": Pool(strides, 2 * params.box_size), "mask_head": StageHead(stage, mean=False)}
    if params.outputs == "masks":
        found["mask_predictor"] = MaskRCNNPredictor(of_mask, params.mask_width, classes + 1)
    if params.outputs == "keypoints":
        if not pyramid:
            raise InputError("outputs: keypoints with neck: c4 is not built; take neck: fpn")
        layers = (params.keypoint_width,) * params.keypoint_convolutions
        found["keypoint_roi_pool"] = Pool(strides, 2 * params.box_size)
        found["keypoint_head"] = KeypointRCNNHeads(width, layers) if layers else nn.Identity()
        found["keypoint_predictor"] = KeypointRCNNPredictor(params.keypoint_width if layers else width, points)
    return RoIHeads(
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
        **found,
    )


def _box_head(params: DetectorParams, width: int) -> tuple[nn.Module, int]:
    """Two linear layers, or convolutions and one linear layer."""
    if params.box_convolutions == 0:
        return TwoMLPHead(width * params.box_size**2, params.box_width), params.box_width
    norm = nn.BatchNorm2d if params.normalisation == "batch" else None
    layers = [params.pyramid_width] * params.box_convolutions
    size = (width, params.box_size, params.box_size)
    return FastRCNNConvFCHead(size, layers, [params.box_width], norm), params.box_width
