"""What params.yaml may hold, as strict, frozen models; `file` reads it, before any stage works.

    params       the base of every section, and the types of its values
    images       image sets and views
    negatives    samplers, annealing, neighbours
    bounds       how scores become nats
    methods      who holds the keys
    training     encoder, optimiser, learning rate, scales
    evals        probes
    checks       combinations that a memory of a given size cannot serve
    study        a study's own parameters: of rows (tables), of parts (grid)

Values are only in params.yaml; no model has a default. A stage names what it reads by the same
strings as dvc.yaml (`samplers.${sampler}`), so a test can compare the two.
"""

from annulus.extras import require

require(__name__, "pipeline", ["pydantic", "yaml"])

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import model_validator

from annulus.config.bounds import Bounds
from annulus.config.checks import check_memory
from annulus.config.evals import KnnParams, LinearParams
from annulus.config.images import MAY_HAVE_UNLABELLED, Datasets, SplitParams, ViewSetParams
from annulus.config.methods import Methods
from annulus.config.negatives import Anneals, NeighbourSets, Samplers
from annulus.config.params import Name, Params, Seeds, keys_of, nearest
from annulus.config.training import BackboneParams, OptimizerParams, Scales, Schedules

SECTION_OF = {
    "scale": "scales",
    "dataset": "datasets",
    "method": "methods",
    "split": "splits",
    "bound": "bounds",
    "sampler": "samplers",
    "anneal": "anneals",
    "neighbours": "neighbour_sets",
    "views": "view_sets",
    "backbone": "backbones",
    "schedule": "schedules",
}


class AllParams(Params):
    """params.yaml: selectors, and the sections that they choose from."""

    seeds: Seeds
    scale: str
    dataset: str
    method: str
    split: str
    bound: str
    sampler: str
    anneal: str
    neighbours: str
    views: str
    backbone: str
    schedule: str

    datasets: Datasets
    methods: Methods
    splits: dict[Name, SplitParams]
    bounds: Bounds
    samplers: Samplers
    anneals: Anneals
    neighbour_sets: NeighbourSets
    view_sets: dict[Name, ViewSetParams]
    backbones: dict[Name, BackboneParams]
    optimizer: OptimizerParams
    schedules: Schedules
    knn: KnnParams
    linear: LinearParams
    scales: Scales

    def choices(self, selector: str) -> list[str]:
        """The keys that a selector may name."""
        return keys_of(getattr(self, SECTION_OF[selector]))

    def get(self, path: str) -> Any:
        """The value at a key such as `scales.${scale}.pretrain`, selectors filled in."""
        value: Any = self
        for part in re.sub(r"\$\{(\w+)\}", lambda match: getattr(self, match[1]), path).split("."):
            value = value[part] if isinstance(value, Mapping) else getattr(value, part.replace("-", "_"))
        return value

    @model_validator(mode="after")
    def _choices(self) -> Self:
        for selector in SECTION_OF:
            choice, known = getattr(self, selector), self.choices(selector)
            if choice not in known:
                raise ValueError(f"{selector}: {choice!r} is none of {', '.join(known)}{nearest(choice, known)}")
        return self

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        """Refuse combinations that cannot work, as far as the file tells."""
        if self.get("datasets.${dataset}").validation_fraction == 0:
            for selector, choice in (("schedule", "plateau"), ("anneal", "adaptive-epoch")):
                if getattr(self, selector) == choice:
                    raise ValueError(
                        f"{selector}: {choice} decides by validation accuracy, but "
                        f"datasets.{self.dataset}.validation_fraction is 0; give it 0.1, say"
                    )
            if self.linear.drops:
                raise ValueError(
                    f"linear.drops: {self.linear.drops} decides by validation accuracy, but "
                    f"datasets.{self.dataset}.validation_fraction is 0; give it 0.1, say"
                )
        if self.neighbours != "none" and not self.get("bounds.${bound}").takes_neighbours:
            raise ValueError(
                f"neighbours: {self.neighbours} gives a query several positives, and bound: {self.bound} knows one; "
                "take bound: infonce, la or cpc, or neighbours: none"
            )
        patch, view_size = self.get("backbones.${backbone}").patch, self.get("datasets.${dataset}").view_size
        if patch and view_size % patch:
            raise ValueError(
                f"datasets.{self.dataset}.view_size: {view_size} cannot be cut into the patches of {patch} pixels of "
                f"backbone: {self.backbone}; take a multiple of {patch}, or a backbone with smaller patches or none"
            )
        if (patches := self.get("view_sets.${views}").patches) is not None:
            patches.check(self.get("datasets.${dataset}").image_size, view_size)
        prepared = self.get("scales.${scale}.prepare")
        more = self.dataset in MAY_HAVE_UNLABELLED and prepared.unlabelled_images != 0  # as many as are found
        if prepared.train_images is not None and not more:
            held_out = round(prepared.train_images * self.get("datasets.${dataset}").validation_fraction)
            sections = ("methods.${method}", "samplers.${sampler}")
            chosen = [self.get(section) for section in sections]
            check_memory(prepared.train_images - held_out, *chosen, self.get("scales.${scale}.pretrain"), self.scale)
        return self
