"""RoIAlign with a backward of matrix products, beside torchvision's own."""

import pytest
import torch
from torchvision.ops import MultiScaleRoIAlign, roi_align

from annulus.detection import roi_align as ours
from annulus.detection.roi_align import SAMPLES, Pool, aligned


def boxes_on(size: float, generator: torch.Generator) -> torch.Tensor:
    """Boxes of images that have `size` pixels a side: many, and those at the edges of what is defined."""
    corners = torch.rand(40, 2, 2, generator=generator, dtype=torch.float64).sort(dim=1).values * size
    odd = [
        [0.0, 0.0, size, size],
        [-30.0, -5.0, 4.0, 9.0],  # samples up to one place before the first one count, others do not
        [size - 3, size - 3, size + 40, size + 9],
        [7.0, 7.0, 7.0, 7.0],  # of no area
    ]
    return torch.cat([corners.flatten(1), torch.tensor(odd, dtype=torch.float64)])


@pytest.mark.parametrize(("bins", "scale", "sides"), [(5, 1 / 4, (12, 16)), (7, 1 / 8, (6, 8)), (1, 1.0, (48, 64))])
def test_maps_and_gradients_are_torchvisions(bins, scale, sides, generator):
    maps = torch.randn(3, 4, *sides, generator=generator, dtype=torch.float64, requires_grad=True)
    boxes = boxes_on(56, generator)
    images = torch.randint(0, 2, (len(boxes), 1), generator=generator)  # none of the third
    rois = torch.cat([images, boxes], dim=1)
    found, expected = aligned(maps, rois, bins, scale), roi_align(maps, rois, bins, scale, SAMPLES)
    assert torch.equal(found, expected)
    upstream = torch.randn(found.shape, generator=generator, dtype=torch.float64)
    mine, theirs = (torch.autograd.grad(pooled, maps, upstream)[0] for pooled in (found, expected))
    assert not mine[2].any()
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_a_pyramid_is_read_as_torchvision_reads_it(generator):
    maps = {str(level): torch.randn(2, 3, side, side, generator=generator) for level, side in enumerate((64, 32, 16))}
    for one in maps.values():
        one.requires_grad_()
    boxes = [boxes_on(1000, generator).float(), boxes_on(128, generator).float()[:0]]
    theirs = MultiScaleRoIAlign(list(maps), 5, SAMPLES)
    expected = theirs(maps, boxes, [(1024, 1024), (1024, 1024)])  # it reads the strides 16, 32 and 64 off the sizes
    found = Pool((16, 32, 64), 5)(maps, boxes, [(1024, 1024), (1024, 1024)])
    assert torch.equal(found, expected)
    gradients = [torch.autograd.grad(pooled.square().sum(), list(maps.values())) for pooled in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    assert all(one.any() for one in gradients[0])


def test_large_maps_and_maps_that_do_not_learn_are_torchvisions_alone(monkeypatch, generator):
    monkeypatch.setattr(ours._Aligned, "apply", lambda *_: pytest.fail("a backward of dense products"))
    rois = torch.tensor([[0.0, 1.0, 1.0, 9.0, 9.0]])
    aligned(torch.randn(1, 2, 8, 8, generator=generator), rois, 3, 1.0)
    aligned(torch.randn(1, 1, 100, 101, generator=generator, requires_grad=True), rois, 3, 1.0)
