"""Shared parts of other libraries' recipes: images, their loader, and a process's answers to bench_methods.py.

A recipe is a process of its own, because settings of speed hold for a process. Each line of JSON on standard input
requests one turn, {"workers": 2, "warm": 6, "steps": 8}; workers null requests the bare step, on random views. The
answer on standard output is the seconds per step, {"seconds": 0.3}; a library may print there too.
"""

import json
import sys
from collections.abc import Callable

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

SIZE, QUEUE = 32, 4_096
LEARNING_RATE = 0.06
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Pictures(Dataset):
    """Images in memory; an item is made a PIL image and its views at access, as in torchvision's CIFAR10."""

    def __init__(self, images: Tensor, transform: Callable[[Image.Image], object] | None = None) -> None:
        self.pixels, self.transform = images.permute(0, 2, 3, 1).contiguous().numpy(), transform

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, row: int) -> tuple[object, int]:
        picture = Image.fromarray(self.pixels[row])
        return picture if self.transform is None else self.transform(picture), row % 10


def loader(pictures: Dataset, batch: int, workers: int, pinned: bool = False) -> DataLoader:
    """Loader of 1,000 batches, so that the workers are as busy in the last step as before."""
    # RandomSampler draws without replacement until the images are used up, like shuffle=True.
    sampler = RandomSampler(pictures, num_samples=1_000 * batch)
    return DataLoader(pictures, batch, sampler=sampler, drop_last=True, num_workers=workers, pin_memory=pinned)


def synchronize() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def answer(turn: Callable[[int | None, int, int], float]) -> None:
    """Runs the requested turns until standard input ends."""
    for line in sys.stdin:
        print(json.dumps({"seconds": turn(**json.loads(line))}), flush=True)
