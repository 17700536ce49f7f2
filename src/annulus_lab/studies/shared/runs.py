"""Runs of one stage, several at a time: one per core on a CPU, one per GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annulus.device.device import pick_device
from annulus.encoders.extract import extract
from annulus.encoders.features import SPLITS
from annulus.evals.knn import KnnSettings, evaluate_knn
from annulus.evals.linear import probe_features, probe_views
from annulus.evals.linear_settings import LinearBudget, LinearSettings
from annulus.files.images import ImageSet, load_images
from annulus.files.results import Number
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint, hash_images
from annulus.running.code import hash_code
from annulus.running.workers import map_processes
from annulus.training.loop import Training
from annulus.training.run import TrainingRun
from annulus.training.setup import build_training
from annulus.views.learned import LearnedSplit
from annulus_lab.config.resolved import RUN, build_run, values
from annulus_lab.studies.shared.closeness import closeness
from annulus_lab.studies.shared.information import check_pairs, held_out
from annulus_lab.studies.shared.measured import Outcome
from annulus_lab.studies.shared.segments import Segments, evaluate_segments
from annulus_lab.studies.shared.store import CachedRun


@dataclass(frozen=True)
class Splits:
    """Images of a study, and the hashes of their files."""

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    hashes: Mapping[str, str]


def load_splits(folder: Path) -> Splits:
    """Reads the images that stages/study_images.py wrote."""
    parts = (load_images(folder / f"{split}.safetensors") for split in SPLITS)
    return Splits(*parts, hashes=hash_images(folder))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Settings of a pretraining and of the evaluation of its frozen encoder.

    The outcome depends on these, on the images and on the code.
    """

    run: TrainingRun
    knn: KnnSettings
    linear: LinearSettings
    linear_budget: LinearBudget
    held_out_pairs: int | None  # test images whose two views give the information estimate; None: none
    closeness_views: int | None  # views whose closest rows are measured; None: none
    segments: Segments | None  # images with a class for each pixel, which a decoder predicts; None: none


def hash_trial() -> dict[str, str]:
    """SHA-256 by file of the code behind any trial's numbers: this file and its imports. Stages add only parameters."""
    return hash_code(Path(__file__))


class TrialCode:
    """Code of trials, without the methods, bounds and samplers that they do not choose.

    So an edit of another sampler does not repeat a run. The code of each set of choices is read once, at its first
    trial: an edit while runs wait for a worker changes no run.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[type, ...], dict[str, str]] = {}

    def hashes(self, trial: Trial) -> dict[str, str]:
        """SHA-256 by file."""
        run = trial.run
        chosen = tuple(type(setting) for setting in (run.method, run.bound, run.sampler, run.neighbours, run.annealing))
        if chosen not in self._read:
            self._read[chosen] = hash_code(Path(__file__), chosen)
        return self._read[chosen]


def build_trial(
    tree: Mapping[str, Any],
    seed: int,
    held_out_pairs: int | None = None,
    generator: Path | None = None,
    segments: Segments | None = None,
    closeness_views: int | None = None,
) -> Trial:
    """Builds a trial from resolved settings and a seed.

    With the file of a view generator, its two views replace the settings' split, and its SHA-256 is part of the run.

    Raises:
        InputError: when the generator's file cannot be read.
    """
    chosen = values(tree, RUN)
    return Trial(
        run=build_run(chosen, seed, None if generator is None else LearnedSplit.of(generator)),
        knn=chosen["knn"],
        linear=chosen["linear"],
        linear_budget=chosen["scales.${scale}.linear"],
        held_out_pairs=held_out_pairs,
        closeness_views=closeness_views,
        segments=segments,
    )


class Trials:
    """Runs over the same images. Each trains once, in the first process that needs it, and the store keeps its outcome.

    A killed run resumes from its last state.
    """

    def __init__(self, splits: Splits) -> None:
        self.splits, self.device, self.code = splits, pick_device(), TrialCode()

    def run(self, variants: Mapping[Any, Trial]) -> dict[Any, Outcome]:
        """Outcomes of the variants, under their keys. Waits for runs that another process trains.

        Raises:
            InputError: when a run fails, from the first one; before any run, when held-out pairs exceed test images.
        """
        for trial in variants.values():
            check_pairs(trial.held_out_pairs or 0, self.splits.test)
        runs = {key: self.cached(trial) for key, trial in variants.items()}
        outcomes = {run.name: outcome for run in runs.values() if (outcome := run.read())}
        if outcomes:
            progress.say(
                f"{len(outcomes)} of {len({run.name for run in runs.values()})} runs have their outcome in "
                ".annulus/outcomes and train no more (remove that folder to train them again)"
            )
        # Variants with the same settings are one run and train once.
        missing = {run.name: key for key, run in runs.items() if run.name not in outcomes}
        names = [f"run {i} of {len(missing)}, {run_name(key)}" for i, key in enumerate(missing.values(), 1)]
        trials = [variants[key] for key in missing.values()]
        outcomes |= zip(missing, map_processes(self._one, trials, names=names, device=self.device), strict=True)
        return {key: outcomes[run.name] for key, run in runs.items()}

    def cached(self, trial: Trial) -> CachedRun:
        """Entry of the run in the store of outcomes."""
        return CachedRun(trial, self.splits.hashes, self.code.hashes(trial), self.device)

    def train(self, trial: Trial, cached: CachedRun) -> Outcome:
        """Trains, probes, and stores the outcome; call it within the `with` block of the run's checkpoint.

        Raises:
            InputError: when the loss is not finite, or the disk is full.
        """
        training = self.training(trial)
        history = training.run(cached.checkpoint)
        accuracies, right = probe(training, self.splits, trial, cached.checkpoint)
        if trial.held_out_pairs:
            accuracies |= held_out(training, self.splits.test, trial.held_out_pairs, trial.run.seed)
        if trial.closeness_views:
            accuracies |= closeness(training, trial.closeness_views, trial.run.seed)
        if trial.segments is not None:
            accuracies |= evaluate_segments(training, trial.segments, trial.run.seed)
        outcome = Outcome(training.metrics | accuracies, history, right)
        cached.write(outcome)
        return outcome

    def training(self, trial: Trial) -> Training:
        """Builds a variant's training at its first step."""
        return build_training(trial.run, self.splits.train, self.splits.validation, self.device)

    def _one(self, trial: Trial) -> Outcome:
        cached = self.cached(trial)
        with cached.checkpoint:
            return cached.read() or self.train(trial, cached)


def run_name(key: Any) -> str:
    """Name of a run in progress lines: its seed, after its point of a grid if it has one."""
    if isinstance(key, tuple):
        *point, seed = key
        return ", ".join([*(str(part) for part in point[0] if part is not None), run_name(seed)])
    return f"seed {key}"


def probe(
    training: Training, splits: Splits, trial: Trial, checkpoint: Checkpoint | None = None, part: str = "linear"
) -> tuple[dict[str, Number], dict[str, list[bool]]]:
    """kNN and linear probe of the frozen, trained encoder: accuracies, and bits of the right test images.

    A linear probe of views can take hours: it keeps its state as a part of the training's checkpoint.
    """
    encoder, images = training.method.encoder, (splits.train.labelled(), splits.validation, splits.test)
    settings = {"params": trial.linear, "scale": trial.linear_budget, "seed": trial.run.seed}
    settings |= {"device": training.device}
    reads_features = trial.linear.inputs == "features"
    layers = dict.fromkeys(["pooled", "embedding", *[trial.linear.layer] * reads_features])
    features = [extract(encoder, split, list(layers), training.device) for split in images]
    nearest = evaluate_knn(features[0], features[2], trial.knn)
    if reads_features:
        linear = probe_features(features[0], features[2], validation=features[1], **settings)
    else:
        if checkpoint is not None:
            settings["checkpoint"] = checkpoint.beside(part)
        linear = probe_views(encoder, *images, views=training.settings.views, **settings)
    probes = {
        "linear_top1_percent": (linear, "top1_percent"),
        "knn_top1_percent": (nearest, "top1_percent"),
        "nn1_top1_percent": (nearest, "nn1_top1_percent"),
    }
    accuracies = {name: result.metrics[number] for name, (result, number) in probes.items()}
    accuracies["linear_top5_percent"] = linear.metrics["top5_percent"]
    return accuracies, {name: result.right[number].tolist() for name, (result, number) in probes.items()}
