"""Views of 256 images of 32 x 32 on one core: ours, torchvision's PIL pipeline, its tensor pipeline, and kornia's.

All do the standard contrastive augmentation: random resized crop, flip, colour jitter, greyscale. `infomin` is
RA-CJ-Blur (infomin Section 7.2): RandAugment and blur too, ours against the PIL pipeline.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from PIL import Image
from steps import PARAMS
from timing import medians, write
from torchvision import transforms
from torchvision.transforms import v2

from annulus.views.recipe import augment

BATCH, SIZE, REPETITIONS = 256, 32, 21
ROUNDS = 4  # batches in a row, as a loader makes them: a single one would mostly pay for the others' cache misses

STANDARD, INFOMIN = PARAMS.view_sets["standard"], PARAMS.view_sets["infomin"]
ALWAYS = replace(INFOMIN.rand_augment, spread=0.0, probability=1.0)  # as torchvision has it
INFOMIN = replace(INFOMIN, rand_augment=ALWAYS)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (BATCH, 3, SIZE, SIZE), generator=random, dtype=torch.uint8)
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    on_pil, on_tensors, infomin_on_pil = torchvision_on_pil(), torchvision_on_tensors(), torchvision_infomin_on_pil()

    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: augment(images, STANDARD, SIZE, random),
        "torchvision_pil": lambda: [on_pil(picture) for picture in pictures],
        "torchvision_tensors": lambda: [on_tensors(image) for image in images],
        # One draw for the whole batch: less than is asked for, and shown for scale only.
        "torchvision_tensors_all_images_alike": lambda: on_tensors(images),
        "infomin": lambda: augment(images, INFOMIN, SIZE, random),
        "infomin_torchvision_pil": lambda: [infomin_on_pil(picture) for picture in pictures],
    }
    try:
        on_batches = kornia_on_batches()
    except ImportError as error:
        print(f"without kornia's row: {error}; `make install` brings it")
    else:
        contestants["kornia"] = lambda: on_batches(images.float().div_(255))

    seconds = medians(contestants, REPETITIONS, calls=ROUNDS)
    rates = {f"{name}_images_per_second": BATCH / each for name, each in seconds.items()}
    own = {name: "infomin" if name.startswith("infomin") else "ours" for name in seconds}
    ratios = {f"times_{name}": seconds[name] / seconds[ours] for name, ours in own.items() if name != ours}
    write("views", torch.device("cpu"), **rates, **ratios, batch=BATCH, view_size=SIZE)


def torchvision_on_pil() -> Callable[[Image.Image], torch.Tensor]:
    first = [transforms.RandomResizedCrop(SIZE, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip()]
    jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    return transforms.Compose([*first, jitter, transforms.RandomGrayscale(0.2), transforms.ToTensor()])


def torchvision_infomin_on_pil() -> Callable[[Image.Image], torch.Tensor]:
    first = [transforms.RandomResizedCrop(SIZE, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip()]
    drawn = transforms.RandAugment(num_ops=2, magnitude=30)
    jitter = transforms.RandomApply([transforms.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
    blur = transforms.RandomApply([transforms.GaussianBlur(3, sigma=(0.1, 2.0))], p=0.5)
    return transforms.Compose([*first, drawn, jitter, blur, transforms.RandomGrayscale(0.2), transforms.ToTensor()])


def torchvision_on_tensors() -> Callable[[torch.Tensor], torch.Tensor]:
    first = [v2.RandomResizedCrop(SIZE, scale=(0.2, 1.0), antialias=True), v2.RandomHorizontalFlip()]
    jitter = v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    return v2.Compose([*first, jitter, v2.RandomGrayscale(0.2), v2.ToDtype(torch.float32, scale=True)])


def kornia_on_batches() -> Callable[[torch.Tensor], torch.Tensor]:
    """Raises ImportError where kornia is not installed."""
    from kornia import augmentation

    return augmentation.AugmentationSequential(
        augmentation.RandomResizedCrop((SIZE, SIZE), scale=(0.2, 1.0), cropping_mode="resample"),
        augmentation.RandomHorizontalFlip(),
        augmentation.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        augmentation.RandomGrayscale(p=0.2),
        data_keys=["input"],
    )


if __name__ == "__main__":
    main()
