"""Equal bits in repeated runs: with the deterministic switch, and after a resume from a saved state."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from annulus.device import device as devices
from annulus.gpu.agreement import same
from annulus.gpu.clock import synchronize
from annulus.gpu.result import CheckResult
from annulus.gpu.trainings import METHODS, Sizes, start, stepping
from annulus.training.loop import Training

STEPS = 6  # half of them before the save


@contextmanager
def deterministic() -> Iterator[None]:
    """Context with `ANNULUS_DETERMINISTIC=yes`."""
    before = os.environ.get("ANNULUS_DETERMINISTIC")
    os.environ["ANNULUS_DETERMINISTIC"] = "yes"
    devices._compute_deterministically()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.deterministic = False
        torch.utils.deterministic.fill_uninitialized_memory = True
        os.environ.pop("ANNULUS_DETERMINISTIC")
        if before is not None:
            os.environ["ANNULUS_DETERMINISTIC"] = before


def part(device: torch.device, sizes: Sizes) -> Iterator[CheckResult]:
    """Compares the weights of two runs with one seed, and of a third that is saved and resumed."""
    with deterministic():
        for method in METHODS:
            first, again, saved, resumed = (
                start(method, "cifar", sizes, device, images=4 * sizes.batch) for _ in range(4)
            )
            for training in (first, again):
                trained(training, STEPS)
            yield same(f"deterministic, {method}", lambda left=first, right=again: equal(left, right))
            trained(saved, STEPS // 2)
            file = io.BytesIO()
            torch.save(saved.state_dict(), file)
            file.seek(0)
            resumed.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
            trained(resumed, STEPS - STEPS // 2)
            yield same(f"resumed, {method}", lambda left=first, right=resumed: equal(left, right))


def trained(training: Training, steps: int) -> None:
    step = stepping(training)
    for _ in range(steps):
        step()
    synchronize()


def equal(left: Training, right: Training) -> bool:
    """Returns True if all weights, statistics and memories have the same bits."""
    others = right.method.state_dict()
    tensors = {name: value for name, value in left.method.state_dict().items() if isinstance(value, torch.Tensor)}
    return all(torch.equal(value.cpu(), others[name].cpu()) for name, value in tensors.items())
