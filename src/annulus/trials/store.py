"""The store of trials' outcomes: what a run measured, under all that its numbers depend on.

`.annulus/outcomes/KEY.json` in the main checkout, 20 kB each. An outcome stays: variants of several studies or parts
that are one run train once, another seed trains that seed only, and a sweep fills the store that `dvc repro` reads.
`rm -r .annulus/outcomes` frees the space, and lets every run train again. While a run trains, its state is a
checkpoint under the same key, and its lock keeps other processes off, on other machines too.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
import torch

from annulus.files.results import Number, atomic_write
from annulus.files.right import packed, unpacked
from annulus.pipeline.checkpoint import Checkpoint

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class Outcome:
    """What one run measured: the last epoch's numbers, a row per epoch, and which test images each accuracy counts."""

    metrics: dict[str, Number]
    history: list[dict[str, Number]]
    right: dict[str, list[bool]]


class Place:
    """A run's place in the store. Its key has no device: a machine without a GPU finds what a GPU has computed."""

    def __init__(
        self, params: Mapping[str, Any], images: Mapping[str, str], code: Mapping[str, str], device: torch.device
    ) -> None:
        """`images` and `code` are SHA-256 sums, by file."""
        packages = {"torch": torch.__version__, "faiss": faiss.__version__}
        key = {"params": dict(params), "images": dict(images), "code": dict(code), "packages": packages}
        self.checkpoint = Checkpoint("trials", key, device=device.type)
        self.name = self.checkpoint.folder.name
        self.file = self.checkpoint.folder.parents[2] / "outcomes" / f"{self.name}.json"

    def read(self) -> Outcome | None:
        """The outcome, or None when there is none. A damaged one is none, with a warning."""
        try:
            return _parsed(self.file.read_text(encoding="utf-8"))
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
        (images,) = {len(bits) for bits in outcome.right.values()}
        right = {name: packed(np.array(bits)) for name, bits in outcome.right.items()}
        content = vars(outcome) | {"images": images, "right": right}
        with atomic_write(self.file) as temporary:
            temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
        self.checkpoint.done()


def _parsed(text: str) -> Outcome:
    """
    Raises:
        ValueError: when the text holds something else.
    """
    try:
        content = json.loads(text)
        right = {name: unpacked(bits, content["images"]).tolist() for name, bits in content["right"].items()}
        return Outcome(dict(content["metrics"]), [dict(row) for row in content["history"]], right)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no outcome: {type(error).__name__} {error}") from error
