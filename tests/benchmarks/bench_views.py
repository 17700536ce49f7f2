"""Views of 256 images of 32 x 32 on one core: ours, torchvision's PIL pipeline, its tensor pipeline, and kornia's.

All do the standard contrastive augmentation: random resized crop, flip, colour jitter, greyscale. `infomin` is
RA-CJ-Blur (infomin Section 7.2): RandAugment and blur too, ours against the PIL pipeline.
"""

from collections.abc import Callable

import torch
from PIL import Image
from timing import medians, write
from torchvision import transforms
from torchvision.transforms import v2

from annulus.config.images import BlurParams, CropParams, JitterParams, RandAugmentParams, ViewSetParams
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
INFOMIN = STANDARD.model_copy(
    update={
        "jitter": JitterParams(probability=0.8, brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, strength=1.0),
        "blur": BlurParams(probability=0.5, sigma_min=0.1, sigma_max=2.0),
        "rand_augment": RandAugmentParams(operators=2, magnitude=10.0, spread=0.0),
    }
)


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
        print(f"without kornia's row: {error}; install it with pip install 'annulus[bench]'")
    else:
        contestants["kornia"] = lambda: on_batches(images.float().div_(255))

    seconds = medians(contestants, REPETITIONS, calls=ROUNDS)
    rates = {f"{name}_images_per_second": round(BATCH / each) for name, each in seconds.items()}
    own = {name: "infomin" if name.startswith("infomin") else "ours" for name in seconds}
    ratios = {f"times_{name}": round(seconds[name] / seconds[ours], 2) for name, ours in own.items() if name != ours}
    print(f"{'':40}{'images/s':>10}{'ours is faster by':>20}")
    for name, each in seconds.items():
        print(f"{name:40}{BATCH / each:10.0f}{ratios.get(f'times_{name}', 1.0):20.1f}")
    write("views", {**rates, **ratios, "batch": BATCH, "view_size": SIZE}, torch.device("cpu"))


def torchvision_on_pil() -> Callable[[Image.Image], torch.Tensor]:
    first = [transforms.RandomResizedCrop(SIZE, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip()]
    jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    return transforms.Compose([*first, jitter, transforms.RandomGrayscale(0.2), transforms.ToTensor()])


def torchvision_infomin_on_pil() -> Callable[[Image.Image], torch.Tensor]:
    first = [transforms.RandomResizedCrop(SIZE, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip()]
    drawn = transforms.RandAugment(num_ops=2, magnitude=10)
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
