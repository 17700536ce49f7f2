"""RoIAlign in its aligned form, beside a plain reference and torchvision's own operator; targets of masks."""

import math

import pytest
import torch
from detector_cases import detector_params, encoder, rectangles
from torchvision.models.detection.roi_heads import RoIHeads, paste_masks_in_image
from torchvision.ops import roi_align

from annulus_lab.studies.detection import roi_align as ours
from annulus_lab.studies.detection.heads import mask_loss
from annulus_lab.studies.detection.roi_align import SAMPLES, Pool, aligned, masks_in_boxes
from annulus_lab.studies.detection.samples import category_labels, read_sample
from annulus_lab.studies.detection.torchvision_engine import build_detector


def boxes_on(size: float, generator: torch.Generator) -> torch.Tensor:
    """Boxes of images with `size` pixels a side: many random ones, and edge cases."""
    corners = torch.rand(40, 2, 2, generator=generator, dtype=torch.float64).sort(dim=1).values * size
    odd = [
        [0.0, 0.0, size, size],
        [-30.0, -5.0, 4.0, 9.0],  # samples up to one place before the first one count, others do not
        [size - 3, size - 3, size + 40, size + 9],
        [7.0, 7.0, 7.0, 7.0],  # without area
    ]
    return torch.cat([corners.flatten(1), torch.tensor(odd, dtype=torch.float64)])


def plain(plane, box, bins, scale):
    """Slow and plain on purpose: values stand at the middles of places, a bin is the mean of its samples."""
    height, width = plane.shape
    left, top, right, bottom = (edge * scale for edge in box)

    def value(y, x):
        if not (-1 <= y - 0.5 <= height and -1 <= x - 0.5 <= width):
            return 0.0
        y, x = min(max(y - 0.5, 0), height - 1), min(max(x - 0.5, 0), width - 1)
        near = [(int(y), 1 - y % 1), (min(int(y) + 1, height - 1), y % 1)]
        beside = [(int(x), 1 - x % 1), (min(int(x) + 1, width - 1), x % 1)]
        return sum(a * b * plane[row, column].item() for row, a in near for column, b in beside)

    steps = [(number + 0.5) / (SAMPLES * bins) for number in range(SAMPLES * bins)]
    samples = [[value(top + v * (bottom - top), left + u * (right - left)) for u in steps] for v in steps]
    return torch.tensor(samples).view(bins, SAMPLES, bins, SAMPLES).mean(dim=(1, 3))


@pytest.mark.parametrize("learns", [True, False])
def test_a_box_on_a_ramp_of_columns_holds_what_detectron2_reads(learns):
    """The box is 8 to 40 pixels at stride 4: the middles of its halves lie 4 and 8 places from the edge of the map."""
    ramp = torch.arange(16.0).expand(1, 1, 16, 16).clone().requires_grad_(learns)
    box = torch.tensor([[8.0, 8.0, 40.0, 40.0]])
    pooled = aligned(ramp, torch.cat([torch.zeros(1, 1), box], dim=1), 2, 1 / 4)
    assert pooled.tolist() == [[[[3.5, 7.5]] * 2]]
    assert torch.equal(Pool((4,), 2)({"0": ramp}, [box], [(64, 64)]), pooled)


@pytest.mark.parametrize(("bins", "scale", "sides"), [(5, 1 / 4, (12, 16)), (7, 1 / 8, (6, 8)), (1, 1.0, (48, 64))])
def test_maps_and_gradients_are_those_of_torchvisions_operator_and_of_a_plain_reference(bins, scale, sides, generator):
    maps = torch.randn(3, 4, *sides, generator=generator, dtype=torch.float64, requires_grad=True)
    boxes = boxes_on(56, generator)
    images = torch.randint(0, 2, (len(boxes), 1), generator=generator)  # no box in the third image
    rois = torch.cat([images, boxes], dim=1)
    actual, expected = aligned(maps, rois, bins, scale), roi_align(maps, rois, bins, scale, SAMPLES, aligned=True)
    assert torch.equal(actual, expected)
    for row in range(36, len(boxes)):
        reference = plain(maps[int(images[row])][0], boxes[row].tolist(), bins, scale)
        torch.testing.assert_close(actual[row, 0].float(), reference, rtol=1e-5, atol=1e-5)
    upstream = torch.randn(actual.shape, generator=generator, dtype=torch.float64)
    mine, theirs = (torch.autograd.grad(pooled, maps, upstream)[0] for pooled in (actual, expected))
    assert not mine[2].any()
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_a_pyramid_is_read_at_the_level_of_each_box(generator):
    maps = {str(level): torch.randn(2, 3, side, side, generator=generator) for level, side in enumerate((64, 32, 16))}
    for one in maps.values():
        one.requires_grad_()
    boxes = [boxes_on(1000, generator).float(), boxes_on(128, generator).float()[:0]]
    sizes = (boxes[0][:, 2:] - boxes[0][:, :2]).prod(dim=1).sqrt().tolist()
    levels = [min(max(math.floor(4 + math.log2(size / 224 + 1e-6)), 4), 6) for size in sizes]
    assert set(levels) == {4, 5, 6}
    rois = torch.cat([torch.zeros(len(levels), 1), boxes[0]], dim=1)
    expected = torch.cat(
        [
            roi_align(maps[str(level - 4)], rois[row : row + 1], 5, 1 / 2**level, SAMPLES, aligned=True)
            for row, level in enumerate(levels)
        ]
    )
    actual = Pool((16, 32, 64), 5)(maps, boxes, [(1024, 1024), (1024, 1024)])
    assert torch.equal(actual, expected)
    gradients = [torch.autograd.grad(pooled.square().sum(), list(maps.values())) for pooled in (actual, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    assert all(one.any() for one in gradients[0])


def test_large_maps_and_maps_that_do_not_learn_are_torchvisions_alone(monkeypatch, generator):
    monkeypatch.setattr(ours._Aligned, "apply", lambda *_: pytest.fail("a backward of dense products"))
    rois = torch.tensor([[0.0, 1.0, 1.0, 9.0, 9.0]])
    aligned(torch.randn(1, 2, 8, 8, generator=generator), rois, 3, 1.0)
    aligned(torch.randn(1, 1, 100, 101, generator=generator, requires_grad=True), rois, 3, 1.0)


def test_a_mask_to_learn_is_cut_at_its_own_place_and_pasted_where_it_was(generator):
    bar = torch.zeros(1, 12, 12, dtype=torch.uint8)
    bar[:, :, 4:8] = 1
    cut = masks_in_boxes(bar, torch.tensor([0]), torch.tensor([[2.0, 2.0, 10.0, 10.0]]), 4)
    assert cut[0].tolist() == [[0, 1, 1, 0]] * 4
    middle, places = torch.arange(96) + 0.5, torch.tensor([0])
    centres = []
    for x, y, wide, high in (torch.rand(60, 4, generator=generator) * 30 + 15).tolist():
        disc = ((middle - x - 16) / wide) ** 2 + ((middle[:, None] - y - 16) / high) ** 2 < 0.25
        box = torch.tensor([[x - wide / 2, y - high / 2, x + wide / 2, y + high / 2]]) + 16
        again = (
            paste_masks_in_image(masks_in_boxes(disc[None].byte(), places, box, 14)[None], box, (96, 96))[0, 0] > 0.5
        )
        centres.append([(each.nonzero()[:, 1].float().mean()).item() for each in (again, disc)])
    again, true = torch.tensor(centres).mean(dim=0).tolist()
    assert again == pytest.approx(true, abs=0.1), "torchvision's own targets move it by 0.4 pixels"


@pytest.mark.parametrize("neck", ["fpn", "c4"])
def test_heads_learn_what_torchvisions_learn_where_half_a_pixel_changes_nothing(neck, tmp_path):
    """A mask of the whole picture is whole in every box; for other masks only the mask loss differs."""
    scenes = rectangles(tmp_path)
    anchors = {"anchors": [8, 16]} if neck == "c4" else {}
    detector = build_detector(encoder(), scenes, detector_params(outputs="masks", neck=neck, **anchors), 0).train()
    reads = [detector.read(read_sample(picture, category_labels(scenes), "masks")) for picture in scenes.pictures]
    maps, images = detector._maps(reads)
    heads, targets = detector.heads, [read.target for read in reads]
    whole = [target | {"masks": torch.ones_like(target["masks"])} for target in targets]
    losses = []
    for forward in (type(heads).forward, RoIHeads.forward):
        for some in (targets, whole):
            torch.manual_seed(0)
            boxes = [target["boxes"] + 2.5 for target in some]
            losses.append({k: v.item() for k, v in forward(heads, maps, boxes, images.image_sizes, some)[1].items()})
    ours_shifted, ours_whole, theirs_shifted, theirs_whole = losses
    assert ours_whole == pytest.approx(theirs_whole, abs=1e-6)
    assert {k for k in ours_shifted if abs(ours_shifted[k] - theirs_shifted[k]) > 1e-6} == {"loss_mask"}


def test_no_box_has_no_loss_of_masks():
    assert mask_loss(torch.zeros(0, 3, 4, 4), torch.zeros(0, 4, 4), torch.zeros(0, dtype=torch.int64)) == 0
