"""Store of trials' outcomes: `.annulus/outcomes/KEY.json` in the main checkout.

The key holds all inputs of the numbers. An outcome stays. So a run that several studies or parts share trains once, and
a further seed trains only itself. A sweep fills the store that `dvc repro` reads. `rm -r .annulus/outcomes` frees the
space; then every run trains again. While a run trains, its state is a checkpoint under the same key. The checkpoint's
lock excludes other processes, also on other machines.
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch

from annulus.device.device import compiling, described, half_precision
from annulus.files.regular import read_text
from annulus.files.results import write_text
from annulus.running.checkpoint import Checkpoint
from annulus_lab.studies.shared.measured import Outcome

log = logging.getLogger("annulus")


class CachedRun:
    """Entry of a run in the store. The key has no device: a machine without a GPU reads the outcomes of a GPU."""

    def __init__(self, trial: Any, images: Mapping[str, str], code: Mapping[str, str], device: torch.device) -> None:
        """`trial`: the settings; `images` and `code`: SHA-256 sums, by file. The outcome depends on all of them."""
        ways = {"bf16": half_precision(), "compiled": compiling() != "no"}
        key = {"trial": trial, "images": dict(images), "code": dict(code), "ways": ways}
        self.checkpoint = Checkpoint("trials", key, device=described(device))
        self.name = self.checkpoint.folder.name
        self.file = self.checkpoint.folder.parents[2] / "outcomes" / f"{self.name}.json"

    def read(self) -> Outcome | None:
        """Stored outcome; None if it is missing or, with a warning, damaged."""
        try:
            return Outcome.parsed(read_text(self.file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("WARNING: %s is damaged (%s); the run starts from its beginning", self.file, error)
            return None

    def write(self, outcome: Outcome) -> None:
        """Stores the outcome and deletes the run's state; call it within the checkpoint's `with` block.

        Raises:
            InputError: when the disk is full.
        """
        write_text(self.file, outcome.as_text())
        self.checkpoint.done()
