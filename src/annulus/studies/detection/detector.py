"""torchvision's detection modules around the levels of an encoder: Faster, Mask and Keypoint R-CNN, with FPN or C4.

A frozen backbone sees each image by itself, so its maps do not depend on the batch and can be kept.
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

from annulus.studies.detection.heads import build_heads
from annulus.studies.detection.levels import Levels, Planes
from annulus.studies.detection.params import DetectorParams
from annulus.studies.detection.samples import Sample, Target

RATIOS = (0.5, 1.0, 2.0)  # height to width of the anchors


class Read(NamedTuple):
    """An image at the layers behind a frozen backbone; with a trained backbone, `maps` holds only its planes."""

    maps: list[Float[Tensor, "c y x"]]
    size: tuple[int, int]  # height and width in pixels, resized and not padded
    target: Target


class Inputs(GeneralizedRCNNTransform):
    """torchvision's resizing, with the encoder's own planes in place of its normalisation. Padding is 0 after it."""

    def __init__(self, planes: Planes, params: DetectorParams, divisor: int) -> None:
        super().__init__(tuple(params.shorter), params.longer, [], [], size_divisible=divisor)
        self.planes, self.shorter_test = planes, params.shorter_test

    def normalize(self, image: Float[Tensor, "3 h w"]) -> Float[Tensor, "k h w"]:
        return self.planes(image[None])[0]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        """In training one of the sizes, drawn from torch's own generator, which `fit` has seeded."""
        kept = self.min_size
        self.min_size = kept if self.training else (self.shorter_test,)
        resized = super().resize(image, target)
        self.min_size = kept
        return resized

    def torch_choice(self, sizes: Sequence[int]) -> int:
        """No draw among one size: an image whose maps are kept leaves the draws of its step as they are."""
        return sizes[0] if len(sizes) == 1 else super().torch_choice(sizes)


class Anchors(AnchorGenerator):
    """torchvision's anchors on maps of known strides.

    It takes an image's side over its map's, rounded down: of a pyramid's last map, which halves an odd one, too little.
    """

    def __init__(self, sizes: Sequence[Sequence[int]], strides: Sequence[int]) -> None:
        """`sizes` of the anchors on each map, in pixels."""
        super().__init__(tuple(map(tuple, sizes)), (RATIOS,) * len(sizes))
        self.strides = strides

    def grid_anchors(self, grid_sizes: list[Sequence[int]], strides: list[list[Tensor]]) -> list[Float[Tensor, "_ 4"]]:
        return super().grid_anchors(grid_sizes, [[stride, stride] for stride in self.strides])


class Detector(nn.Module):
    """Backbone, neck, proposals and heads. The backbone's modules are `levels`, everything else learns."""

    def __init__(self, levels: Levels, params: DetectorParams, classes: int, points: int) -> None:
        """`classes` without the background; `points` of a person, 0 where no keypoints are asked for.

        Raises:
            InputError: when the anchors are not one for each map of the pyramid.
        """
        super().__init__()
        self.levels, self.params = levels, params
        levels.stages.requires_grad_(not params.frozen)
        pyramid = params.neck == "fpn"
        # Of which stages the maps are read: those of the pyramid, or of C4 the last but one. C4's last stage sees boxes
        # alone: whole images would move its statistics of batch normalisation.
        self.end, self.used = (None, slice(params.skipped, None)) if pyramid else (-1, slice(-1, None))
        strides, channels = (each[: self.end][self.used] for each in (levels.strides, levels.channels))
        params.check_anchors(strides)
        self.transform = Inputs(levels.planes, params, divisor=max(levels.strides))
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
        """A frozen backbone stays in evaluation: statistics of batch normalisation do not move."""
        super().train(mode)
        if self.params.frozen:
            self.levels.eval()
        return self

    def read(self, sample: Sample) -> Read:
        """One image resized, and its maps where the backbone is frozen."""
        device = next(self.levels.stages.parameters()).device
        target = {name: tensor.to(device) for name, tensor in sample.target.items()}
        images, (target,) = self.transform([sample.image.to(device)], [target])
        if not self.params.frozen:
            return Read([images.tensors[0]], images.image_sizes[0], target)
        with torch.no_grad():
            maps = self.levels.maps_from_planes(images.tensors, self.end)[self.used]
        return Read([one[0] for one in maps], images.image_sizes[0], target)

    def losses(self, batch: Sequence[Read]) -> dict[str, Float[Tensor, ""]]:
        """Each loss of a batch, in nats or without unit, as torchvision's modules give them; their sum is minimised."""
        maps, images = self._maps(batch)
        targets = [read.target for read in batch]
        proposals, of_proposals = self.rpn(images, maps, targets)
        _, of_heads = self.heads(maps, proposals, images.image_sizes, targets)
        return {**of_proposals, **of_heads}

    def detect(self, batch: Sequence[Read], sizes: Sequence[tuple[int, int]]) -> list[Target]:
        """Detections in each image, in the pixels of its file, whose heights and widths are `sizes`."""
        maps, images = self._maps(batch)
        proposals, _ = self.rpn(images, maps)
        detections, _ = self.heads(maps, proposals, images.image_sizes)
        return self.transform.postprocess(detections, images.image_sizes, list(sizes))

    def _maps(self, batch: Sequence[Read]) -> tuple[dict[str, Tensor], ImageList]:
        """The neck's maps by name, and the images' sizes, with a map in place of the pixels, which nothing reads."""
        stacked = [_stacked(level) for level in zip(*(read.maps for read in batch), strict=True)]
        sizes = [read.size for read in batch]
        if not self.params.frozen:
            stacked = self.levels.maps_from_planes(stacked[0], self.end)[self.used]
        named = {str(place): level for place, level in enumerate(stacked)}
        return (named if self.fpn is None else self.fpn(named)), ImageList(stacked[0], sizes)


def _stacked(maps: Sequence[Float[Tensor, "c _ _"]]) -> Float[Tensor, "b c y x"]:
    """Maps of several images as one batch, smaller ones padded with 0 below and to the right."""
    height, width = (max(one.shape[side] for one in maps) for side in (1, 2))
    return torch.stack([F.pad(one, (0, width - one.shape[2], 0, height - one.shape[1])) for one in maps])
