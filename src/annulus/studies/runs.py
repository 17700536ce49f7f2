"""The runs of one stage, several at a time: on a CPU one a core, on GPUs one each."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from annulus.config.resolved import RUN, values
from annulus.device.device import pick_device
from annulus.encoders.extract import extract
from annulus.encoders.features import SPLITS
from annulus.evals.knn import evaluate_knn
from annulus.evals.linear import probe_features, probe_views
from annulus.files.images import ImageSet, load_images
from annulus.files.results import Number
from annulus.running import progress
from annulus.running.checkpoint import Held, hash_files
from annulus.running.code import hash_code
from annulus.running.workers import each
from annulus.studies.information import check_pairs, held_out
from annulus.studies.measured import Outcome
from annulus.studies.segments import Segments, segmented
from annulus.studies.store import Place
from annulus.training.loop import Training
from annulus.training.setup import build_training
from annulus.views.learned import LearnedSplit

LOOK_SECONDS = 1.0  # between two looks at a run that another process trains


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
    return Splits(*parts, hashes=hash_images(folder))


def hash_images(folder: Path) -> dict[str, str]:
    """SHA-256 of each of the files, by its name: two studies with the same images have the same runs."""
    indexes = sorted(folder.glob("*.safetensors"))  # each tells what its shards hold
    return {Path(name).name: digest for name, digest in hash_files(*indexes).items()}


def hash_trial() -> dict[str, str]:
    """The code that a run's numbers depend on: this file and all that it imports. A stage only names the parameters."""
    return hash_code(Path(__file__))


# A seed and what config.resolved.RUN names; where a study asks for them, `held_out_pairs`, a `generator` of views, and
# `segments`, images with a class for each pixel.
Run = Mapping[str, Any]


def run_of(
    tree: Mapping[str, Any],
    seed: int,
    held_out_pairs: int | None = None,
    generator: Path | None = None,
    segments: Segments | None = None,
) -> Run:
    """A run of resolved settings with a seed; with `held_out_pairs`, it also tells what two views share, and with
    `segments`, how well its frozen encoder tells the classes of pixels.

    With the file of a view generator, its two views take the place of the settings' split; its SHA-256 names the run.

    Raises:
        InputError: when the generator's file cannot be read.
    """
    asked = {} if held_out_pairs is None else {"held_out_pairs": held_out_pairs}
    learned = {} if generator is None else {"generator": asdict(LearnedSplit.of(generator))}
    parted = {} if segments is None else {"segments": segments.model_dump(mode="json")}
    return {"seed": seed} | values(tree, RUN) | asked | learned | parted


class Trials:
    """Runs over the same images. Each trains once, whichever process comes first, and its outcome is kept.

    A run that was killed goes on from its last state.
    """

    def __init__(self, splits: Splits) -> None:
        self.splits, self.device = splits, pick_device()
        self.code = hash_trial()  # as it is now: an edit while runs wait for a worker does not change what runs

    def run(self, variants: Mapping[Any, Run]) -> dict[Any, Outcome]:
        """The outcome of each variant, under its key. What another process trains is waited for.

        Raises:
            InputError: from the first run that fails, or before any, for more held-out pairs than test images.
        """
        for params in variants.values():
            check_pairs(params.get("held_out_pairs", 0), self.splits.test)
        places = {key: self.place(params) for key, params in variants.items()}
        outcomes = {place.name: outcome for place in places.values() if (outcome := place.read())}
        if outcomes:
            progress.say(
                f"{len(outcomes)} of {len({place.name for place in places.values()})} runs have their outcome in "
                ".annulus/outcomes and train no more (remove that folder to train them again)"
            )
        # Variants that differ only in what no run reads are one run, and train once.
        missing = {place.name: key for key, place in places.items() if place.name not in outcomes}
        names = [f"run {i} of {len(missing)}, {name_of(key)}" for i, key in enumerate(missing.values(), 1)]
        runs = [variants[key] for key in missing.values()]
        outcomes |= zip(missing, each(self._one, runs, names=names, device=self.device), strict=True)
        return {key: outcomes[place.name] for key, place in places.items()}

    def place(self, params: Run) -> Place:
        """Where the outcome of a run is."""
        return Place(params, self.splits.hashes, self.code, self.device)

    def train(self, params: Run, place: Place) -> Outcome:
        """Train, probe, and keep the outcome; within the `with` block of the place's checkpoint.

        Raises:
            InputError: when the loss is not finite, or the disk is full.
        """
        training = self.training(params)
        history = training.run(place.checkpoint)
        accuracies, right = probe(training, self.splits, params)
        if pairs := params.get("held_out_pairs"):
            accuracies |= held_out(training, self.splits.test, pairs, params["seed"])
        if segments := params.get("segments"):
            accuracies |= segmented(training, Segments.model_validate(segments), params["seed"])
        outcome = Outcome(training.metrics() | accuracies, history, right)
        place.write(outcome)
        return outcome

    def training(self, params: Run) -> Training:
        """A variant's run at its first step."""
        return build_training(params, self.splits.train, self.splits.validation, self.device)

    def _one(self, params: Run) -> Outcome:
        place, told = self.place(params), False
        while True:
            try:
                with place.checkpoint:
                    return place.read() or self.train(params, place)
            except Held as held:
                if not told:
                    progress.say(f"{held} (this process waits)")
                told = True
                time.sleep(LOOK_SECONDS)


def name_of(key: Any) -> str:
    """What progress calls a run: a seed, or a point of a grid and a seed."""
    if isinstance(key, tuple):
        *point, seed = key
        return ", ".join([*(str(part) for part in point[0] if part is not None), name_of(seed)])
    return f"seed {key}"


def probe(training: Training, splits: Splits, params: Run) -> tuple[dict[str, Number], dict[str, list[bool]]]:
    """kNN and linear probe of the frozen, trained encoder: accuracies, and which test images are right."""
    encoder, images = training.method.encoder, (splits.train.labelled(), splits.validation, splits.test)
    settings = {"params": params["linear"], "scale": params["scales.${scale}.linear"], "seed": params["seed"]}
    settings |= {"device": training.device}
    of_features = params["linear"].inputs == "features"
    layers = dict.fromkeys(["pooled", "embedding", *[params["linear"].layer] * of_features])
    features = [extract(encoder, each, list(layers), training.device) for each in images]
    nearest = evaluate_knn(features[0], features[2], params["knn"])
    if of_features:
        linear = probe_features(*features, **settings)
    else:
        linear = probe_views(encoder, *images, views=params["view_sets.${views}"], **settings)
    probes = {
        "linear_top1_percent": (linear, "top1_percent"),
        "knn_top1_percent": (nearest, "top1_percent"),
        "nn1_top1_percent": (nearest, "nn1_top1_percent"),
    }
    accuracies = {name: found.metrics[number] for name, (found, number) in probes.items()}
    return accuracies, {name: found.right[number].tolist() for name, (found, number) in probes.items()}
