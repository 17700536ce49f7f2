"""The study `colour` as a user runs it, at `scale: tiny`, cut to two spaces; and its picture."""

import pytest
import torch
from checkout import Checkout, ran, rows_of

from annulus.errors import InputError
from annulus.evals.mask_pictures import SIDE, mask_sheet
from annulus.files.images import ImageSet
from annulus.files.sheets import GAP
from annulus.files.store import Resident


@pytest.mark.slow
def test_the_study_as_a_user_runs_it(tmp_path):
    checkout = Checkout(tmp_path / "annulus", "colour")
    checkout.cut(
        "colour", lambda content: content.update({"scale": "tiny", "seeds": [0, 1], "spaces": {"tiny": ["rgb", "lab"]}})
    )
    stages = ["settings", "images@labelled", "images@segmented", "pictures", "spaces"]
    assert sorted(ran(checkout.dvc("repro", study="colour"))) == sorted(stages)
    rows = rows_of(checkout.project("colour") / "metrics/spaces.csv")
    assert [row["series"] for row in rows] == ["rgb", "lab"]
    for row in rows:
        assert (row["seeds"], row["scale"]) == ("2", "tiny")
        assert 0 < float(row["mean_iou_percent"]) < float(row["pixel_accuracy_percent"]) < 100
        assert float(row["held_out_nats"]) <= float(row["held_out_ceiling_nats"])
    assert [row["mean_iou_verdict"] == "base" for row in rows] == [True, False]
    gain = float(rows[1]["mean_iou_percent"]) - float(rows[0]["mean_iou_percent"])
    assert float(rows[1]["mean_iou_gain_percent"]) == pytest.approx(gain, abs=0.011)
    changed = checkout.changed_by("colour", lambda content: content["pictures"]["tiny"].update({"columns": 3}))
    assert changed == {"pictures"}


def test_masks_lie_below_their_images(generator):
    pixels = torch.randint(256, (3, 3, 4, 4), generator=generator, dtype=torch.uint8)
    masks = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).repeat(3, 4, 1)
    images = ImageSet(Resident(pixels), torch.zeros(3, dtype=torch.int64), torch.arange(3), ("any",), masks)
    sheet = mask_sheet(images, rows=2, columns=2)
    step = SIDE + GAP
    left = sheet.width - 2 * step
    assert sheet.height == GAP + 4 * step
    assert sheet.getpixel((left, GAP)) == tuple(pixels[0, :, 0, 0].tolist())
    assert sheet.getpixel((left + SIDE - 1, GAP + 2 * step + SIDE - 1)) == tuple(pixels[2, :, 3, 3].tolist())
    colours = [sheet.getpixel((left + SIDE * (2 * n + 1) // 8, GAP + step + 1)) for n in range(4)]
    assert len(set(colours)) == 4
    assert colours[3] == (255, 255, 255)
    with pytest.raises(InputError, match="these images have no classes of their pixels to show"):
        mask_sheet(ImageSet(images.images, images.labels, images.rows, ("any",)), 1, 1)
