"""Features of images from a frozen encoder, computed once."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from annulus.device.device import autocast
from annulus.encoders.features import Features, Layer
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.store import BATCH_SIZE
from annulus.views.recipe import center_view


@torch.no_grad()
def encode(encoder: nn.Module, views: Tensor, layers: Sequence[Layer]) -> dict[Layer, Tensor]:
    """The named layers of one batch of views, from one pass of the backbone; float32.

    The encoder stays in evaluation mode: in training mode the views would move the running statistics of its
    batch normalisation, and the encoder would no longer be frozen.
    """
    encoder.eval()
    with autocast(views.device):
        maps, pooled = encoder.map_and_pooled(views)
        outputs = {"map": maps, "pooled": pooled}
        if "embedding" in layers:
            outputs["embedding"] = encoder.embed(pooled)
    return {name: outputs[name].float() for name in layers}


def extract(
    encoder: nn.Module,
    images: ImageSet,
    layers: Sequence[Layer],
    device: torch.device,
    batch_size: int = BATCH_SIZE,
    view_size: int | None = None,
) -> Features:
    """The named layers of every image, seen through its plain centre view, of the encoder's own size if none is given.

    Maps are kept as float16, in half the space: that rounds by one part in two thousand.

    Raises:
        InputError: when the encoder gives NaN or infinity.
    """
    encoder = encoder.to(device)
    chunks, store = [], images.images.on(device)
    # An empty split gives one empty batch, and so the shapes.
    for index, batch in store.in_turn(torch.arange(len(images)).split(batch_size)):
        outputs = encode(encoder, center_view(batch, view_size or encoder.view_size, store.sizes_of(index)), layers)
        kept = {name: values.half() if name == "map" else values for name, values in outputs.items()}
        chunks.append({name: values.contiguous().cpu() for name, values in kept.items()})
    gathered = {name: torch.cat([chunk[name] for chunk in chunks]) for name in layers}
    for name, values in gathered.items():
        if not values.isfinite().all():
            row = int((~values.isfinite()).flatten(1).any(dim=1).nonzero()[0])
            raise InputError(
                f"the encoder's {name} features of image {row} are not finite; "
                "its weights are damaged or its training diverged: run `dvc repro -f pretrain` "
                "with a lower scales.SCALE.pretrain.learning_rate"
            )
    return Features(gathered, images.labels, images.classes)
