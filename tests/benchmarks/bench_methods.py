"""MoCo and SimCLR: images per second against other libraries' recipes and the bare step, and MoCoRing's cost.

`bench_methods.py stems` compares MoCo with both stems, in batches of 32 and 256. One is the stem for small images, with
which ResNets of 32 pixels are trained. It takes half an hour of a core. `bench_methods.py stable_pretraining` compares
both methods, or the one named behind, with that library alone, in batches of 32 and 256. It takes five minutes each.

All sides use ResNet-18, 32 pixels, the same images, kinds of augmentation, heads and number of keys. Turns of a few
steps go round all contestants. Other libraries run in processes of their own: lightly_recipe.py follows lightly's
examples (with `stems` also a tuned form), stable_pretraining_recipe.py follows that library's scripts. Each tries
several numbers of loader workers up to the number of cores, and the fastest counts. On a GPU our networks and the tuned
ones compute in bfloat16, and ours once more with ANNULUS_COMPILE=graphs. On a CPU all compute in float32.

A bare step is the work that every pipeline must do, on random views: encoders forward and backward, the plain loss over
all scores, the optimiser, and the memory's update, without a sampler. Another library's bare step is its own step on
random views. Whole epochs, with validation, stand beside the same number of bare steps.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

import numpy as np
import torch
from steps import PARAMS, epoch_sets, epochs_of_bare, training, whole_step
from timing import calls_per_turn, synchronize, write
from torch import Tensor

from annulus.bounds.infonce import infonce
from annulus.datasets.shapes import CLASSES, draw_shapes, row_classes
from annulus.device.device import autocast, pick_device
from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus.methods.simclr import SimCLR
from annulus.training.loop import Training

IMAGES, BATCH, SIZE, QUEUE, LONG_QUEUE = 4_096, 256, 32, 4_096, 65_536
GRAPH_STEPS = 12  # torch compiles and captures within them
SMALL_BATCH = 32  # of most CIFAR-10 runs in this repository
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
FEW_CORES = 4  # with more cores, the fastest loader has several workers
HEADS = {"moco": "mlp", "simclr": "mlp-bn"}  # MoCo v2's, and lightly's for SimCLR
TEMPERATURES = {"moco": 0.2, "simclr": 0.5}
STEMS = (
    ("cifar", SMALL_BATCH, 3, 3),
    ("cifar", BATCH, 2, 1),
    ("imagenet", SMALL_BATCH, 3, 12),
    ("imagenet", BATCH, 3, 3),
)
STABLE_STEPS = ((SMALL_BATCH, 3, 6), (BATCH, 3, 2))
# Library (its recipe is LIBRARY_recipe.py) and options of its command before the method.
LIGHTLY = {"lightly": ("lightly", "plain")}
STABLE = {"stable_pretraining": ("stable_pretraining",)}
TUNED = {"lightly_tuned": ("lightly", "tuned")}  # with channels last and the allocator
BRINGS = {
    "lightly": "`make install` brings it",
    "stable_pretraining": "`pip install stable-pretraining` brings it, with many packages",
}

Turn = Callable[[], float]  # seconds per step
# Seconds per step from workers (None: a bare step), warm-up steps and timed steps.
PeerTurn = Callable[[int | None, int, int], float]


def make_images(count: int, pixels: Tensor) -> ImageSet:
    rows = np.arange(count)
    labels = torch.from_numpy(row_classes(rows)).long()
    return ImageSet(Resident(pixels), labels, torch.from_numpy(rows).long(), CLASSES)


def build_run(
    method: str,
    sampler: str,
    stem: str,
    queue: int,
    batch: int,
    images: ImageSet,
    device: torch.device,
    validation: ImageSet | None = None,
    scale: Mapping[str, int] = MappingProxyType({}),
) -> Training:
    """Builds a training, by default without validation images."""
    views = PARAMS.view_sets["standard" if method == "moco" else "strong"]
    changes = {
        "method": {"head": HEADS[method], "temperature": TEMPERATURES[method], "negatives": "all"},
        "budget": {"batch_size": batch, "queue": queue, **scale},
        "views": vars(views) | {"blur": None},  # the same kinds of views as the others'
    }
    validation_images = images.take(torch.arange(0)) if validation is None else validation
    return training(method, sampler, stem, changes, images, validation_images, device)


def timed_turn(step: Callable[[], None], warm: int, steps: int) -> Turn:
    """Turn that times `steps` steps after `warm` others: the contestant before left its data in the caches."""

    def turn() -> float:
        for number in range(warm + steps):
            if number == warm:
                synchronize()
                started = time.perf_counter()
            step()
        synchronize()
        return (time.perf_counter() - started) / steps

    return turn


def bare_step(run: Training, batch: int) -> Callable[[], None]:
    method, device, random = run.method, run.device, torch.Generator(run.device).manual_seed(0)
    views = [torch.rand(batch, 3, SIZE, SIZE, generator=random, device=device) for _ in range(2)]
    index = torch.randperm(IMAGES, generator=random, device=device)[:batch]
    temperature = method.params.temperature
    itself = torch.eye(2 * batch, dtype=torch.bool, device=device)
    method.train()

    def learn(positives: Tensor, negatives: Tensor) -> None:
        run.optimizer.zero_grad()
        infonce(positives, negatives).backward()
        run.optimizer.step()

    def moco() -> None:
        with autocast(device):
            query = method.encoder(views[0])
        [key], scaled = method.keys(views[1]), query / temperature
        learn((scaled * key).sum(dim=1, keepdim=True), scaled @ method.queues[0].keys.T)
        method.keys.follow(method.encoder)
        method.queues[0].push(key, index)

    def simclr() -> None:
        with autocast(device):
            embedding = method.encoder(torch.cat(views))
        scores = (embedding / temperature) @ embedding.T
        # Two views of one image are `batch` rows apart.
        positives = torch.cat([scores.diagonal(batch), scores.diagonal(-batch)])[:, None]
        learn(positives, scores.masked_fill(itself | itself.roll(batch, dims=1), -torch.inf))

    return simclr if isinstance(method, SimCLR) else moco


@contextmanager
def recipe(library: str, *options: str, method: str, stem: str, batch: int, images: Path) -> Iterator[PeerTurn]:
    """Yields the turns of a process that runs the library's recipe and waits between turns."""
    script = Path(__file__).with_name(f"{library}_recipe.py")
    command = [sys.executable, script, *options, method, stem, str(batch), images]
    # At the end of the block the input closes, and the recipe ends.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def turn(workers: int | None, warm: int, steps: int) -> float:
            print(json.dumps({"workers": workers, "warm": warm, "steps": steps}), file=process.stdin, flush=True)
            for answer in process.stdout:
                if answer.startswith('{"seconds"'):
                    return json.loads(answer)["seconds"]
                print(answer, end="", file=sys.stderr)  # of the library itself
            raise RuntimeError(f"{script.name} broke off; its own message stands above")

        yield turn


def go_round(contestants: Mapping[str, Turn], turns: int) -> dict[str, float]:
    """Median seconds per step of each contestant, in turns, so that other load on the machine slows all alike."""
    rounds = [{name: turn() for name, turn in contestants.items()} for _ in range(turns)]
    return {name: statistics.median(each[name] for each in rounds) for name in contestants}


def installed(peers: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Returns the peers whose library can be imported, and prints how to install each other library."""
    libraries = {library for library, *_ in peers.values()}
    missing = {library for library in libraries if find_spec(library) is None}
    for library in sorted(missing):
        print(f"without {library}'s rows: it is not installed; {BRINGS[library]}")
    return {name: peer for name, peer in peers.items() if peer[0] not in missing}


def against_peers(
    method: str,
    stem: str,
    batch: int,
    turns: int,
    steps: int,
    peers: Mapping[str, tuple[str, ...]],
    device: torch.device,
) -> dict[str, float | int]:
    """Rates and ratios of one method with one stem."""
    pixels = draw_shapes(np.arange(IMAGES), SIZE, 0)
    images = make_images(IMAGES, pixels)
    runs = [build_run(method, "uniform", stem, QUEUE, batch, images, device) for _ in range(2)]
    bare, ours = bare_step(runs[0], batch), whole_step(runs[1])
    contestants = {"bare": timed_turn(bare, 1, steps), "ours": timed_turn(ours, 1, steps)}
    if device.type == "cuda":
        with patch.dict(os.environ, ANNULUS_COMPILE="graphs"):
            graphs = whole_step(build_run(method, "uniform", stem, QUEUE, batch, images, device))
        for _ in range(GRAPH_STEPS):
            graphs()
        contestants["graphs"] = timed_turn(graphs, 1, steps)
    workers = sorted({CORES // 2, CORES} | ({0, 1} if CORES <= FEW_CORES else set()))
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "images.pt"
        torch.save(pixels, path)
        for name, peer in peers.items():
            theirs = stack.enter_context(recipe(*peer, method=method, stem=stem, batch=batch, images=path))
            contestants[f"{name}_bare"] = partial(theirs, None, 1, steps)
            for count in workers:
                # A worker prepares two batches ahead: its lead is steady after one step more than that.
                contestants[f"{name}_{count}"] = partial(theirs, count, 2 * count + 1, steps)
        seconds = go_round(contestants, turns)
    numbers = {"images_per_second": batch / seconds["ours"], "percent_of_bare": 100 * seconds["bare"] / seconds["ours"]}
    if "graphs" in seconds:
        numbers["graphs_images_per_second"] = batch / seconds["graphs"]
    for name in peers:
        best = min(workers, key=lambda count, name=name: seconds[f"{name}_{count}"])
        best_seconds = seconds[f"{name}_{best}"]
        numbers |= {
            f"times_{name}": best_seconds / seconds["ours"],
            f"bare_times_{name}_bare": seconds[f"{name}_bare"] / seconds["bare"],
            f"{name}_images_per_second": batch / best_seconds,
            f"{name}_percent_of_bare": 100 * seconds[f"{name}_bare"] / best_seconds,
            f"{name}_workers": best,
        }
        if "graphs" in seconds:
            numbers[f"graphs_times_{name}"] = best_seconds / seconds["graphs"]
    suffix = "" if batch == BATCH else f"_batch_{batch}"
    return {f"{method}_{stem}_stem{suffix}_{name}": number for name, number in numbers.items()}


def epochs(device: torch.device) -> dict[str, float | int]:
    """Epochs of each method with the stem for large images, with validation, against the same number of bare steps."""
    images, validation, scale = epoch_sets(BATCH, SIZE, device)
    runs, others = (
        {
            name: build_run(name, "uniform", "imagenet", QUEUE, BATCH, images, device, validation, scale)
            for name in HEADS
        }
        for _ in range(2)
    )
    percent = epochs_of_bare(runs, {name: bare_step(run, BATCH) for name, run in others.items()}, device)
    return {name.replace("_", "_imagenet_stem_", 1): number for name, number in percent.items()} | {
        "epoch_images": len(images)
    }


def ring_against_all(device: torch.device) -> dict[str, float | int]:
    """Step time of MoCoRing over MoCo's, both with the long queue, each image's key in it, all members used."""
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (LONG_QUEUE, 3, SIZE, SIZE), generator=random, dtype=torch.uint8)
    images, steps = make_images(LONG_QUEUE, pixels), {}
    bare = partial(bare_step, batch=BATCH)
    contestants = {"bare": ("uniform", bare), "all": ("uniform", whole_step), "ring": ("ring", whole_step)}
    for name, (sampler, step) in contestants.items():
        run = build_run("moco", sampler, "imagenet", LONG_QUEUE, BATCH, images, device)
        run.method.queues[0].images.copy_(torch.randperm(LONG_QUEUE, generator=random))
        steps[name] = timed_turn(step(run), 1, max(4, calls_per_turn(device)))
    seconds = go_round(steps, 7)
    return {
        "moco_ring_over_moco": seconds["ring"] / seconds["all"],
        "moco_ring_over_bare_moco": seconds["ring"] / seconds["bare"],
        "moco_ring_queue": LONG_QUEUE,
    }


def main() -> None:
    device, (part, *chosen) = pick_device(), sys.argv[1:] or [""]
    name = "_".join(["methods", part, *chosen]) if part in ("stems", "stable_pretraining") else "methods"
    numbers: dict[str, float | int] = {"batch": BATCH, "pixels": SIZE, "queue": QUEUE}
    least = calls_per_turn(device)
    if part == "stems":
        # Steps of the stem for small images take ten times as long and hide a loader: a turn has fewer of them.
        peers = installed(LIGHTLY | TUNED)
        rows = [row for row in STEMS if not chosen or [row[0], str(row[1])] == chosen]
        for stem, batch, turns, steps in rows:
            numbers |= against_peers("moco", stem, batch, turns, max(steps, least), peers, device)
    elif part == "stable_pretraining":
        peers = installed(STABLE)
        for method in chosen or HEADS:
            for batch, turns, steps in STABLE_STEPS:
                numbers |= against_peers(method, "imagenet", batch, turns, max(steps, least), peers, device)
    else:
        peers = installed(LIGHTLY | STABLE)
        for method in HEADS:
            numbers |= against_peers(method, "imagenet", BATCH, 3, max(8, least), peers, device)
        numbers |= ring_against_all(device) | epochs(device)
    write(name, device, **numbers)


if __name__ == "__main__":
    main()
