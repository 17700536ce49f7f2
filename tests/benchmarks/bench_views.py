"""Views of 256 images of 32 x 32 on one core: ours, torchvision's PIL pipeline, its tensor pipeline, and kornia's.

All do the standard contrastive augmentation: random resized crop, flip, colour jitter, greyscale.
"""

from collections.abc import Callable

import torch
from PIL import Image
from timing import medians, write
from torchvision import transforms
from torchvision.transforms import v2

from annulus.config.images import CropParams, JitterParams, ViewSetParams
from annulus.views.recipe import augment

BATCH, SIZE, REPETITIONS = 256, 32, 21
ROUNDS = 4  # batches in a row, as a loader makes them: a single one would mostly pay for the others' cache misses

STANDARD = ViewSetParams(
    crop=CropParams(scale_min=0.2, scale_max=1.0, ratio_min=3 / 4, ratio_max=4 / 3),
    flip=0.5,
    jitter=JitterParams(probability=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, strength=1.0),
    grayscale=0.2,
    blur=None,
    rand_augment=None,
    patches=None,
)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (BATCH, 3, SIZE, SIZE), generator=random, dtype=torch.uint8)
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    on_pil, on_tensors = torchvision_on_pil(), torchvision_on_tensors()

    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: augment(images, STANDARD, SIZE, random),
        "torchvision_pil": lambda: [on_pil(picture) for picture in pictures],
        "torchvision_tensors": lambda: [on_tensors(image) for image in images],
        # One draw for the whole batch: less than is asked for, and shown for scale only.
        "torchvision_tensors_all_images_alike": lambda: on_tensors(images),
    }
    try:
        on_batches = kornia_on_batches()
    except ImportError as error:
        print(f"without kornia's row: {error}; install it with pip install 'annulus[bench]'")
    else:
        contestants["kornia"] = lambda: on_batches(images.float().div_(255))

    def several(make: Callable[[], object]) -> Callable[[], None]:
        def batches() -> None:
            for _ in range(ROUNDS):
                make()

        return batches

    turns = medians({name: several(make) for name, make in contestants.items()}, REPETITIONS, calls=1)
    seconds = {name: each / ROUNDS for name, each in turns.items()}
    print(f"{'':40}{'images/s':>10}{'ours is faster by':>20}")
    for name, each in seconds.items():
        print(f"{name:40}{BATCH / each:10.0f}{each / seconds['ours']:20.1f}")
    rates = {f"{name}_images_per_second": round(BATCH / each) for name, each in seconds.items()}
    ratios = {f"times_{name}": round(each / seconds["ours"], 2) for name, each in seconds.items() if name != "ours"}
    write("views", {**rates, **ratios, "batch": BATCH, "view_size": SIZE}, torch.device("cpu"))


def torchvision_on_pil() -> Callable[[Image.Image], torch.Tensor]:
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=(0.2, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            transforms.RandomGrayscale(0.2),
            transforms.ToTensor(),
        ]
    )


def torchvision_on_tensors() -> Callable[[torch.Tensor], torch.Tensor]:
    return v2.Compose(
        [
            v2.RandomResizedCrop(SIZE, scale=(0.2, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            v2.RandomGrayscale(0.2),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )


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
