"""Views of 32 and 224 pixels on one core, in processor time: ours, Pillow's, tensors', kornia's and albumentations'.

All do the standard contrastive augmentation (random resized crop, flip, colour jitter, greyscale) and end in floats in
[0, 1], channels first. `moco_v2` adds a Gaussian blur of half of the images (arXiv:2003.04297, Section 3); `infomin` is
RA-CJ-Blur (arXiv:2005.10243, Section 7.2): RandAugment and blur too. Views of 224 pixels are of images of 256 x 341, in
planes or with channels last as from a JPEG decoder; albumentations takes the latter.
Ours and torchvision's resize with antialiasing; the defaults of albumentations and kornia do not.

Rows `in_a_worker` time the transforms of a data set: a picture of Pillow to two views, one picture at a time. Rows
`loader` time a whole DataLoader by wall time: workers decode JPEG by Pillow, make two views, and send the batches.

albumentations is not among the pinned packages: `pip install albumentations==2.0.8`, the last with the MIT licence.
"""

import io
import os
import time
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import numpy as np
import torch
from PIL import Image
from steps import PARAMS
from timing import medians, write
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2

from annulus.device.threads import cores
from annulus.views import large
from annulus.views.blur import kernel_size
from annulus.views.recipe import augment
from annulus.views.single import TwoViews

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # else it looks for a newer version on its server

SMALL = {"size": 32, "stored": (32, 32), "batch": 256}
LARGE = {"size": 224, "stored": (256, 341), "batch": 32}
REPETITIONS = 11
ROUNDS = 4  # batches in a row, as a loader makes them: a single one would mostly pay for the others' cache misses

STANDARD, MOCO_V2, INFOMIN = (PARAMS.view_sets[name] for name in ("standard", "moco-v2", "infomin-torchvision"))
ALWAYS = replace(INFOMIN.rand_augment, spread=0.0, probability=1.0)  # as torchvision has it
INFOMIN = replace(INFOMIN, rand_augment=ALWAYS)

LOADER = {"images": 512, "batch": 64, "workers": cores()}
LOADER_REPETITIONS = 3

Call = Callable[[], object]
Transform = Callable[[Image.Image], list[Tensor]]


def main() -> None:
    torch.set_num_threads(1)
    numbers = measure(**SMALL) | measure(**LARGE) | loaders(LARGE["size"], LARGE["stored"], **LOADER)
    write("views", torch.device("cpu"), **numbers, batch_32px=SMALL["batch"], batch_224px=LARGE["batch"])


def measure(size: int, stored: tuple[int, int], batch: int) -> dict[str, float]:
    """Images per second of each contestant, and its time over the time of ours."""
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (batch, 3, *stored), generator=random, dtype=torch.uint8)
    as_jpeg = images.contiguous(memory_format=torch.channels_last)
    arrays = list(images.permute(0, 2, 3, 1).contiguous().numpy())
    pictures = [Image.fromarray(array) for array in arrays]
    on_pil, infomin_on_pil = torchvision_on_pil(size), torchvision_infomin_on_pil(size)
    moco_v2_on_pil = torchvision_on_pil(size, blurred=True)
    on_tensors = torchvision_on_tensors(size)
    contestants: dict[str, Call] = {
        "ours": lambda: augment(images, STANDARD, size, random),
        "ours_as_jpeg": lambda: augment(as_jpeg, STANDARD, size, random),
        "ours_by_operators": lambda: by_operators(images, size, random),
        "torchvision_pil": lambda: torch.stack([on_pil(picture) for picture in pictures]),
        "torchvision_tensors": lambda: torch.stack([on_tensors(image) for image in images]),
        # One draw for the whole batch: less work than the others', listed for scale only.
        "torchvision_tensors_all_images_alike": lambda: on_tensors(images),
        "moco_v2": lambda: augment(images, MOCO_V2, size, random),
        "moco_v2_as_jpeg": lambda: augment(as_jpeg, MOCO_V2, size, random),
        "moco_v2_torchvision_pil": lambda: torch.stack([moco_v2_on_pil(picture) for picture in pictures]),
        "infomin": lambda: augment(images, INFOMIN, size, random),
        "infomin_torchvision_pil": lambda: torch.stack([infomin_on_pil(picture) for picture in pictures]),
    }
    for row, transform in picture_transforms(size).items():
        contestants[row] = lambda transform=transform: [transform(picture) for picture in pictures[: batch // 2]]
    for row, package, views in (
        ("kornia", "kornia", lambda: kornia_on_batches(size, images)),
        ("albumentations", "albumentations==2.0.8", lambda: albumentations_on_arrays(size, arrays)),
        ("moco_v2_albumentations", "albumentations==2.0.8", lambda: albumentations_on_arrays(size, arrays, True)),
    ):
        try:
            contestants[row] = views()
        except ImportError as error:
            print(f"without the row {row}: {error}; `pip install {package}` brings it")

    seconds = medians(contestants, REPETITIONS, calls=ROUNDS, clock=time.process_time)
    kinds = ("moco_v2_in_a_worker", "in_a_worker", "moco_v2", "infomin")
    own = {name: next((each for each in kinds if name.startswith(each)), "ours") for name in seconds}
    if "albumentations" in seconds and size == LARGE["size"]:
        own |= {"albumentations": "ours_as_jpeg", "moco_v2_albumentations": "moco_v2_as_jpeg"}
    rates = {f"{name}_{size}px_images_per_second": batch / each for name, each in seconds.items()}
    return rates | {
        f"times_{name}_{size}px": seconds[name] / seconds[ours] for name, ours in own.items() if name != ours
    }


def picture_transforms(size: int) -> dict[str, Transform]:
    """Transforms of one picture to two views, of each installed library."""
    twice = {
        "in_a_worker_torchvision": v2_on_pil(size),
        "moco_v2_in_a_worker_torchvision": v2_on_pil(size, blurred=True),
    }
    rows: dict[str, Transform] = {
        "in_a_worker": TwoViews(STANDARD, size),
        "moco_v2_in_a_worker": TwoViews(MOCO_V2, size),
        **{row: lambda picture, view=view: [view(picture), view(picture)] for row, view in twice.items()},
    }
    try:
        for row, blurred in (("in_a_worker_albumentations", False), ("moco_v2_in_a_worker_albumentations", True)):
            view = albumentations_view(size, blurred)
            rows[row] = lambda picture, view=view: two_views(view, np.asarray(picture))
    except ImportError as error:
        print(f"without albumentations in a worker: {error}")
    return rows


def two_views(view: Callable[..., dict[str, Tensor]], array: np.ndarray) -> list[Tensor]:
    return [view(image=array)["image"] for _ in range(2)]


def v2_on_pil(size: int, blurred: bool = False) -> Callable[[Image.Image], Tensor]:
    first = [v2.RandomResizedCrop(size, scale=(0.2, 1.0)), v2.RandomHorizontalFlip()]
    jitter = v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    blur = v2.RandomApply([v2.GaussianBlur(kernel_size(size), sigma=(0.1, 2.0))], p=0.5)
    last = [v2.RandomGrayscale(0.2), *([blur] if blurred else []), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([*first, jitter, *last])


class Pictures(Dataset):
    """One JPEG, decoded by Pillow for each item as ImageFolder does."""

    def __init__(self, jpeg: bytes, images: int, transform: Transform) -> None:
        self.jpeg, self.images, self.transform = jpeg, images, transform

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, place: int) -> list[Tensor]:
        return self.transform(Image.open(io.BytesIO(self.jpeg)).convert("RGB"))


def loaders(size: int, stored: tuple[int, int], images: int, batch: int, workers: int) -> dict[str, float]:
    """Views a second of a whole DataLoader with each transform, by wall time."""
    random, file = torch.Generator().manual_seed(0), io.BytesIO()
    coarse = torch.rand(1, 3, 16, 16, generator=random)
    picture = torch.nn.functional.interpolate(coarse, stored, mode="bicubic")[0].clamp(0, 1)
    transforms.ToPILImage()(picture).save(file, "JPEG", quality=90)
    contestants, held = {}, []
    for row, transform in picture_transforms(size).items():
        data = Pictures(file.getvalue(), images, transform)
        held.append(DataLoader(data, batch_size=batch, num_workers=workers, persistent_workers=workers > 0))
        contestants[row.replace("in_a_worker", "loader")] = lambda loader=held[-1]: [*map(len, loader)]
    seconds = medians(contestants, LOADER_REPETITIONS)
    kinds = ("moco_v2_loader", "loader")
    own = {name: next(each for each in kinds if name.startswith(each)) for name in seconds}
    rates = {f"{name}_{size}px_views_per_second": 2 * images / each for name, each in seconds.items()}
    ratios = {f"times_{name}_{size}px": seconds[name] / seconds[ours] for name, ours in own.items() if name != ours}
    return rates | ratios | {"loader_workers": workers}


def by_operators(images: Tensor, size: int, random: torch.Generator) -> Tensor:
    """Ours on a machine without a C compiler."""
    with mock.patch.object(large, "trusted", return_value=False):
        return augment(images, STANDARD, size, random)


def torchvision_on_pil(size: int, blurred: bool = False) -> Callable[[Image.Image], Tensor]:
    first = [transforms.RandomResizedCrop(size, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip()]
    jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    last = [transforms.RandomGrayscale(0.2), *([blur_by_torchvision(size)] if blurred else []), transforms.ToTensor()]
    return transforms.Compose([*first, jitter, *last])


def blur_by_torchvision(size: int) -> transforms.RandomApply:
    return transforms.RandomApply([transforms.GaussianBlur(kernel_size(size), sigma=(0.1, 2.0))], p=0.5)


def torchvision_infomin_on_pil(size: int) -> Callable[[Image.Image], Tensor]:
    first = [transforms.RandomResizedCrop(size, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip()]
    rand_augment = transforms.RandAugment(num_ops=2, magnitude=30)
    jitter = transforms.RandomApply([transforms.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
    last = [blur_by_torchvision(size), transforms.RandomGrayscale(0.2), transforms.ToTensor()]
    return transforms.Compose([*first, rand_augment, jitter, *last])


def torchvision_on_tensors(size: int) -> Callable[[Tensor], Tensor]:
    first = [v2.RandomResizedCrop(size, scale=(0.2, 1.0), antialias=True), v2.RandomHorizontalFlip()]
    jitter = v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    return v2.Compose([*first, jitter, v2.RandomGrayscale(0.2), v2.ToDtype(torch.float32, scale=True)])


def kornia_on_batches(size: int, images: Tensor) -> Call:
    """Raises ImportError where kornia is not installed."""
    from kornia import augmentation

    views = augmentation.AugmentationSequential(
        augmentation.RandomResizedCrop((size, size), scale=(0.2, 1.0), cropping_mode="resample"),
        augmentation.RandomHorizontalFlip(),
        augmentation.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        augmentation.RandomGrayscale(p=0.2),
        data_keys=["input"],
    )
    return lambda: views(images.float().div_(255))


def albumentations_on_arrays(size: int, arrays: list, blurred: bool = False) -> Call:
    """Raises ImportError where albumentations is not installed."""
    view = albumentations_view(size, blurred)
    return lambda: torch.stack([view(image=array)["image"] for array in arrays])


def albumentations_view(size: int, blurred: bool) -> Callable[..., dict[str, Tensor]]:
    """Raises ImportError where albumentations is not installed."""
    import albumentations
    import cv2
    from albumentations.pytorch import ToTensorV2

    cv2.setNumThreads(1)
    taps = kernel_size(size)
    blur = albumentations.GaussianBlur(blur_limit=(taps, taps), sigma_limit=(0.1, 2.0), p=0.5)
    return albumentations.Compose(
        [
            albumentations.RandomResizedCrop((size, size), scale=(0.2, 1.0)),
            albumentations.HorizontalFlip(),
            albumentations.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=0.8),
            albumentations.ToGray(p=0.2),
            *([blur] if blurred else []),
            albumentations.ToFloat(max_value=255),
            ToTensorV2(),
        ]
    )


if __name__ == "__main__":
    main()
