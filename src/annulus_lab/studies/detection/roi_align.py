"""RoIAlign in Detectron2's aligned form, with a backward of matrix products on the CPU.

A map's value stands at the middle of its place, half a place from the edge: a box at x pixels begins at x * scale - 0.5
in the map. torchvision's detectors leave out that half, and enlarge boxes of less than a place to one. A bin is the
mean of four samples (Detectron2: one sample a place, rounded up). A sample is bilinear in the rows and the columns, so
a bin is rows' weights times the map times columns' weights. torchvision's backward adds each sample's share to four
places, one by one. With small maps two dense products take a tenth of its time.
"""

from typing import Any

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torchvision.ops import MultiScaleRoIAlign, roi_align
from torchvision.ops.poolers import LevelMapper

SAMPLES = 2  # a side of each bin
DENSE_PLACES = 100 * 100  # of a map; torchvision's backward is faster above about 130 a side


class Pool(MultiScaleRoIAlign):
    """torchvision's pooling, aligned, with known strides; torchvision guesses them from its first batch.

    Source: Lin et al. 2016, arXiv:1612.03144, Eq. 1 (a box of 224 pixels has the level of stride 16).
    """

    def __init__(self, strides: tuple[int, ...], size: int) -> None:
        super().__init__([str(place) for place in range(len(strides))], size, sampling_ratio=SAMPLES)
        self.scales = [1 / stride for stride in strides]
        first, last = (stride.bit_length() - 1 for stride in (strides[0], strides[-1]))
        self.map_levels = LevelMapper(first, last, canonical_scale=224, canonical_level=4, eps=1e-6)

    def forward(
        self, x: dict[str, Tensor], boxes: list[Float[Tensor, "_ 4"]], image_shapes: list[tuple[int, int]]
    ) -> Float[Tensor, "n c p p"]:
        """Features of the maps in each image's boxes (left, top, right, bottom in pixels), one image after another."""
        image = torch.cat([torch.full_like(own[:, :1], place) for place, own in enumerate(boxes)])
        rois = torch.cat([image, torch.cat(boxes)], dim=1)
        bins, maps = self.output_size[0], [x[name] for name in self.featmap_names]
        if len(maps) == 1:
            return aligned(maps[0], rois, bins, self.scales[0])
        levels = self.map_levels(boxes)
        pooled = maps[0].new_zeros(len(rois), maps[0].shape[1], bins, bins)
        for level, (features, scale) in enumerate(zip(maps, self.scales, strict=True)):
            mine = (levels == level).nonzero()[:, 0]
            pooled[mine] = aligned(features, rois[mine], bins, scale)
        return pooled


def aligned(
    maps: Float[Tensor, "b c h w"], rois: Float[Tensor, "n 5"], bins: int, scale: float
) -> Float[Tensor, "n c p p"]:
    """Computes torchvision's `roi_align` with `aligned`, `bins` a side, for rows of (image, box in pixels).

    `scale`: places per pixel. An example at stride 4: each value of the map is its column. Two bins of a box from 8 to
    40 pixels hold 3.5 and 7.5. The middles of the box's halves lie at 16 and 32 pixels: 4 and 8 places from the edge.
    """
    if maps.is_cuda or not maps.requires_grad or maps.shape[2] * maps.shape[3] > DENSE_PLACES:
        return roi_align(maps, rois, bins, scale, SAMPLES, aligned=True)
    return _Aligned.apply(maps, rois, bins, scale)


def masks_in_boxes(
    masks: UInt8[Tensor, "m h w"], rows: Int64[Tensor, " n"], boxes: Float[Tensor, "n 4"], side: int
) -> Float[Tensor, "n side side"]:
    """Share of each bin of a box that its mask covers, by an aligned RoIAlign with samples in every pixel.

    torchvision's own `project_masks_on_boxes` reads masks half a pixel further. Since torchvision pastes masks at the
    right place, its detectors learn masks that lie 0.4 pixels too far to the left and above.
    """
    rois = torch.cat([rows[:, None].to(boxes), boxes], dim=1)
    return roi_align(masks[:, None].to(boxes), rois, side, 1.0, aligned=True)[:, 0]


class _Aligned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, rois: Tensor, bins: int, scale: float) -> Tensor:
        ctx.save_for_backward(rois)
        ctx.shape, ctx.bins, ctx.scale = maps.shape, bins, scale
        return roi_align(maps, rois, bins, scale, SAMPLES, aligned=True)

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, "n c p p"]) -> tuple[Tensor, None, None, None]:
        (rois,), (images, channels, height, width), bins = ctx.saved_tensors, ctx.shape, ctx.bins
        image = rois[:, 0].long()
        order = image.argsort()
        left, top, right, bottom = (rois[order, 1:] * ctx.scale - 0.5).unbind(1)
        rows, columns = _weights(top, bottom, bins, height), _weights(left, right, bins, width)
        # A product for each box spreads the columns. Then a product for each image sums the rows of its boxes.
        by_row = gradient[order].transpose(1, 2).reshape(-1, bins * channels, bins)
        spread = torch.bmm(by_row, columns).view(-1, channels * width)
        counts = (bins * torch.bincount(image, minlength=images)).tolist()
        own = zip(rows.view(-1, height).split(counts), spread.split(counts), strict=True)
        summed = torch.stack([weights.T @ share for weights, share in own])
        return summed.view(images, height, channels, width).transpose(1, 2), None, None, None


def _weights(first: Float[Tensor, " n"], last: Float[Tensor, " n"], bins: int, size: int) -> Float[Tensor, "n p size"]:
    """Weight of each of a map's rows (or columns) in each bin between two edges."""
    step = (last - first) / (SAMPLES * bins)
    at = first[:, None] + step[:, None] * (torch.arange(SAMPLES * bins) + 0.5)
    # Bilinear: a sample up to one place beyond the border has the border's value; a sample further away is 0.
    near = (1 - (at.clamp(0, size - 1)[..., None] - torch.arange(size)).abs()).clamp(min=0)
    inside = (at >= -1) & (at <= size)
    return (near * inside[..., None]).view(len(first), bins, SAMPLES, size).mean(dim=2)
