"""Copies from pinned memory, without a wait of the host for a GPU. `device.checks` does the same for checks."""

from collections.abc import Sequence

import torch
from torch import Tensor


def to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copies tensors of the host to a device: one transfer from pinned memory, without waiting for it."""
    if device.type == "cpu" or not tensors:
        return list(tensors)
    # With larger numbers first, each tensor begins at a multiple of the size of its numbers.
    order = sorted(range(len(tensors)), key=lambda place: -tensors[place].element_size())
    parts = [tensors[place].contiguous().view(-1).view(torch.uint8) for place in order]
    arrived = torch.cat(parts).pin_memory().to(device, non_blocking=True)
    copies = list(tensors)
    for place, part in zip(order, arrived.split([len(part) for part in parts]), strict=True):
        copies[place] = part.view(tensors[place].dtype).view(tensors[place].shape)
    return copies
