"""Long memories: all of a queue of 65,536 keys, a row for each image of ImageNet, and one for each of CIFAR-10.

The time of the loss, forward and backward, is divided by the time of the product that makes all scores. A ring and
uniform negatives over ImageNet's rows are also measured by their peak memory, in units of the scores.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from timing import calls_per_turn, medians, write
from torch import Tensor

from annulus.bounds.infonce import InfoNCE
from annulus.device.device import keep_freed_memory, pick_device
from annulus.methods.contrast import Contrast
from annulus.methods.contrast_config import ContrastConfig
from annulus.negatives.samplers import Ring, Sampler, Uniform
from annulus.negatives.scores import Products

DIM, REPETITIONS = 128, 11
QUERIES, KEYS = 64, 65_536
BATCH, ROWS, NEGATIVES = 256, 1_281_167, 4_096
FEW_ROWS, FEW = 50_000, 256  # the negatives that the studies of CIFAR-10 draw
TEMPERATURE = 0.2


def unit(count: int, random: torch.Generator) -> Tensor:
    vectors = torch.randn(count, DIM, generator=random, device=random.device)
    return F.normalize(vectors, dim=1, out=vectors)


def bank_step(sampler: Sampler, negatives: int, queries: Tensor, bank: Tensor, own: Tensor) -> Callable[[], None]:
    """Loss and gradient of queries whose positive is their own row in a bank."""
    contrast = Contrast(ContrastConfig(sampler, None, InfoNCE(), negatives), len(bank), 0, bank.device)

    def step() -> None:
        leaf = queries.detach().requires_grad_()
        contrast(Products(leaf / TEMPERATURE, bank), own, self_index=own).loss.backward()

    return step


def queue_step(queries: Tensor, keys: Tensor) -> Callable[[], None]:
    """Loss and gradient of queries whose positive is their key. Negatives: a whole queue with an older such key."""
    contrast = Contrast(ContrastConfig(Uniform(), None, InfoNCE(), "all"), len(keys), 0, keys.device)
    index = torch.arange(len(queries), device=keys.device)
    own = torch.stack([index, torch.full_like(index, -1)], dim=1)

    def step() -> None:
        leaf = queries.detach().requires_grad_()
        scaled = leaf / TEMPERATURE
        positive = (scaled * keys[-len(queries) :]).sum(dim=1)
        contrast(Products(scaled, keys), index, self_index=own, positive=positive).loss.backward()

    return step


def peak_bytes(step: Callable[[], None], device: torch.device) -> int:
    """Peak memory of a step beyond the memory held before it. On a CPU: resident memory, as Linux counts it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        step()
        return torch.cuda.max_memory_allocated(device) - before
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets the peak to the present value
    before = resident("VmRSS")
    step()
    return resident("VmHWM") - before


def resident(name: str) -> int:
    [line] = (
        line for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if line.startswith(name)
    )
    return int(line.split()[1]) * 1024


def main() -> None:
    device = pick_device()
    keep_freed_memory()
    random = torch.Generator(device).manual_seed(0)
    rows = unit(ROWS, random)
    queries, own = unit(BATCH, random), torch.randint(ROWS, (BATCH,), generator=random, device=device)
    samplers = {"ring": Ring(inner=0.01, outer=0.1), "uniform": Uniform()}
    steps = {name: bank_step(sampler, NEGATIVES, queries, rows, own) for name, sampler in samplers.items()}
    peaks = {name: peak_bytes(step, device) / (BATCH * ROWS * 4) for name, step in steps.items()}
    seconds = medians({**steps, "product": lambda: queries @ rows.T}, REPETITIONS // 3)
    calls = calls_per_turn(device)
    small = rows[:FEW_ROWS].clone()
    few = bank_step(Uniform(), FEW, queries, small, own % FEW_ROWS)
    few_seconds = medians({"few": few, "product": lambda: queries @ small.T}, REPETITIONS, calls)

    keys, queries = rows[:KEYS].clone(), queries[:QUERIES]
    queue = queue_step(queries, keys)
    queue_seconds = medians({"all": queue, "product": lambda: queries @ keys.T}, REPETITIONS, calls)
    write(
        "memory",
        device,
        all_of_queue_over_product=queue_seconds["all"] / queue_seconds["product"],
        few_over_product=few_seconds["few"] / few_seconds["product"],
        **{f"{name}_over_product": seconds[name] / seconds["product"] for name in samplers},
        **{f"{name}_peak_over_scores": peak for name, peak in peaks.items()},
        ring_seconds=seconds["ring"],
        few=FEW,
        few_rows=FEW_ROWS,
        batch=BATCH,
        rows=ROWS,
        negatives=NEGATIVES,
        queue=KEYS,
        queue_batch=QUERIES,
        dim=DIM,
    )


if __name__ == "__main__":
    main()
