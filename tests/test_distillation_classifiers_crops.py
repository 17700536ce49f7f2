"""Views for supervised training: crops of padded images, and flips."""

import itertools
import math

import torch

from annulus.views.batch_share import BatchShare
from annulus_lab.studies.distillation.classifiers.crops import padded_crops


def test_padded_crops_are_windows_of_the_image_in_a_black_frame(generator):
    images = torch.randint(1, 256, (6, 3, 5, 5), generator=generator, dtype=torch.uint8)
    views = padded_crops(images, 2, 0.5, torch.Generator().manual_seed(3))
    framed, places = torch.nn.functional.pad(images / 255, (2, 2, 2, 2)), []
    for frame, view in zip(framed, views, strict=True):
        windows = {
            (top, left, mirrored): frame[:, top : top + 5, left : left + 5].flip([2] if mirrored else [])
            for top, left, mirrored in itertools.product(range(5), range(5), (False, True))
        }
        places += [place for place, window in windows.items() if torch.allclose(window, view)]
    assert len(set(places)) == len(places) == 6
    assert {mirrored for *_, mirrored in places} == {False, True}
    torch.testing.assert_close(padded_crops(images, 0, 0.0, torch.Generator()), images / 255)
    rows = torch.tensor([1, 4, 5])
    assert torch.equal(
        padded_crops(images[rows], 2, 0.5, torch.Generator().manual_seed(3), BatchShare(rows, 6)), views[rows]
    )


def test_every_place_of_the_frame_is_drawn_alike():
    image = torch.zeros(1, 3, 3, 3, dtype=torch.uint8)
    image[:, :, 1, 1] = 255  # the crop moves it by -1 to 1 each way
    views = padded_crops(image.expand(9000, 3, 3, 3), 1, 0.0, torch.Generator().manual_seed(0))
    counts = views[:, 0].flatten(1).argmax(dim=1).bincount(minlength=9)
    assert (counts - 1000).abs().max() < 5 * math.sqrt(1000)  # five standard deviations
