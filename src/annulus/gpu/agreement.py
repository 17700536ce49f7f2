"""Agreement of a GPU's fast paths with the plain paths, on small and hostile inputs."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from annulus.device.trust import trusted
from annulus.encoders import grouped_pass
from annulus.gpu.result import RIGHT, WRONG, CheckResult, reason
from annulus.gpu.trainings import METHODS, Sizes, start, stepping
from annulus.methods.step import Step
from annulus.negatives import threshold
from annulus.negatives.own import SelfIndex
from annulus.training.loop import Observer, Training
from annulus.views import recipe
from annulus.views.sets import view_set

LOSS_TOLERANCE = 0.02  # of a first loss: a GPU's encoder computes in bfloat16


def part(device: torch.device, sizes: Sizes) -> list[CheckResult]:
    """Results for each input of each kernel, and for the first loss of each method."""
    return [*selections(device), *batch_norms(device), *views(device), *losses(device, sizes)]


def same(what: str, agrees: Callable[[], bool]) -> CheckResult:
    """Result of a comparison, or the error that ended it."""
    try:
        return CheckResult(what, "equal", RIGHT) if agrees() else CheckResult(what, "differs", WRONG)
    except Exception as error:  # of a compiler or a driver: any kind
        return CheckResult(what, reason(error), WRONG)


def hostile() -> Iterator[tuple[str, Tensor, SelfIndex]]:
    """Yields names, scores, and own columns."""
    random = torch.Generator().manual_seed(0)
    drawn = torch.randn(5, 5000, generator=random)
    own = torch.randint(5000, (5,), generator=random)
    yield "random", drawn, own
    yield "in bfloat16", drawn.bfloat16(), own
    yield "in float16", drawn.half(), own
    yield "with ties", (3 * drawn).round(), own
    yield "all the same", torch.zeros(5, 5000), own
    yield "with -inf and +inf", drawn.masked_fill(drawn < 0, -torch.inf).masked_fill(drawn > 2, torch.inf), own
    yield "with NaN", drawn.masked_fill(drawn.abs() < 0.5, torch.nan), own
    yield "all NaN", torch.full((5, 5000), torch.nan), own
    yield "non-contiguous", torch.randn(5000, 5, generator=random).T, own
    yield "one row for all queries", torch.randn(1, 5000, generator=random).expand(5, -1), own
    yield "one query", drawn[:1], own[:1]
    yield "two columns", drawn[:, :2], None
    yield "up to three own columns", drawn, torch.tensor([[0, 1, -1]]).expand(5, -1)
    yield "no query", drawn[:0], None


def selections(device: torch.device) -> Iterator[CheckResult]:
    """Compares `bisection.select` with sorting: whole lists, and lookups at places with another memory order."""
    for name, scores, own in hostile():
        count = scores.shape[1]
        first, last = count // 10, max(count // 2, 1)
        places = torch.randint(last - first, (7, len(scores)), generator=torch.Generator().manual_seed(1)).T

        def agrees(picked: Tensor | None, scores=scores, own=own, ranks=(first, last)) -> bool:
            on_device = [None if tensor is None else tensor.to(device) for tensor in (own, picked)]
            columns = threshold.by_kernels(scores.to(device), on_device[0], *ranks, on_device[1])
            return torch.equal(columns.cpu(), threshold.plain(scores, own, *ranks, picked))

        yield same(f"select, {name}", lambda agrees=agrees, places=places: agrees(None) and agrees(places))


def batch_norms(device: torch.device) -> Iterator[CheckResult]:
    """Compares grouped batch-norm by kernels with PyTorch's on a CPU in float64: all types, and uneven shapes."""
    by_kernels = trusted("annulus.encoders.grouped_kernels", grouped_pass.kernels_agree, device)
    row = same("batch-norm, fixed inputs", lambda: grouped_pass.kernels_agree(device))
    yield row._replace(used="kernels are used" if by_kernels else "plain PyTorch is used")
    random = torch.Generator().manual_seed(0)
    for name, shape, groups in (
        ("wide images", (68, 64, 32, 32), 4),
        ("many channels", (16, 512, 4, 4), 4),
        ("rows", (256, 128), 4),
        ("two values", (8, 16, 1, 1), 4),
        ("one group", (3, 48, 7, 5), 1),
        ("more groups than programs", (1200, 32), 600),
    ):
        drawn = torch.randn(shape, generator=random)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            agrees = partial(grouped_pass.agrees, drawn, groups, device, dtype)
            yield same(f"batch-norm, {name}, {str(dtype).removeprefix('torch.')}", agrees)


def views(device: torch.device) -> Iterator[CheckResult]:
    """Compares views by kernels with a CPU's: shapes, strides and colours with frequent faults."""
    by_kernels = trusted("annulus.views.kernels", recipe.kernels_agree, device)
    row = same("views, every operator", lambda: recipe.kernels_agree(device))
    yield row._replace(used="kernels are used" if by_kernels else "plain PyTorch is used")
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (6, 3, 21, 17), generator=random, dtype=torch.uint8)
    for name, images in {
        "one image": pixels[:1],
        "no image": pixels[:0],
        "non-contiguous": pixels.flip(0).permute(0, 1, 3, 2),
        "black and white": (pixels > 127).byte() * 255,
        "one pixel": pixels[:, :, :1, :1],
    }.items():

        def agrees(images=images) -> bool:
            sizes = torch.tensor([images.shape[2:]]).expand(len(images), 2)
            drawn = recipe.draw_recipe(view_set("standard"), sizes, torch.Generator().manual_seed(2))
            views = recipe._by_kernels(images.to(device), drawn, 16).cpu()
            difference = (views - recipe.by_chunks(images, drawn, 16)).abs()
            return not len(images) or (float(difference.max()) < 2e-3 and float(difference.mean()) < 1e-5)

        yield same(f"views, {name}", agrees)


class LastLoss(Observer):
    """The loss of the last step, in nats."""

    nats: float

    def after_step(self, training: Training, index: Int[Tensor, "all"], step: Step) -> None:
        self.nats = float(step.estimate.loss_nats)


def losses(device: torch.device, sizes: Sizes) -> Iterator[CheckResult]:
    """Compares a first loss on the GPU with a CPU's: the same weights, views and memory; IR draws other rows."""
    for method in METHODS:

        def agrees(method=method) -> bool:
            sides = (torch.device("cpu"), device)
            expected, actual = (start(method, "cifar", sizes, side, images=4 * sizes.batch) for side in sides)
            state = expected.method.state_dict()
            tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
            actual.method.load_state_dict(tensors, strict=False)  # without random states, which depend on the device
            losses = []
            for training in (expected, actual):
                watched = LastLoss()
                training.observers.append(watched)
                stepping(training)()
                losses.append(watched.nats)
            return abs(losses[1] / losses[0] - 1) < LOSS_TOLERANCE

        yield same(f"first loss, {method}", agrees)
