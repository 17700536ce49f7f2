"""The runs of one stage, several at a time: one per core on a CPU, one per GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annulus.config.resolved import RUN, run_of, values
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
from annulus.studies.closeness import closeness
from annulus.studies.information import check_pairs, held_out
from annulus.studies.measured import Outcome
from annulus.studies.segments import Segments, evaluate_segments
from annulus.studies.store import CachedRun
from annulus.training.loop import Training
from annulus.training.run import Run
from annulus.training.setup import build_training
from annulus.views.learned import LearnedSplit


@dataclass(frozen=True)
class Splits:
    """The images of a study, and the hashes of their files."""

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    hashes: Mapping[str, str]


def load_splits(folder: Path) -> Splits:
    """The images that stages/study_images.py has written."""
    parts = (load_images(folder / f"{split}.safetensors") for split in SPLITS)
    return Splits(*parts, hashes=hash_images(folder))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A pretraining and the evaluation of its frozen encoder; with images and code, all that the outcome depends on."""

    run: Run
    knn: KnnSettings
    linear: LinearSettings
    linear_budget: LinearBudget
    held_out_pairs: int | None  # test images whose two views give the information estimate; None: none
    closeness_views: int | None  # views whose closest rows are looked at; None: none
    segments: Segments | None  # images with a class for each pixel, to tell these by a decoder


def hash_trial() -> dict[str, str]:
    """The code that any trial's numbers depend on: this file and all that it imports. A stage only names parameters."""
    return hash_code(Path(__file__))


class TrialCode:
    """The code of trials, of what can be chosen only what they chose: another sampler makes no run train again.

    It is read when a trial of such choices is first asked for: an edit while runs wait for a worker changes no run.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[type, ...], dict[str, str]] = {}

    def of(self, trial: Trial) -> dict[str, str]:
        """SHA-256 by file."""
        run = trial.run
        chosen = tuple(type(each) for each in (run.method, run.bound, run.sampler, run.neighbours, run.annealing))
        if chosen not in self._read:
            self._read[chosen] = hash_code(Path(__file__), chosen)
        return self._read[chosen]


def trial_of(
    tree: Mapping[str, Any],
    seed: int,
    held_out_pairs: int | None = None,
    generator: Path | None = None,
    segments: Segments | None = None,
    closeness_views: int | None = None,
) -> Trial:
    """A trial of resolved settings with a seed.

    With the file of a view generator, its two views take the place of the settings' split; its SHA-256 names the run.

    Raises:
        InputError: when the generator's file cannot be read.
    """
    chosen = values(tree, RUN)
    return Trial(
        run=run_of(chosen, seed, None if generator is None else LearnedSplit.of(generator)),
        knn=chosen["knn"],
        linear=chosen["linear"],
        linear_budget=chosen["scales.${scale}.linear"],
        held_out_pairs=held_out_pairs,
        closeness_views=closeness_views,
        segments=segments,
    )


class Trials:
    """Runs over the same images. Each trains once, in whichever process comes first, and its outcome is kept.

    A killed run resumes from its last state.
    """

    def __init__(self, splits: Splits) -> None:
        self.splits, self.device, self.code = splits, pick_device(), TrialCode()

    def run(self, variants: Mapping[Any, Trial]) -> dict[Any, Outcome]:
        """Outcomes of the variants, under their keys. Waits for runs that another process trains.

        Raises:
            InputError: from the first run that fails, or before any, for more held-out pairs than test images.
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
        # Variants of the same settings are one run, and train once.
        missing = {run.name: key for key, run in runs.items() if run.name not in outcomes}
        names = [f"run {i} of {len(missing)}, {run_name(key)}" for i, key in enumerate(missing.values(), 1)]
        trials = [variants[key] for key in missing.values()]
        outcomes |= zip(missing, map_processes(self._one, trials, names=names, device=self.device), strict=True)
        return {key: outcomes[run.name] for key, run in runs.items()}

    def cached(self, trial: Trial) -> CachedRun:
        """The run's entry in the store of outcomes."""
        return CachedRun(trial, self.splits.hashes, self.code.of(trial), self.device)

    def train(self, trial: Trial, cached: CachedRun) -> Outcome:
        """Train, probe, and keep the outcome; within the `with` block of the run's checkpoint.

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
        outcome = Outcome(training.metrics() | accuracies, history, right)
        cached.write(outcome)
        return outcome

    def training(self, trial: Trial) -> Training:
        """A variant's run at its first step."""
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
    """kNN and linear probe of the frozen, trained encoder: accuracies, and which test images are right.

    A linear probe of views, which can take hours, keeps its state as a part of the training's checkpoint.
    """
    encoder, images = training.method.encoder, (splits.train.labelled(), splits.validation, splits.test)
    settings = {"params": trial.linear, "scale": trial.linear_budget, "seed": trial.run.seed}
    settings |= {"device": training.device}
    of_features = trial.linear.inputs == "features"
    layers = dict.fromkeys(["pooled", "embedding", *[trial.linear.layer] * of_features])
    features = [extract(encoder, split, list(layers), training.device) for split in images]
    nearest = evaluate_knn(features[0], features[2], trial.knn)
    if of_features:
        linear = probe_features(features[0], features[2], validation=features[1], **settings)
    else:
        if checkpoint is not None:  # a GPU would not train the last steps to the same bits again
            checkpoint.save(training.state_dict())
            settings["checkpoint"] = checkpoint.beside(part)
        linear = probe_views(encoder, *images, views=training.settings.views, **settings)
    probes = {
        "linear_top1_percent": (linear, "top1_percent"),
        "knn_top1_percent": (nearest, "top1_percent"),
        "nn1_top1_percent": (nearest, "nn1_top1_percent"),
    }
    accuracies = {name: result.metrics[number] for name, (result, number) in probes.items()}
    return accuracies, {name: result.right[number].tolist() for name, (result, number) in probes.items()}
