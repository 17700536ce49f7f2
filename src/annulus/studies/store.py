"""The store of trials' outcomes, by all that their numbers depend on.

`.annulus/outcomes/KEY.json` in the main checkout. An outcome stays: variants of several studies or parts that are one
run train once, another seed trains that seed only, and a sweep fills the store that `dvc repro` reads. `rm -r
.annulus/outcomes` frees the space, and lets every run train again. While a run trains, its state is a checkpoint under
the same key, and its lock keeps other processes off, on other machines too.
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch

from annulus.device.device import compiling, described, half_precision
from annulus.files.regular import read_text
from annulus.files.results import write_text
from annulus.running.checkpoint import Checkpoint
from annulus.studies.measured import Outcome

log = logging.getLogger("annulus")


class CachedRun:
    """A run's entry in the store. Its key has no device: a machine without a GPU finds the outcomes of a GPU."""

    def __init__(self, trial: Any, images: Mapping[str, str], code: Mapping[str, str], device: torch.device) -> None:
        """`trial`: the settings; `images` and `code`: SHA-256 sums, by file. The outcome depends on all of them."""
        ways = {"bf16": half_precision(), "compiled": compiling() != "no"}
        key = {"trial": trial, "images": dict(images), "code": dict(code), "ways": ways}
        self.checkpoint = Checkpoint("trials", key, device=described(device))
        self.name = self.checkpoint.folder.name
        self.file = self.checkpoint.folder.parents[2] / "outcomes" / f"{self.name}.json"

    def read(self) -> Outcome | None:
        """Returns the stored outcome, or None if it is missing or damaged (logs a warning)."""
        try:
            return Outcome.parsed(read_text(self.file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("WARNING: %s is damaged (%s); the run starts from its beginning", self.file, error)
            return None

    def write(self, outcome: Outcome) -> None:
        """Keep the outcome, and forget the run's state; within the checkpoint's `with` block.

        Raises:
            InputError: when the disk is full.
        """
        write_text(self.file, outcome.as_text())
        self.checkpoint.done()
