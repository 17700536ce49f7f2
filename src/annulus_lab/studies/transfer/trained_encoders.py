"""Encoders of a variant of the main line, one for each seed: trained as in the stage `pretrain`, or untrained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from annulus.device.device import described, pick_device
from annulus.encoders.saved import save_encoder
from annulus.files.images import load_images
from annulus.running.checkpoint import Checkpoint, hash_images, let_go
from annulus.running.code import hash_code
from annulus.running.workers import map_seeds
from annulus.training.setup import build_training
from annulus_lab.config.resolved import PRETRAIN, build_run, values


@dataclass(frozen=True)
class Encoders:
    """Resolved settings of a variant, its seeds, its training images, and the folder of SEED.safetensors.

    Without `trained`, an encoder has the initial weights of the run of its seed.
    """

    settings: Mapping[str, Any]
    trained: bool
    seeds: list[int]
    images: Path
    folder: Path
    # Read once: an edit while seeds wait for a worker changes no run.
    code: Mapping[str, str] = field(default_factory=partial(hash_code, Path(__file__)))

    def write(self) -> None:
        """Trains and saves all encoders; a killed stage resumes each of them.

        Raises:
            InputError: when images and settings do not fit, or a loss is not finite.
        """
        map_seeds(self._one, self.seeds, pick_device())

    def done(self) -> None:
        """Deletes the runs' states; call it after the encoders are written."""
        let_go(map(self._checkpoint, self.seeds))

    def _one(self, seed: int) -> None:
        device = pick_device()
        train, validation = (load_images(self.images / f"{split}.safetensors") for split in ("train", "validation"))
        training = build_training(build_run(values(self.settings, PRETRAIN), seed), train, validation, device)
        with self._checkpoint(seed) as checkpoint:
            if self.trained:
                training.run(checkpoint)
            save_encoder(training.method.encoder, self.folder / f"{seed}.safetensors")

    def _checkpoint(self, seed: int) -> Checkpoint:
        key = {"settings": self.settings, "trained": self.trained, "seed": seed}
        around = {"images": hash_images(self.images), "code": self.code}
        return Checkpoint("encoders", key | around, described(pick_device(), torch.get_num_threads()))
