"""RoIAlign's backward on one core beside torchvision's, for maps of several sizes: products against scattered sums."""

import torch
from timing import medians, write
from torchvision.ops import roi_align

from annulus.device.rng import generator
from annulus_lab.studies.detection.roi_align import SAMPLES, aligned

SIDES = (12, 24, 50, 100)  # places of a map: two of the demo, two of larger pictures
IMAGES, CHANNELS, BOXES, BINS = 4, 64, 256, 7
PIXELS = 800  # of a picture
TURNS = 5


def main() -> None:
    torch.set_num_threads(1)
    random = generator(0, "boxes")
    corners = torch.rand(BOXES, 2, 2, generator=random).mul(PIXELS).sort(dim=1).values.flatten(1)
    rois = torch.cat([torch.randint(IMAGES, (BOXES, 1), generator=random), corners], dim=1)
    numbers = {}
    for side in SIDES:
        maps = torch.randn(IMAGES, CHANNELS, side, side, generator=random, requires_grad=True)
        scale = side / PIXELS
        pooled = {
            "ours": aligned(maps, rois, BINS, scale),
            "torchvision": roi_align(maps, rois, BINS, scale, SAMPLES, aligned=True),
        }
        upstream = torch.randn(pooled["ours"].shape, generator=random)
        seconds = medians({name: backward(one, maps, upstream) for name, one in pooled.items()}, TURNS)
        numbers[f"roi_align_backward_over_torchvision_{side}"] = seconds["torchvision"] / seconds["ours"]
    write("detection", torch.device("cpu"), **numbers, images=IMAGES, channels=CHANNELS, boxes=BOXES, bins=BINS)


def backward(pooled: torch.Tensor, maps: torch.Tensor, upstream: torch.Tensor):
    return lambda: torch.autograd.grad(pooled, maps, upstream, retain_graph=True)


if __name__ == "__main__":
    main()
