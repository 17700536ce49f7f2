"""lightly's own MoCo and SimCLR at 32 pixels, timed in a process of their own.

    lightly_recipe.py plain|tuned METHOD STEM BATCH IMAGES

The recipe follows lightly's example scripts (examples/pytorch/moco.py and simclr.py, 1.6): torchvision's ResNet-18,
two-layer heads, temperature 0.5, plain SGD at 0.06, for MoCo a bank of 4,096 keys and a momentum encoder, batches from
a DataLoader over PIL images that are held in memory. Blur is off, as in lightly's CIFAR benchmark and SimCLR example,
though not in its MoCo example. STEM cifar takes lightly's ResNetGenerator, as that benchmark does. `tuned` adds
changes of a few lines that the examples lack: networks and views channels last, an allocator that keeps freed memory,
as in annulus, and on a GPU bfloat16, pinned batches and cuDNN's search. peer_recipe.py describes requests and answers.
"""

import copy
import ctypes
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torchvision
from lightly.loss import NTXentLoss
from lightly.models import ResNetGenerator
from lightly.models.modules import MoCoProjectionHead, SimCLRProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from lightly.transforms import MoCoV2Transform, SimCLRTransform
from lightly.utils.scheduler import cosine_schedule
from peer_recipe import DEVICE, LEARNING_RATE, QUEUE, SIZE, Pictures, answer, loader, synchronize
from torch import Tensor, nn

EPOCHS = 10  # over which MoCo's momentum goes from 0.996 to 1


class MoCo(nn.Module):
    transform = MoCoV2Transform(input_size=SIZE, gaussian_blur=0.0)

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, MoCoProjectionHead(512, 512, 128)
        self.key_backbone, self.key_head = copy.deepcopy(self.backbone), copy.deepcopy(self.head)
        deactivate_requires_grad(self.key_backbone)
        deactivate_requires_grad(self.key_head)
        self.criterion = NTXentLoss(memory_bank_size=(QUEUE, 128))

    def forward(self, views: list[Tensor]) -> Tensor:
        momentum = cosine_schedule(0, EPOCHS, 0.996, 1)
        update_momentum(self.backbone, self.key_backbone, m=momentum)
        update_momentum(self.head, self.key_head, m=momentum)
        query = self.head(self.backbone(views[0]).flatten(start_dim=1))
        key = self.key_head(self.key_backbone(views[1]).flatten(start_dim=1)).detach()
        return self.criterion(query, key)


class SimCLR(nn.Module):
    transform = SimCLRTransform(input_size=SIZE, gaussian_blur=0.0)

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, SimCLRProjectionHead(512, 512, 128)
        self.criterion = NTXentLoss()

    def forward(self, views: list[Tensor]) -> Tensor:
        return self.criterion(*(self.head(self.backbone(view).flatten(start_dim=1)) for view in views))


class Recipe:
    """The model with its optimiser, and turns of its training loop."""

    def __init__(self, method: str, stem: str, batch: int, tuned: bool, images: Tensor) -> None:
        torch.manual_seed(0)
        self.batch, self.layout = batch, torch.channels_last if tuned else torch.preserve_format
        self.tuned_gpu = tuned and DEVICE.type == "cuda"
        torch.backends.cudnn.benchmark = self.tuned_gpu
        self.model = {"moco": MoCo, "simclr": SimCLR}[method](backbone(stem)).to(DEVICE, memory_format=self.layout)
        self.pictures = Pictures(images, self.model.transform)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE)

    def batches(self, workers: int | None) -> Iterator[list[Tensor]]:
        if workers is None:
            views = [self.placed(torch.randn(self.batch, 3, SIZE, SIZE)) for _ in range(2)]
            while True:
                yield views
        for views, _ in loader(self.pictures, self.batch, workers, pinned=self.tuned_gpu):
            yield [self.placed(view) for view in views]

    def placed(self, view: Tensor) -> Tensor:
        return view.to(DEVICE, memory_format=self.layout, non_blocking=self.tuned_gpu)

    def step(self, views: list[Tensor]) -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=self.tuned_gpu):
            loss = self.model(views)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def turn(self, workers: int | None, warm: int, steps: int) -> float:
        """Seconds per step over `steps` steps, after `warm` others that make the workers' lead steady."""
        batches = self.batches(workers)
        for number in range(warm + steps):
            if number == warm:
                synchronize()
                started = time.perf_counter()
            self.step(next(batches))
        synchronize()
        seconds = time.perf_counter() - started
        batches.close()  # ends the workers
        return seconds / steps


def backbone(stem: str) -> nn.Module:
    """ResNet-18 without its classifier."""
    if stem == "cifar":
        return nn.Sequential(*list(ResNetGenerator("resnet-18").children())[:-1], nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*list(torchvision.models.resnet18().children())[:-1])


def main() -> None:
    form, method, stem, batch, images = sys.argv[1:]
    if form == "tuned" and sys.platform == "linux":
        for option, value in ((-4, 0), (-1, 2**31 - 1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD
            ctypes.CDLL(None).mallopt(option, value)
    answer(Recipe(method, stem, int(batch), form == "tuned", torch.load(Path(images))).turn)


if __name__ == "__main__":
    main()
