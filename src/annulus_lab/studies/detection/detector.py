"""torchvision's detection modules around the levels of an encoder: Faster, Mask and Keypoint R-CNN, with FPN or C4.

A frozen backbone processes each image alone. So its maps do not depend on the batch, and can be kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import FeaturePyramidNetwork
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

from annulus_lab.studies.detection.detection_params import DetectorParams
from annulus_lab.studies.detection.heads import build_heads
from annulus_lab.studies.detection.levels import InputPlanes, Levels
from annulus_lab.studies.detection.samples import Sample, Target

RATIOS = (0.5, 1.0, 2.0)  # height to width of the anchors


class DetectorInput(NamedTuple):
    """Input of the layers after a frozen backbone; with a trained backbone, `maps` holds only the image's planes."""

    maps: list[Float[Tensor, "c y x"]]
    size: tuple[int, int]  # height and width in pixels, resized, without padding
    target: Target


class InputTransform(GeneralizedRCNNTransform):
    """torchvision's resizing, with the encoder's own planes in place of its normalisation. Padding is 0 after it."""

    def __init__(self, planes: InputPlanes, params: DetectorParams, divisor: int) -> None:
        super().__init__(tuple(params.shorter), params.longer, [], [], size_divisible=divisor)
        self.planes, self.shorter_test = planes, params.shorter_test

    def normalize(self, image: Float[Tensor, "3 h w"]) -> Float[Tensor, "k h w"]:
        return self.planes(image[None])[0]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        """Resizes an image: in training to one of the sizes, drawn from torch's own generator, which `fit` seeds."""
        train_sizes = self.min_size
        self.min_size = train_sizes if self.training else (self.shorter_test,)
        resized = super().resize(image, target)
        self.min_size = train_sizes
        return resized

    def torch_choice(self, sizes: Sequence[int]) -> int:
        """Draws no number for a single size, so that images with kept maps do not change the draws of a step."""
        return sizes[0] if len(sizes) == 1 else super().torch_choice(sizes)


class Anchors(AnchorGenerator):
    """torchvision's anchors on maps of known strides.

    torchvision's own stride is the image's side over the map's, rounded down. It is too small for a pyramid's last map,
    which halves an odd side.
    """

    def __init__(self, sizes: Sequence[Sequence[int]], strides: Sequence[int]) -> None:
        """`sizes` of the anchors on each map, in pixels."""
        super().__init__(tuple(map(tuple, sizes)), (RATIOS,) * len(sizes))
        self.strides = strides

    def grid_anchors(self, grid_sizes: list[Sequence[int]], strides: list[list[Tensor]]) -> list[Float[Tensor, "_ 4"]]:
        return super().grid_anchors(grid_sizes, [[stride, stride] for stride in self.strides])


class Detector(nn.Module):
    """Backbone, neck, proposals and heads. The backbone's modules are `levels`; all other modules always learn."""

    def __init__(self, levels: Levels, params: DetectorParams, classes: int, points: int) -> None:
        """`classes`: without the background; `points`: keypoints of a person, 0 for none.

        Raises:
            InputError: when a pyramid does not have one anchor size for each map.
        """
        super().__init__()
        self.levels, self.params = levels, params
        levels.stages.requires_grad_(not params.frozen)
        pyramid = params.neck == "fpn"
        # Stages whose maps are read: the pyramid's, or the last but one for C4. C4's last stage gets only boxes: whole
        # images would change its statistics of batch normalisation.
        self.end, self.used = (None, slice(params.skipped, None)) if pyramid else (-1, slice(-1, None))
        strides, channels = (values[: self.end][self.used] for values in (levels.strides, levels.channels))
        params.check_anchors(strides)
        self.transform = InputTransform(levels.planes, params, divisor=max(levels.strides))
        norm = nn.BatchNorm2d if params.normalisation == "batch" else None
        width = params.pyramid_width if pyramid else channels[0]
        self.fpn = FeaturePyramidNetwork(list(channels), width, LastLevelMaxPool(), norm) if pyramid else None
        sizes = [[size] for size in params.anchors] if pyramid else [params.anchors]
        anchors = Anchors(sizes, (*strides, 2 * strides[-1]) if pyramid else strides)
        (before, after), (before_test, after_test) = params.proposals_train, params.proposals_test
        self.rpn = RegionProposalNetwork(
            anchors,
            RPNHead(width, anchors.num_anchors_per_location()[0]),
            fg_iou_thresh=0.7,
            bg_iou_thresh=0.3,
            batch_size_per_image=params.sampled_anchors,
            positive_fraction=0.5,
            pre_nms_top_n={"training": before, "testing": before_test},
            post_nms_top_n={"training": after, "testing": after_test},
            nms_thresh=0.7,
        )
        self.heads = build_heads(levels, params, width, classes, points)

    def train(self, mode: bool = True) -> "Detector":
        """Sets the mode; a frozen backbone stays in evaluation, so that its batch-norm statistics do not change."""
        super().train(mode)
        if self.params.frozen:
            self.levels.eval()
        return self

    def read(self, sample: Sample) -> DetectorInput:
        """Resizes one image, and computes its maps if the backbone is frozen."""
        device = next(self.levels.stages.parameters()).device
        target = {name: tensor.to(device) for name, tensor in sample.target.items()}
        images, (target,) = self.transform([sample.image.to(device)], [target])
        if not self.params.frozen:
            return DetectorInput([images.tensors[0]], images.image_sizes[0], target)
        with torch.no_grad():
            maps = self.levels.maps_from_planes(images.tensors, self.end)[self.used]
        return DetectorInput([one[0] for one in maps], images.image_sizes[0], target)

    def losses(self, batch: Sequence[DetectorInput]) -> dict[str, Float[Tensor, ""]]:
        """Losses of a batch by torchvision's names, in nats or without unit; training minimises their sum."""
        maps, images = self._maps(batch)
        targets = [read.target for read in batch]
        proposals, proposal_losses = self.rpn(images, maps, targets)
        _, head_losses = self.heads(maps, proposals, images.image_sizes, targets)
        return {**proposal_losses, **head_losses}

    def detect(self, batch: Sequence[DetectorInput], sizes: Sequence[tuple[int, int]]) -> list[Target]:
        """Detections in each image, in the pixels of its file; `sizes`: heights and widths of the files."""
        maps, images = self._maps(batch)
        proposals, _ = self.rpn(images, maps)
        detections, _ = self.heads(maps, proposals, images.image_sizes)
        return self.transform.postprocess(detections, images.image_sizes, list(sizes))

    def _maps(self, batch: Sequence[DetectorInput]) -> tuple[dict[str, Tensor], ImageList]:
        """Maps of the neck by name, and the images' sizes with a map in place of the unused pixels."""
        stacked = [_stacked(level) for level in zip(*(read.maps for read in batch), strict=True)]
        sizes = [read.size for read in batch]
        if not self.params.frozen:
            stacked = self.levels.maps_from_planes(stacked[0], self.end)[self.used]
        by_name = {str(place): level for place, level in enumerate(stacked)}
        return (by_name if self.fpn is None else self.fpn(by_name)), ImageList(stacked[0], sizes)


def _stacked(maps: Sequence[Float[Tensor, "c _ _"]]) -> Float[Tensor, "b c y x"]:
    """Batch of the maps of several images; smaller maps are padded with 0 below and to the right."""
    height, width = (max(one.shape[side] for one in maps) for side in (1, 2))
    return torch.stack([F.pad(one, (0, width - one.shape[2], 0, height - one.shape[1])) for one in maps])
