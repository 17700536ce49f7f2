"""Semantic segmentation by a small decoder on a frozen encoder's feature maps.

The maps are extracted once, so gradients and statistics never reach the encoder.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn

from annulus.device.rng import derive, first_weights, generator
from annulus.encoders.features import Features
from annulus.errors import InputError
from annulus.evals.iou import confusion, iou, mean_iou, pixel_accuracy
from annulus.evals.segmentation_settings import SegmentationSettings
from annulus.files.images import IGNORED, ImageSet, Masks
from annulus.files.results import Number
from annulus.optim.torch_optimizers import Adam
from annulus.views.crop import center_crop

log = logging.getLogger("annulus")

AT_ONCE = 256  # maps that are decoded together: sets the memory and changes no result
LEAST_STD = 1e-6  # of a channel, as a share of the largest deviation: below it, the channel is set to 0


@dataclass(frozen=True)
class SegmentationOutcome:
    """A decoder's numbers on the test images, one row per epoch, and the predicted class of each pixel."""

    metrics: dict[str, Number]
    history: list[dict[str, Number]]
    predicted: Masks


class Decoder(nn.Module):
    """Fully convolutional decoder of feature maps.

    It scales each channel to mean 0 and variance 1. Then it has twice a 3 x 3 convolution and a doubling of the map, a
    1 x 1 convolution to scores, and a bilinear resize to the size of the masks.

    Source: Tian et al. 2020, arXiv:2005.10243, Appendix B.3 (which leaves the decoder open); Long et al. 2015,
    arXiv:1411.4038, Section 3.
    """

    def __init__(self, mean: Float[Tensor, "c"], std: Float[Tensor, "c"], width: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean.view(-1, 1, 1))
        self.register_buffer("std", std.view(-1, 1, 1))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(planes, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
            for planes in (len(mean), width)
        )
        self.scores = nn.Conv2d(width, classes, 1)

    def forward(self, maps: Float[Tensor, "b c y x"], size: int) -> Float[Tensor, "b k {size} {size}"]:
        """Scores of the classes at each pixel of `size` x `size`."""
        maps = (maps - self.mean) / self.std
        for block in self.blocks:
            maps = F.interpolate(block(maps), scale_factor=2.0, mode="bilinear")
        return F.interpolate(self.scores(maps), size=(size, size), mode="bilinear")


def centre_masks(images: ImageSet, view_size: int) -> Masks:
    """The classes of the pixels in the plain centre view.

    Raises:
        InputError: if the images have no masks.
    """
    if images.masks is None:
        raise InputError("these images have no classes of their pixels; segment a data set that has: objects or nyu")
    return center_crop(images.masks[:, None], view_size)[:, 0]


def segment(
    train: Features,
    train_masks: UInt8[Tensor, "train size size"],
    test: Features,
    test_masks: UInt8[Tensor, "test size size"],
    params: SegmentationSettings,
    seed: int,
    device: torch.device,
) -> SegmentationOutcome:
    """Trains a decoder of the `map` layer by the mean cross-entropy of labelled pixels, and segments the test images.

    The optimiser is Adam, with a rate that falls to zero along half a cosine. The training masks define the
    classes. The same seed gives the same decoder.

    Raises:
        InputError: if all training or all test pixels are ignored, a class is only in the test masks, the last batch
            has a single number per channel, or the loss is no longer finite.
    """
    maps, classes = train.layer("map"), _classes(train_masks, test_masks)
    _check_batches(maps, params.batch_size)
    decoder = _decoder(maps, params.width, classes, seed).to(device)
    history = _fit(decoder, maps, train_masks, params, seed, device)
    predicted = _predicted(decoder, test.layer("map"), test_masks.shape[-1], device)
    counts = confusion(predicted, test_masks, classes)
    metrics = {
        "mean_iou_percent": mean_iou(counts),
        "pixel_accuracy_percent": pixel_accuracy(counts),
        **_class_ious(counts),
        "loss_nats": history[-1]["loss_nats"],
    }
    return SegmentationOutcome(metrics, history, predicted)


def _class_ious(counts: Int64[Tensor, "c c"]) -> Mapping[str, Number]:
    present = counts.sum(dim=1) > 0
    return {f"class_{number}_iou_percent": 100 * iou(counts)[number].item() for number in present.nonzero()[:, 0]}


def _classes(train_masks: UInt8[Tensor, "train h w"], test_masks: UInt8[Tensor, "test h w"]) -> int:
    """Checks the classes of the masks and returns the number of classes."""
    train_classes, test_classes = (set(masks.unique().tolist()) - {IGNORED} for masks in (train_masks, test_masks))
    for part, classes in (("training", train_classes), ("test", test_classes)):
        if not classes:
            raise InputError(f"all pixels of the {part} masks are {IGNORED} (ignored); label some")
    if unknown := test_classes - train_classes:
        raise InputError(f"class {min(unknown)} is in the test masks only; label training pixels of it, too")
    return max(train_classes) + 1


def _check_batches(maps: Float[Tensor, "n c y x"], batch_size: int) -> None:
    if maps.shape[2:].numel() == 1 and len(maps) % batch_size == 1:
        raise InputError(
            f"batch_size: {batch_size} of {len(maps)} maps of one place leaves one map for the last batch, which the "
            "decoder's batch-norm cannot normalise; take another batch_size, or larger images"
        )


def _decoder(maps: Float[Tensor, "n c y x"], width: int, classes: int, seed: int) -> Decoder:
    mean = torch.stack([channel.double().mean() for channel in maps.unbind(1)]).float()
    std = torch.stack([channel.double().std(correction=0) for channel in maps.unbind(1)]).float()
    std = torch.where(std > LEAST_STD * std.max(), std, torch.inf)
    with first_weights(derive(seed, "decoder")):
        return Decoder(mean, std, width, classes)


def _fit(
    decoder: Decoder,
    maps: Float[Tensor, "n c y x"],
    masks: Masks,
    params: SegmentationSettings,
    seed: int,
    device: torch.device,
) -> list[dict[str, Number]]:
    optimizer = Adam(decoder.parameters(), lr=params.learning_rate)
    history: list[dict[str, Number]] = []
    for epoch in range(params.epochs):
        for group in optimizer.param_groups:
            group["lr"] = params.learning_rate * (1 + math.cos(math.pi * epoch / params.epochs)) / 2
        total, pixels = torch.zeros((), dtype=torch.double, device=device), 0
        for rows in torch.randperm(len(maps), generator=generator(seed, "decoder", epoch)).split(params.batch_size):
            truth = masks[rows].long().to(device)
            scores = decoder(maps[rows].to(device).float(), truth.shape[-1])
            # The sum over labelled pixels, since the mean over no pixels would be NaN.
            loss, labelled = F.cross_entropy(scores, truth, ignore_index=IGNORED, reduction="sum"), truth != IGNORED
            optimizer.zero_grad()
            (loss / labelled.sum().clamp(min=1)).backward()
            optimizer.step()
            total, pixels = total + loss.detach(), pixels + int(labelled.sum())
        history.append({"epoch": epoch + 1, "loss_nats": (total / pixels).item()})
        if not math.isfinite(history[-1]["loss_nats"]):
            raise InputError(
                f"segmentation: the loss is no longer finite in epoch {epoch + 1} with learning rate "
                f"{params.learning_rate:g}; lower it"
            )
    log.info("segmentation: %d epochs, loss %.4f nats", params.epochs, history[-1]["loss_nats"])
    return history


@torch.no_grad()
def _predicted(
    decoder: Decoder, maps: Float[Tensor, "n c y x"], size: int, device: torch.device
) -> UInt8[Tensor, "n h w"]:
    decoder.eval()
    return torch.cat(
        [decoder(some.to(device).float(), size).argmax(dim=1).byte().cpu() for some in maps.split(AT_ONCE)]
    )
