"""Features of images from a frozen encoder, computed once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int64, Num
from torch import Tensor, nn

from annulus.device.device import autocast
from annulus.encoders.features import LAYERS, Features, Layer, names_of
from annulus.encoders.module_encoder import AnyEncoder, ModuleEncoder, Pool
from annulus.errors import InputError
from annulus.files.images import UNLABELLED, ImageSet
from annulus.files.store import BATCH_SIZE
from annulus.views.recipe import center_view


@torch.no_grad()
def encode(encoder: nn.Module, views: Tensor, layers: Sequence[Layer]) -> dict[Layer, Tensor]:
    """Computes layers of one batch of views in one pass through the backbone; float32.

    The encoder stays in evaluation mode afterwards. In training mode, the views would change the running statistics of
    its batch normalisation, so the encoder would not be frozen.
    """
    encoder.eval()
    outputs = {}
    with autocast(views.device):
        if "map" in layers:
            outputs["map"], outputs["pooled"] = encoder.map_and_pooled(views)
        else:
            outputs["pooled"] = encoder.pooled(views)
        if "embedding" in layers:
            outputs["embedding"] = encoder.embed(outputs["pooled"])
    return {name: outputs[name].float() for name in layers}


def extract_features(
    encoder: AnyEncoder | Callable[[Tensor], Any] | str,
    images: Num[Tensor, "n ..."] | Iterable[Sequence[Any]],
    labels: Int64[Tensor, "n"] | None = None,
    classes: Sequence[str] | None = None,
    layers: Sequence[Layer] = ("pooled", "embedding"),
    device: torch.device | str = "cpu",
    pool: Pool | None = None,
) -> Features:
    """Computes features of images: of a tensor, or of batches (images, labels) such as a DataLoader returns.

    `encoder`: one of annulus, any network or function of a batch of floats, or a name such as "timm/resnet18.a1_in1k",
    whose weights the library downloads. `pool` computes vectors from a map, tokens or an output object, as in
    `ModuleEncoder`.

    Images may be bytes of RGB. An encoder of annulus gets their centre, as large as its view. A network or function
    gets them whole, in [0, 1] and its own precision. A network by name gets the evaluation view of its library. Floats
    are not changed; a network by name takes them in [0, 1] and normalises them itself.

    `labels`: class numbers for a tensor of images; -1, the default, is for an image without a class. `classes`: the
    classes' names, by default their numbers; give them if a split may lack the last class. `layers`: the layers to
    return, on the CPU. The encoder moves to `device` and stays in evaluation mode.

    Raises:
        InputError: for images that are neither bytes nor floats, another number of labels, classes without names,
            images smaller than the view, a layer that the encoder does not have, features with NaN or infinity, or a
            name that its library does not have.

    >>> images, labels = torch.randint(0, 256, (10, 3, 32, 32), dtype=torch.uint8), torch.arange(10) % 2
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(3072, 64), nn.ReLU())
    >>> encoder = annulus.ModuleEncoder(network, dim=16, head=nn.Linear(64, 16))
    >>> features = annulus.extract_features(encoder, images, labels)
    >>> features.layer("pooled").shape, features.layer("embedding").shape, features.classes
    (torch.Size([10, 64]), torch.Size([10, 16]), ('0', '1'))
    >>> loader = torch.utils.data.DataLoader([*zip(images / 255, labels)], batch_size=4)
    >>> torch.allclose(annulus.extract_features(encoder, loader).layer("pooled"), features.layer("pooled"), atol=1e-6)
    True
    >>> annulus.extract_features(nn.Conv2d(3, 8, 3), images, pool="mean").layer("pooled").shape
    torch.Size([10, 8])
    """
    encoder = _as_encoder(encoder, pool)
    has = [name for name in LAYERS if name != "map" or not isinstance(encoder, ModuleEncoder)]
    if not layers or not set(layers) <= {*has}:
        raise InputError(f"layers {layers!r}: give a list of {', '.join(has)}")
    names = None if classes is None else names_of(classes)
    encoder, label_batches = encoder.to(device), []

    def outputs() -> Iterator[Mapping[Layer, Tensor]]:
        for some, numbers in _batches(images, labels, names):
            label_batches.append(numbers.cpu())
            yield encode(encoder, _seen(encoder, some.to(device)), layers)

    gathered = _gathered(outputs())
    all_labels = torch.cat(label_batches)
    highest = int(all_labels.max()) if len(all_labels) else -1
    return Features(gathered, all_labels, tuple(map(str, range(highest + 1))) if names is None else names)


def extract(
    encoder: nn.Module,
    images: ImageSet,
    layers: Sequence[Layer],
    device: torch.device,
    batch_size: int = BATCH_SIZE,
    view_size: int | None = None,
) -> Features:
    """Computes layers of the centre view of every image. `view_size`: None: the encoder's own.

    Raises:
        InputError: for features with NaN or infinity.
    """
    encoder, store = encoder.to(device), images.images.on(device)
    # An empty split has one empty batch, which gives the layers' shapes.
    batches = store.in_turn(torch.arange(len(images)).split(batch_size))
    size = view_size or encoder.view_size
    outputs = (encode(encoder, center_view(batch, size, store.image_sizes(index)), layers) for index, batch in batches)
    return Features(_gathered(outputs), images.labels, images.classes)


def _gathered(batches: Iterable[Mapping[Layer, Tensor]]) -> dict[Layer, Tensor]:
    """Joins the layers of all batches on the CPU.

    Maps become float16, in half the memory: this rounds by one part in two thousand.

    Raises:
        InputError: for NaN or infinity, or without a batch.
    """
    chunks = []
    for outputs in batches:
        kept = {name: values.half() if name == "map" else values for name, values in outputs.items()}
        chunks.append({name: values.contiguous().cpu() for name, values in kept.items()})
    if not chunks:
        raise InputError("there is no batch of images; give one or more (an iterator is used up by its first loop)")
    gathered = {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}
    for name, values in gathered.items():
        if not values.isfinite().all():
            row = int((~values.isfinite()).flatten(1).any(dim=1).nonzero()[0])
            raise InputError(
                f"the encoder's {name} features of image {row} are not finite; "
                "its weights are damaged or its training diverged: train it again with a lower learning rate"
            )
    return gathered


def _as_encoder(encoder: AnyEncoder | Callable[[Tensor], Any] | str, pool: Pool | None) -> AnyEncoder:
    """Returns an encoder, or makes one from a network, a function or a name.

    Raises:
        InputError: for another type; for a `pool` beside an encoder that pools by itself.
    """
    if isinstance(encoder, AnyEncoder | str):
        if pool is not None:
            raise InputError("pool is for a network or function; this encoder has its own, so leave out pool")
        if not isinstance(encoder, str):
            return encoder
        from annulus.encoders.by_name import named

        return named(encoder, pretrained=True)
    if not callable(encoder):
        raise InputError(
            f"encoder is a {type(encoder).__name__}; give one of annulus.build_encoder or annulus.load_encoder, a "
            "network or function of a batch of images, or a name such as 'timm/resnet18.a1_in1k'"
        )
    return ModuleEncoder(encoder, pool=pool)


def _seen(encoder: AnyEncoder, images: Tensor) -> Tensor:
    """Input of the encoder: the evaluation view of bytes, or unchanged floats."""
    if images.is_floating_point():
        return images
    return encoder.view(images) if isinstance(encoder, ModuleEncoder) else center_view(images, encoder.view_size)


def _batches(
    images: Tensor | Iterable[Sequence[Any]], labels: Tensor | None, classes: Sequence[str] | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches of images and labels.

    Raises:
        InputError: for other types, another number of labels, or a label beyond the classes.
    """
    if isinstance(images, Tensor):
        labels = torch.full(images.shape[:1], UNLABELLED) if labels is None else labels
        _check(images, labels, classes)
        yield from zip(images.split(BATCH_SIZE), labels.split(BATCH_SIZE), strict=True)
        return
    if not isinstance(images, Iterable) or labels is not None:
        given = f"a {type(images).__name__}" if labels is None else "batches, and labels beside them"
        raise InputError(f"images are {given}; give a tensor and its labels, or batches (images, labels) alone")
    for batch in images:
        if not isinstance(batch, Sequence) or len(batch) < 2:
            kind = f"of {len(batch)}" if isinstance(batch, Sequence) else f"a {type(batch).__name__}"
            raise InputError(f"a batch is {kind}; give batches (images, labels), as a DataLoader of such pairs does")
        _check(*batch[:2], classes)  # further entries, such as lightly's file names, are not read
        yield batch[0], batch[1]


def _check(images: Tensor, labels: Tensor, classes: Sequence[str] | None) -> None:
    """Raises InputError for other types, another number of labels, or a label beyond the classes."""
    if not isinstance(images, Tensor) or not (images.dtype == torch.uint8 or images.is_floating_point()):
        kind = f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise InputError(f"images are {kind}; give bytes, torch.uint8 of shape (n, 3, height, width), or floats")
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        kind = f"{labels.dtype} of shape {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        raise InputError(f"labels are {kind}; give a class number for each of {len(images)} images, torch.int64")
    if classes is not None and len(labels) and (highest := int(labels.max())) >= len(classes):
        raise InputError(f"labels reach {highest}, but there are {len(classes)} classes; give all classes' names")
