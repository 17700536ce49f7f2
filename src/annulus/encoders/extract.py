"""Features of images from a frozen encoder, computed once."""

from collections.abc import Sequence

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor, nn

from annulus.device.device import autocast
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.encoders.features import LAYERS, Features, Layer
from annulus.errors import InputError
from annulus.files.images import UNLABELLED, ImageSet
from annulus.files.store import BATCH_SIZE, Resident
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


def extract_features(
    encoder: Encoder | SplitEncoder,
    images: UInt8[Tensor, "n 3 s s"],
    labels: Int64[Tensor, "n"] | None = None,
    classes: Sequence[str] | None = None,
    layers: Sequence[Layer] = ("pooled", "embedding"),
    device: torch.device | str = "cpu",
) -> Features:
    """Features of square images, bytes of RGB, each seen through the middle of the encoder's own view size.

    `labels` are class numbers, -1 (the default) where there is none; `classes` are the classes' names, by default their
    numbers. `layers`: what is kept, on the CPU. The encoder goes to `device` and is in evaluation mode from then on.

    Raises:
        InputError: for images that are no bytes or no squares, labels of another number, images smaller than the view,
            or an encoder that gives NaN or infinity.

    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> images = torch.randint(0, 256, (10, 3, 32, 32), dtype=torch.uint8)
    >>> features = annulus.extract_features(annulus.build_encoder(config, seed=0), images, torch.arange(10) % 2)
    >>> features.layer("embedding").shape, features.classes
    (torch.Size([10, 16]), ('0', '1'))
    """
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        kind = f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise InputError(f"images are {kind}; give bytes, torch.uint8 of shape (n, 3, side, side)")
    if images.shape[2] != images.shape[3]:
        raise InputError(f"images are of {images.shape[2]} x {images.shape[3]} pixels; crop or resize them to squares")
    if labels is None:
        labels = torch.full((len(images),), UNLABELLED)
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        kind = f"{labels.dtype} of shape {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        raise InputError(f"labels are {kind}; give a class number for each of {len(images)} images, torch.int64")
    highest = int(labels.max()) if len(labels) else -1
    names = tuple(map(str, range(highest + 1))) if classes is None else tuple(classes)
    if highest >= len(names):
        raise InputError(f"labels reach {highest}, but there are {len(names)} classes; give all classes' names")
    if not layers or not set(layers) <= {*LAYERS}:
        raise InputError(f"layers {layers!r}: give a list of {', '.join(LAYERS)}")
    if not isinstance(encoder, Encoder | SplitEncoder):
        raise InputError(
            f"encoder is a {type(encoder).__name__}; give one of annulus.build_encoder or annulus.load_encoder. "
            'Features of another network are annulus.Features({"pooled": NETWORK(IMAGES)}, LABELS, CLASSES)'
        )
    rows = torch.arange(len(images))
    return extract(encoder, ImageSet(Resident(images), labels.cpu(), rows, names), layers, torch.device(device))


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
                "its weights are damaged or its training diverged: train it again with a lower learning rate"
            )
    return Features(gathered, images.labels, images.classes)
