"""Segmentation: mean IoU against plain loops, and a decoder on toys with known answers."""

import math
from dataclasses import replace

import pytest
import torch

from annulus.device.rng import derive, first_weights
from annulus.device.rng import generator as named
from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import build_encoder
from annulus.encoders.extract import extract
from annulus.encoders.features import Features
from annulus.errors import InputError
from annulus.evals.iou import confusion, iou, mean_iou, pixel_accuracy
from annulus.evals.segmentation import Decoder, centre_masks, segment
from annulus.evals.segmentation_settings import SegmentationSettings
from annulus.files.images import IGNORED, ImageSet
from annulus.files.store import Resident

CPU = torch.device("cpu")
PARAMS = SegmentationSettings(width=16, epochs=12, batch_size=16, learning_rate=0.01)


def plain(predicted, masks):
    """Mean IoU and pixel accuracy in percent, pixel by pixel."""
    pairs = [(p, t) for p, t in zip(predicted.flatten().tolist(), masks.flatten().tolist(), strict=True) if t != 255]
    ious = []
    for label in {t for _, t in pairs}:
        both = sum(p == label and t == label for p, t in pairs)
        either = sum(p == label or t == label for p, t in pairs)
        ious.append(both / either)
    return 100 * sum(ious) / len(ious), 100 * sum(p == t for p, t in pairs) / len(pairs)


def test_mean_iou_of_hand_made_cases():
    for predicted, true, expected in (
        ([0, 1, 2, 2], [0, 1, 2, 2], 100.0),
        ([1, 2, 0, 0], [0, 1, 2, 2], 0.0),
        ([0, 0, 2, 1], [0, 0, 1, 1], 75.0),  # class 2 is absent and has no IoU, but class 1 lost a pixel
        ([0, 1, 0, 0], [0, IGNORED, IGNORED, 0], 100.0),  # all pixels of a class are ignored
    ):
        assert mean_iou(confusion(torch.tensor(predicted), torch.tensor(true), 3)) == pytest.approx(expected)


def test_a_last_batch_of_one_place_is_refused_before_any_step(generator):
    """Its batch-norm would have one number a channel; two maps, or one map of 2 x 2 places, have more."""
    for count, side, fails in ((17, 1, True), (18, 1, False), (17, 2, False)):
        maps = Features(
            {"map": torch.randn(count, 3, side, side, generator=generator)},
            torch.zeros(count, dtype=torch.int64),
            ("any",),
        )
        masks = torch.arange(count).remainder(2).byte()[:, None, None].expand(count, 8, 8)
        one_epoch = replace(PARAMS, epochs=1)
        if not fails:
            segment(maps, masks, maps, masks, one_epoch, 0, CPU)
            continue
        with pytest.raises(
            InputError, match="batch_size: 16 of 17 maps of one place leaves one map for the last batch"
        ):
            segment(maps, masks, maps, masks, one_epoch, 0, CPU)


def test_mean_iou_is_that_of_plain_loops(generator):
    masks = torch.randint(5, (3, 9, 9), generator=generator, dtype=torch.uint8)
    predicted = torch.where(torch.rand(masks.shape, generator=generator) < 0.6, masks, 4 - masks)
    masks[torch.rand(masks.shape, generator=generator) < 0.2] = IGNORED
    counts = confusion(predicted, masks, 5)
    assert (mean_iou(counts), pixel_accuracy(counts)) == pytest.approx(plain(predicted, masks))
    assert counts.sum() == (masks != IGNORED).sum()
    assert iou(counts)[3] == pytest.approx(counts[3, 3] / (counts[3].sum() + counts[:, 3].sum() - counts[3, 3]))


def toy(count, generator, size=16):
    """Maps of 4 x 4 whose second channel marks class 1, and masks: the marks, enlarged to `size`."""
    where = torch.rand(count, 4, 4, generator=generator) < 0.4
    maps = torch.randn(count, 6, 4, 4, generator=generator)
    maps[:, 1] = 100 + 3 * where
    maps[:, 2] = 7  # never varies
    masks = where.repeat_interleave(size // 4, 1).repeat_interleave(size // 4, 2).byte()
    return Features({"map": maps.half()}, torch.zeros(count, dtype=torch.int64), ("any",)), masks


@pytest.mark.usefixtures("untouched_global_randomness")
def test_the_decoder_learns_what_the_maps_say_and_nothing_where_they_are_shuffled(generator):
    (train, masks), (test, truth) = toy(200, generator), toy(50, generator)
    outcome = segment(train, masks, test, truth, PARAMS, 0, CPU)
    assert outcome.metrics["mean_iou_percent"] > 75  # corners of a map's cell are blurred
    assert outcome.metrics["mean_iou_percent"] == pytest.approx(plain(outcome.predicted, truth)[0])
    assert outcome.metrics["pixel_accuracy_percent"] == pytest.approx(plain(outcome.predicted, truth)[1])
    ious = [outcome.metrics[f"class_{number}_iou_percent"] for number in (0, 1)]
    assert sum(ious) / 2 == pytest.approx(outcome.metrics["mean_iou_percent"])
    shuffled = segment(train, masks.roll(1, dims=0), test, truth, PARAMS, 0, CPU)
    assert shuffled.metrics["mean_iou_percent"] < 45


def test_a_decoder_is_trained_as_in_a_plain_loop(generator):
    """Each epoch has its own order and rate; a batch's loss is the mean over its labelled pixels."""
    train, masks = toy(10, generator)
    masks[::3, 2:] = IGNORED  # so that batches differ in the number of labelled pixels
    settings = replace(PARAMS, width=4, epochs=3, batch_size=4)
    outcome = segment(train, masks, train, masks, settings, 0, CPU)

    maps = train.layer("map")
    flat = maps.double().transpose(0, 1).flatten(1)
    std = flat.std(dim=1, correction=0).float()
    std[2] = torch.inf  # never varies
    with first_weights(derive(0, "decoder")):
        decoder = Decoder(flat.mean(dim=1).float(), std, 4, 2)
    optimizer, losses = torch.optim.Adam(decoder.parameters()), []
    for epoch in range(3):
        optimizer.param_groups[0]["lr"], nats = 0.01 * (1 + math.cos(math.pi * epoch / 3)) / 2, []
        for rows in torch.randperm(10, generator=named(0, "decoder", epoch)).split(4):
            shares = decoder(maps[rows].float(), 16).log_softmax(dim=1)
            truth = masks[rows].long()
            own = -shares.gather(1, truth.clamp(max=1)[:, None])[:, 0][truth != IGNORED]
            optimizer.zero_grad()
            own.mean().backward()
            optimizer.step()
            nats.append(own.detach())
        losses.append(torch.cat(nats).mean().item())
    assert [row["loss_nats"] for row in outcome.history] == pytest.approx(losses, rel=1e-4)


def test_an_image_is_segmented_by_itself_whatever_others_there_are(generator):
    (train, masks), (test, truth) = toy(40, generator), toy(20, generator)
    first = replace(test, layers={"map": test.layer("map")[:1]}, labels=test.labels[:1])
    together = segment(train, masks, test, truth, PARAMS, 0, CPU).predicted
    assert torch.equal(together[:1], segment(train, masks, first, truth[:1], PARAMS, 0, CPU).predicted)


def test_the_seed_decides_and_each_channel_counts_by_its_own_scale(generator):
    """Scaling channels by powers of two changes at most 2 % of the predicted pixels."""
    (train, masks), (test, truth) = toy(40, generator), toy(20, generator)
    first, again, other = (segment(train, masks, test, truth, PARAMS, seed, CPU) for seed in (0, 0, 1))
    assert (first.metrics, first.history) == (again.metrics, again.history)
    assert first.history != other.history
    factors = torch.tensor([1.0, 1 / 16, 4, 8, 64, 1 / 2]).half().view(-1, 1, 1)
    scaled = [Features({"map": each.layer("map") * factors}, each.labels, each.classes) for each in (train, test)]
    outcome = segment(scaled[0], masks, scaled[1], truth, PARAMS, 0, CPU)
    assert (outcome.predicted == first.predicted).double().mean() > 0.98


def test_ignored_pixels_teach_nothing(generator):
    """A decoder learns without half of each mask; wrong labels in this half would spoil it."""
    (train, masks), (test, truth) = toy(60, generator), toy(30, generator)
    marked, lies = masks.clone(), 1 - masks
    marked[:, :8] = IGNORED
    marked[0] = IGNORED  # a whole image
    ignored = segment(train, marked, test, truth, PARAMS, 0, CPU)
    lies[:, 8:] = masks[:, 8:]
    assert ignored.metrics["mean_iou_percent"] > 65
    assert segment(train, lies, test, truth, PARAMS, 0, CPU).metrics["mean_iou_percent"] < 55


def test_frozen_means_frozen(generator):
    config = EncoderConfig("convnet", "imagenet", "linear", 8, 16, None, (0.5,) * 3, (0.2,) * 3)
    encoder = build_encoder(config, 0).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    pixels = torch.randint(256, (8, 3, 20, 20), generator=generator, dtype=torch.uint8)
    masks = torch.randint(3, (8, 20, 20), generator=generator, dtype=torch.uint8)
    images = ImageSet(Resident(pixels), torch.zeros(8, dtype=torch.int64), torch.arange(8), ("any",), masks)
    features, centre = extract(encoder, images, ["map"], CPU), centre_masks(images, 16)
    assert torch.equal(centre, masks[:, 2:18, 2:18])
    segment(features, centre, features, centre, PARAMS, 0, CPU)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert all(weight.grad is None for weight in encoder.parameters())


def test_what_cannot_be_segmented_is_named(generator):
    (train, masks), (test, truth) = toy(20, generator), toy(20, generator)
    endless = replace(train, layers={"map": train.layers["map"] * torch.inf})
    for maps, some, sentence in (
        (train, torch.full_like(masks, IGNORED), r"all pixels of the training masks are 255 \(ignored\); label some"),
        (train, torch.zeros_like(masks), "class 1 is in the test masks only; label training pixels of it, too"),
        (endless, masks, r"the loss is no longer finite in epoch 1 with learning rate 0\.01; lower"),
    ):
        with pytest.raises(InputError, match=sentence):
            segment(maps, some, test, truth, PARAMS, 0, CPU)
    pixels, zero = torch.zeros(1, 3, 8, 8, dtype=torch.uint8), torch.tensor([0])
    with pytest.raises(InputError, match="have no classes of their pixels; segment a data set that has: objects or"):
        centre_masks(ImageSet(Resident(pixels), zero, zero, ("any",)), 8)
