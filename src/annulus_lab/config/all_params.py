"""The whole params.yaml as one model: selectors, and the sections that they choose from."""

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import model_validator

from annulus.bounds import BOUNDS
from annulus.datasets.settings import DATASETS, MAY_HAVE_UNLABELLED, PrepareBudget
from annulus.encoders.config import Backbone
from annulus.errors import InputError, nearest
from annulus.evals.knn import KnnSettings
from annulus.evals.linear_settings import LinearBudget, LinearSettings
from annulus.evals.plane import MapSettings
from annulus.methods import METHODS
from annulus.methods.contrast_config import ContrastConfig
from annulus.negatives import SAMPLERS
from annulus.negatives.annealing import ANNEALS
from annulus.negatives.neighbours import NEIGHBOURS, NoNeighbours
from annulus.optim.schedules import SCHEDULES
from annulus.optim.sgd import SGDSettings
from annulus.training.budget import Budget
from annulus.training.limits import check_choices, check_groups, check_memory
from annulus.views.settings import SplitSettings, ViewSet
from annulus_lab.config.params import Name, Params, Seeds, choice_section, section_keys
from annulus_lab.config.sections import SELECTOR_SECTIONS

Datasets = choice_section("Datasets", DATASETS)
Methods = choice_section("Methods", METHODS)
Bounds = choice_section("Bounds", BOUNDS)
Samplers = choice_section("Samplers", SAMPLERS)
Anneals = choice_section("Anneals", ANNEALS)
NeighbourSets = choice_section("NeighbourSets", NEIGHBOURS)
Schedules = choice_section("Schedules", SCHEDULES)
_passed: set[tuple[type | str, ...]] = set()  # trials of this process: classes and values of the choices


class Scale(Params):
    """Compute budget of each stage."""

    prepare: PrepareBudget
    pretrain: Budget
    linear: LinearBudget


class Scales(Params):
    tiny: Scale
    demo: Scale
    cpu: Scale
    gpu: Scale
    paper: Scale


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
    splits: dict[Name, SplitSettings]
    bounds: Bounds
    samplers: Samplers
    anneals: Anneals
    neighbour_sets: NeighbourSets
    view_sets: dict[Name, ViewSet]
    backbones: dict[Name, Backbone]
    optimizer: SGDSettings
    schedules: Schedules
    knn: KnnSettings
    linear: LinearSettings
    map: MapSettings
    scales: Scales

    def choices(self, selector: str) -> list[str]:
        """Keys that a selector may name."""
        return section_keys(getattr(self, SELECTOR_SECTIONS[selector]))

    def get(self, path: str) -> Any:
        """Value at a key such as `scales.${scale}.pretrain`, with the selectors filled in."""
        value: Any = self
        for part in re.sub(r"\$\{(\w+)\}", lambda match: getattr(self, match[1]), path).split("."):
            value = value[part] if isinstance(value, Mapping) else getattr(value, part.replace("-", "_"))
        return value

    @model_validator(mode="after")
    def _choices(self) -> Self:
        faults = []
        for selector in SELECTOR_SECTIONS:
            choice, known = getattr(self, selector), self.choices(selector)
            if choice not in known:
                faults.append(f"{selector}: {choice!r} is none of {', '.join(known)}{nearest(choice, known)}")
        if faults:
            raise ValueError("\n".join(faults))
        return self

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        """Raises ValueError for an impossible combination that the file alone shows."""
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
        if self.neighbours not in ("none", "nearest") and self.get("bounds.${bound}").neighbours == "refused":
            raise ValueError(
                f"neighbours: {self.neighbours} gives a query several positives, and bound: {self.bound} knows one; "
                "take bound: infonce, la or cpc, or neighbours: none"
            )
        names = ("methods.${method}", "bounds.${bound}", "samplers.${sampler}", "anneals.${anneal}")
        check_choices(*map(self.get, (*names, "neighbour_sets.${neighbours}")))
        self._try_contrast()
        patch, view_size = self.get("backbones.${backbone}").patch, self.get("datasets.${dataset}").view_size
        if patch and view_size % patch:
            raise ValueError(
                f"datasets.{self.dataset}.view_size: {view_size} cannot be cut into the patches of {patch} pixels of "
                f"backbone: {self.backbone}; take a multiple of {patch}, or a backbone with smaller patches or none"
            )
        if (patches := self.get("view_sets.${views}").patches) is not None:
            try:
                patches.check(self.get("datasets.${dataset}").image_size, view_size)
            except InputError as error:
                raise InputError(f"view_sets.{self.views}.patches: {error}") from None
        budget = self.get("scales.${scale}.pretrain")
        check_groups(self.get("methods.${method}"), budget, self.scale)
        prepared = self.get("scales.${scale}.prepare")
        more = self.dataset in MAY_HAVE_UNLABELLED and prepared.unlabelled_images != 0  # their number is unknown
        if prepared.train_images is not None and not more:
            held_out = round(prepared.train_images * self.get("datasets.${dataset}").validation_fraction)
            sections = ("methods.${method}", "samplers.${sampler}")
            chosen = [self.get(section) for section in sections]
            check_memory(prepared.train_images - held_out, *chosen, budget, self.scale)
        return self

    def _try_contrast(self) -> None:
        """Tries the sampler and the bound on generated scores.

        Raises:
            InputError: when one of them fails, with the choices.
        """
        neighbours, negatives = self.get("neighbour_sets.${neighbours}"), self.get("methods.${method}").negatives
        chosen = (
            self.get("samplers.${sampler}"),
            None if isinstance(neighbours, NoNeighbours) else neighbours,
            self.get("bounds.${bound}"),
            self.get("scales.${scale}.pretrain").negatives if negatives == "sampled" else "all",
        )
        # The rows of a study share a few choices. Some sections have a list, and so no hash.
        if (trial := (*map(type, chosen), repr(chosen))) in _passed:
            return
        try:
            ContrastConfig(*chosen)
        except InputError as error:
            choices = f"sampler: {self.sampler}, bound: {self.bound}, methods.{self.method}.negatives: {negatives}"
            raise InputError(f"{choices}: {error}") from None
        _passed.add(trial)
