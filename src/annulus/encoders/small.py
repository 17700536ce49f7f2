"""3 x 3 convolutions of maps of one or two pixels a side, exact and without the taps that meet only padding.

In a map of 1 x 1, eight of nine taps multiply zeros, in 2 x 2 five of nine. A CPU's convolutions are slow there: they
take most of a ResNet-18's time at 32 px with the ImageNet stem. Here each output pixel is a sum of matrix products of
the existing pixels with the taps that meet them, both read in place.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

MOST = 2  # pixels a side


class SmallMapConv2d(nn.Conv2d):
    """A convolution with kernel 3, padding 1, stride 1 or 2, without bias: `nn.Conv2d`, but faster for small maps."""

    def forward(self, maps: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o y x"]:
        if maps.device.type != "cpu" or max(maps.shape[2:]) > MOST:
            return super().forward(maps)
        weight = self.weight
        if torch.is_autocast_enabled("cpu"):
            lower = torch.get_autocast_dtype("cpu")
            maps, weight = maps.to(lower), weight.to(lower)
        return _SmallMap.apply(maps, weight, self.stride[0])


def for_small_maps(network: nn.Module) -> None:
    """Replaces the convolutions that `SmallMapConv2d` can compute; weights and names stay."""
    for module in network.modules():
        for name, conv in list(module.named_children()):
            if type(conv) is nn.Conv2d and _can_stand_for(conv):
                sizes = conv.in_channels, conv.out_channels, conv.kernel_size
                new = SmallMapConv2d(*sizes, stride=conv.stride, padding=conv.padding, bias=False, device="meta")
                new.weight = conv.weight
                setattr(module, name, new)


def _can_stand_for(conv: nn.Conv2d) -> bool:
    shape = conv.kernel_size, conv.padding, conv.dilation, conv.groups, conv.padding_mode
    plain = shape == ((3, 3), (1, 1), (1, 1), 1, "zeros")
    return plain and conv.bias is None and conv.stride in ((1, 1), (2, 2))


class _SmallMap(torch.autograd.Function):
    """The convolution as a function of autograd, channels last in memory: neighbouring pixels are one long row."""

    @staticmethod
    def forward(context, maps: Tensor, weight: Tensor, stride: int) -> Tensor:
        context.save_for_backward(maps, weight)  # not copies, so a second derivative reaches them
        maps, taps = _pixels(maps), _pixels(weight)
        count, height, width, _ = maps.shape
        out = maps.new_zeros(count, -(-height // stride), -(-width // stride), len(taps))
        for (y, x), row, met in _products(height, width, stride):
            out[:, y, x].addmm_(maps[:, row].flatten(1), taps[met].flatten(1).t())
        context.stride = stride
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        maps, taps, gradient = map(_pixels, (*context.saved_tensors, gradient))
        maps_gradient, taps_gradient = torch.zeros_like(maps), torch.zeros_like(taps)
        for (y, x), row, met in _products(*maps.shape[1:3], context.stride):
            maps_gradient[:, row].flatten(1).addmm_(gradient[:, y, x], taps[met].flatten(1))
            taps_gradient[met].flatten(1).addmm_(gradient[:, y, x].t(), maps[:, row].flatten(1))
        return maps_gradient.permute(0, 3, 1, 2), taps_gradient.permute(0, 3, 1, 2), None


def _pixels(tensor: Float[Tensor, "n c h w"]) -> Float[Tensor, "n h w c"]:
    return tensor.permute(0, 2, 3, 1).contiguous()


def _products(height: int, width: int, stride: int) -> Iterator[tuple[tuple[int, int], int, tuple]]:
    """Yields pairs of an output pixel and a row of the map, with the index of the taps (o, 3, 3, i) that meet the row.

    A row of pixels is one piece of memory, and so are one output channel's taps for it: flattening copies nothing.
    """
    for y in range(0, height, stride):
        for x in range(0, width, stride):
            for row in range(height):
                yield (y // stride, x // stride), row, (slice(None), 1 + row - y, slice(1 - x, 1 - x + width))
