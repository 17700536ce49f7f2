"""Results of one run, and their JSON."""

import json
from dataclasses import dataclass
from typing import Self

import numpy as np

from annulus.files.results import Number
from annulus.files.right import packed, unpacked

# Names of the numbers of annulus_lab.studies.shared.closeness.
CLOSENESS = [
    "hard_weight_percent",
    "hardest_weight_percent",
    "closest_of_class_percent",
    "own_rank_percent",
    "tolerance_cosine",
]
GRADIENT = "hard_gradient_percent"  # under HCL without tau_plus alone


@dataclass(frozen=True)
class Outcome:
    """Results of one run: the last epoch's numbers, a row per epoch, and for each accuracy the right test images."""

    metrics: dict[str, Number]
    history: list[dict[str, Number]]
    right: dict[str, list[bool]]

    def as_text(self) -> str:
        """JSON of the outcome; right test images are packed as bits."""
        (images,) = {len(bits) for bits in self.right.values()}
        right = {name: packed(np.array(bits)) for name, bits in self.right.items()}
        return json.dumps(vars(self) | {"images": images, "right": right}) + "\n"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Outcome of a JSON text.

        Raises:
            ValueError: when the text holds something else.
        """
        try:
            content = json.loads(text)
            right = {name: unpacked(bits, content["images"]).tolist() for name, bits in content["right"].items()}
            return cls(dict(content["metrics"]), [dict(row) for row in content["history"]], right)
        except (LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"no outcome: {type(error).__name__} {error}") from error
