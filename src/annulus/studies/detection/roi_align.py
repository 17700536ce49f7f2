"""RoIAlign in its aligned form, as Detectron2 has it, with a backward of matrix products on the CPU.

A map's value stands at the middle of its place, half a place from its edge: a box at x pixels begins at x * scale - 0.5
in the map. torchvision's detectors leave that half out, and count boxes of less than a place as one. A bin is the mean
of four samples (Detectron2: of one a place, rounded up), and a sample is bilinear in the rows and the columns, so a bin
is rows' weights times the map times columns' weights. torchvision's backward adds each sample's share to four places,
one by one; with small maps two dense products take a tenth of its time.
"""

from typing import Any

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torchvision.ops import MultiScaleRoIAlign, roi_align
from torchvision.ops.poolers import LevelMapper

SAMPLES = 2  # a side of each bin
DENSE_PLACES = 100 * 100  # of a map; above some 130 a side torchvision's backward is the faster one


class Pool(MultiScaleRoIAlign):
    """torchvision's pooling, aligned, with the strides that are known; it guesses them from its first batch.

    Source: Lin et al. 2016, arXiv:1612.03144, Eq. 1 (a box of 224 pixels is read at stride 16).
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
    """torchvision's `roi_align` with `aligned`, `bins` a side, of (place of an image, box in pixels).

    `scale`: places per pixel. Of a map whose value is its column, at stride 4, two bins of a box from 8 to 40 pixels
    hold 3.5 and 7.5: the middles of its halves lie at 16 and 32 pixels, which are 4 and 8 places from the edge.
    """
    if maps.is_cuda or not maps.requires_grad or maps.shape[2] * maps.shape[3] > DENSE_PLACES:
        return roi_align(maps, rois, bins, scale, SAMPLES, aligned=True)
    return _Aligned.apply(maps, rois, bins, scale)


def masks_in_boxes(
    masks: UInt8[Tensor, "m h w"], rows: Int64[Tensor, " n"], boxes: Float[Tensor, "n 4"], side: int
) -> Float[Tensor, "n side side"]:
    """The share of each bin of a box that one of the masks covers, by an aligned RoIAlign of samples in every pixel.

    torchvision's own `project_masks_on_boxes` reads them half a pixel further, so that detectors learn masks, which
    torchvision pastes at the right place, 0.4 pixels too far to the left and above.
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
        # A product for each box spreads the columns, then one for each image sums its boxes' rows.
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
    # Bilinear: a sample at the border or up to one place beyond it is the border's, one further away is 0.
    near = (1 - (at.clamp(0, size - 1)[..., None] - torch.arange(size)).abs()).clamp(min=0)
    inside = (at >= -1) & (at <= size)
    return (near * inside[..., None]).view(len(first), bins, SAMPLES, size).mean(dim=2)
