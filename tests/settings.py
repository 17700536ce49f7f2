"""The stated params.yaml with some values changed, the settings of the pretrain stage in it, and small images.

refusal({"samplers.ring.outer": 2.0})           # the user's error
run({"method": "moco", "sampler": "ball"})      # a Training whose steps take milliseconds
"""

from typing import TYPE_CHECKING, Any

import pytest
import torch
from stated import TREE, replaced

from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus.training.run import TrainingRun
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.file import checked
from annulus_lab.config.resolved import PRETRAIN, build_run

if TYPE_CHECKING:
    from annulus.running.checkpoint import Checkpoint
    from annulus.training.loop import Observer, Training

CPU = torch.device("cpu")

# With 16 pixels, 70 images and batches of 16: three epochs of four steps.
SMALL = {
    "scale": "tiny",
    "backbone": "alexnet-fast",
    "views": "standard",
    "datasets.shapes.image_size": 16,
    "datasets.shapes.view_size": 16,
    "scales.tiny.prepare.train_images": None,  # counted when a training is built
    "scales.tiny.pretrain": {"epochs": 3, "batch_size": 16, "negatives": 12, "queue": 32}
    | {"learning_rate": 0.48, "validation_images": None},
    "samplers.ball.outer": 0.5,
    "samplers.ring": {"outer": 0.5, "inner": 0.1},
    # Clusters are larger than a ball of the rest of the batch only if they are few.
    "samplers.cave": {"outer": 0.5, "clusters": 20, "runs": 2, "iterations": 3, "keep": "outside"},
    "neighbour_sets.s": {"share": 0.1, "start": 0.05, "until": 0.5, "in_denominator": False},
    "neighbour_sets.k": {"clusters": 8, "runs": 2, "iterations": 3, "start": 0.05, "in_denominator": True},
    "bounds.mlcpc.alpha_start": 2.0,
    **{f"methods.{method}.embedding_dim": 8 for method in TREE["methods"]},
}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The stated tree with the values at some keys replaced or removed."""
    return replaced(TREE, changes)


def load(changes: dict[str, Any]) -> AllParams:
    """The stated params.yaml with some values changed, checked like a file."""
    return checked(changed(changes), "params.yaml")


def chosen(method: str) -> dict[str, Any]:
    """A method by its name, or `cmc`: ir with the split lab."""
    return {"method": "ir", "split": "lab"} if method == "cmc" else {"method": method}


def refusal(changes: dict[str, Any]) -> str:
    """Error of the user for some changed values: one line per fault, without the file's name."""
    with pytest.raises(InputError) as refused:
        load(changes)
    lines = str(refused.value).splitlines()
    assert all(line.startswith("params.yaml: ") for line in lines)
    return "\n".join(line.removeprefix("params.yaml: ") for line in lines)


def read(changes: dict[str, Any]) -> TrainingRun:
    """The settings of a pretraining, small and with some values changed; `seed` among them."""
    params = load(SMALL | {key: value for key, value in changes.items() if key != "seed"})
    return build_run({name: params.get(name) for name in PRETRAIN}, changes.get("seed", 0))


def stripes(images: int, seed: int) -> ImageSet:
    """Two classes that stay apart under every view: stripes across and along, of random colours."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(images) % 2
    waves = torch.arange(16) // 2 % 2 * 120
    across = waves.view(1, 1, 16, 1).expand(images, 3, 16, 16)
    pixels = torch.where(labels.view(-1, 1, 1, 1) == 0, across, across.transpose(2, 3))
    colour = torch.randint(0, 100, (images, 3, 1, 1), generator=random)
    store = Resident((pixels + colour).to(torch.uint8))
    return ImageSet(store, labels, torch.arange(images) + 1000, ("across", "along"))


def run(changes: dict[str, Any], images: int = 70, validation: int = 10) -> "Training":
    """A training at its first step."""
    from annulus.training.setup import build_training  # has file locks, which Windows lacks

    return build_training(read(changes), stripes(images, 0), stripes(validation, 1), CPU)


def observer(training: "Training", kind: type["Observer"]) -> "Observer":
    """The training's only observer of this kind."""
    [only] = [each for each in training.observers if isinstance(each, kind)]
    return only


class Killed(Exception):
    pass


def killed_after(run: "Training", steps: int, checkpoint: "Checkpoint") -> None:
    """Runs some steps with a save after each one, then stops like a kill, between two steps."""
    step, done = run.step, 0

    def count_step(order):
        nonlocal done
        if done == steps:
            raise Killed
        if done > 0:
            checkpoint.save(run.state_dict())
        done += 1
        step(order)

    run.step = count_step
    with pytest.raises(Killed):
        run.run(checkpoint)
    run.step = step
    checkpoint.save(run.state_dict())
