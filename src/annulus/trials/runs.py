"""The runs of one stage, several at a time: on a CPU one a core, on GPUs one each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annulus.compute.device import described, pick_device
from annulus.compute.workers import each
from annulus.config.resolved import RUN, values
from annulus.encoders.extract import extract
from annulus.encoders.features import SPLITS
from annulus.evals.knn import evaluate_knn
from annulus.evals.linear import probe_features
from annulus.files.images import ImageSet, load_images
from annulus.files.results import Number
from annulus.pipeline.checkpoint import Checkpoint, hash_code, hash_files
from annulus.training.loop import Training
from annulus.training.setup import build_training
from annulus.trials.outcomes import Outcome


@dataclass(frozen=True)
class Splits:
    """The images of a study, and what their files hash to."""

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    hashes: Mapping[str, str]


def load_splits(folder: Path) -> Splits:
    """The images that stages/study_images.py has written."""
    parts = (load_images(folder / f"{split}.safetensors") for split in SPLITS)
    return Splits(*parts, hashes=hash_files(folder))


Run = Mapping[str, Any]  # a seed and what config.resolved.RUN names


def run_of(tree: Mapping[str, Any], seed: int) -> Run:
    """A run of resolved settings with a seed."""
    return {"seed": seed} | values(tree, RUN)


class Trials:
    """Runs that belong to one stage; a killed stage goes on with the trials that it had not finished."""

    def __init__(self, stage: str, splits: Splits) -> None:
        self.stage, self.splits, self.device = stage, splits, pick_device()
        self.begun: list[Checkpoint] = []

    def run(self, variants: Mapping[Any, Run]) -> dict[Any, Outcome]:
        """The outcome of each variant, under its key.

        Raises:
            InputError: from the first trial that fails.
        """
        self.begun += [self._checkpoint(params) for params in variants.values()]
        names = [_name(key) for key in variants]
        return dict(
            zip(variants, each(self._one, list(variants.values()), names=names, device=self.device), strict=True)
        )

    def done(self) -> None:
        """Forget the trials' states: the results are written."""
        for checkpoint in self.begun:
            with checkpoint:
                checkpoint.done()

    def _one(self, params: Run) -> Outcome:
        with self._checkpoint(params) as checkpoint:
            state = checkpoint.load()
            if state is not None and "outcome" in state:
                return Outcome(**state["outcome"])
            training = self.training(params)
            history = training.run(checkpoint)
            accuracies, right = probe(training, self.splits, params)
            outcome = Outcome(training.metrics() | accuracies, history, right)
            checkpoint.save({"outcome": vars(outcome)})
        return outcome

    def training(self, params: Run) -> Training:
        """A variant's run at its first step."""
        return build_training(params, self.splits.train, self.splits.validation, self.device)

    def _checkpoint(self, params: Run) -> Checkpoint:
        key = {"params": dict(params), "images": dict(self.splits.hashes), "code": hash_code()}
        return Checkpoint(self.stage, key | {"device": described(self.device)})


def _name(key: Any) -> str:
    """What progress calls a run: a seed, or a point of a grid and a seed."""
    if isinstance(key, tuple):
        *point, seed = key
        return ", ".join([*(str(part) for part in point[0] if part is not None), _name(seed)])
    return f"seed {key}"


def probe(training: Training, splits: Splits, params: Run) -> tuple[dict[str, Number], dict[str, list[bool]]]:
    """kNN and linear probe of the trained encoder's frozen features: accuracies, and which test images are right."""
    features = [
        extract(training.method.encoder, images, ["pooled", "embedding"], training.device)
        for images in (splits.train, splits.validation, splits.test)
    ]
    nearest = evaluate_knn(features[0], features[2], params["knn"])
    linear = probe_features(
        *features, params["linear"], params["scales.${scale}.linear"], params["seed"], training.device
    )
    probes = {
        "linear_top1_percent": (linear, "top1_percent"),
        "knn_top1_percent": (nearest, "top1_percent"),
        "nn1_top1_percent": (nearest, "nn1_top1_percent"),
    }
    accuracies = {name: found.metrics[number] for name, (found, number) in probes.items()}
    return accuracies, {name: found.right[number].tolist() for name, (found, number) in probes.items()}
