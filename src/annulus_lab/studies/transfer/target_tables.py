"""Tables of transfer: rows of targets and variants from each target's metrics file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.results import Number, read_metrics

MAIN = "main"  # the variant whose gains over the others are computed
SETTING = ("scale", "seeds", "classes", "train_images", "test_images", "ways", "shots", "episodes")

SELECTORS = ("method", "split", "bound", "sampler", "neighbours", "dataset")  # they determine the algorithm's name

Targets = Mapping[str, Mapping[str, Number]]  # each target's metrics
MainLine = Mapping[str, str]  # choices of SELECTORS


def read_targets(folder: Path, targets: Sequence[str]) -> dict[str, Mapping[str, Number]]:
    """Reads the metrics of the targets that have run.

    Raises:
        InputError: when no target has run, or a file holds something else.
    """
    there = [target for target in targets if (folder / f"{target}.json").exists()]
    if not there:
        raise InputError(f"{folder} has none of {', '.join(targets)}; run `dvc repro`")
    return {target: read_metrics(folder / f"{target}.json") for target in there}


def accuracies(targets: Targets, variants: Sequence[str], trained: MainLine) -> list[dict[str, Number]]:
    """Row for each target and variant."""
    return [
        {"target": target, "variant": variant, "algorithm": algorithm(variant, trained)}
        | _own(metrics, variant, trained)
        for target, metrics in targets.items()
        for variant in variants
    ]


def gains(targets: Targets, variants: Sequence[str], trained: MainLine) -> list[dict[str, Number]]:
    """Row for each target and other variant: the main line's gains over it."""
    return [
        {"target": target, "over": base, "algorithm": algorithm(MAIN, trained)} | _own(metrics, f"over_{base}", trained)
        for target, metrics in targets.items()
        for base in variants
        if base != MAIN
    ]


def further_rows(targets: Sequence[str], folder: Path, further: Mapping[str, str]) -> list[dict[str, Any]]:
    """Metrics of further encoders that have run, with the encoder's name and its base; `further`: base by name."""
    files = {name: read_metrics(file) for name in further if (file := folder / f"{name}.json").exists()}
    return [
        {"name": name, "base": further[name], "metrics": metrics[target]}
        for target in targets
        for name, metrics in files.items()
        if target in metrics
    ]


def further_accuracies(rows: Sequence[Mapping[str, Any]], trained: MainLine) -> list[dict[str, Number]]:
    """Row for each target and further encoder, in the form of `accuracies`."""
    return [
        {"target": one["metrics"]["target"], "variant": one["name"], "algorithm": one["name"]}
        | _own(one["metrics"], "encoder", trained)
        for one in rows
    ]


def further_gains(rows: Sequence[Mapping[str, Any]], trained: MainLine) -> list[dict[str, Number]]:
    """Row for each target and further encoder, in the form of `gains`; `over` names both encoders."""
    return [
        {"target": one["metrics"]["target"], "over": f"{one['base']}, by {one['name']}", "algorithm": one["name"]}
        | _own(one["metrics"], "over_base", trained)
        for one in rows
    ]


def algorithm(variant: str, trained: MainLine) -> str:
    """Name of a variant: the paper's, as IRing and MoCo, or its choices, as `simo cave` and `moco mlcpc uniform`.

    The variant `uniform` of a main line with uniform negatives is the main line again, and stays `uniform`.
    """
    sampler = trained["sampler"] if variant == MAIN else variant
    if variant != MAIN and (sampler != "uniform" or sampler == trained["sampler"]):
        return variant
    usual = {"split": "none", "bound": "infonce", "neighbours": "none"}
    others = [trained[selector] for selector, choice in usual.items() if trained[selector] != choice]
    names = {"ir": ("IR", "IRing"), "moco": ("MoCo", "MoCoRing"), "ir lab": ("CMC", "CMCRing")}
    method = " ".join([trained["method"], *others])
    if method not in names or sampler not in ("uniform", "ring"):
        return f"{method} {sampler}"
    return names[method][sampler == "ring"]


def _own(metrics: Mapping[str, Number], prefix: str, trained: MainLine) -> dict[str, Number]:
    own = f"{prefix}_"
    numbers = {name.removeprefix(own): value for name, value in metrics.items() if name.startswith(own)}
    return numbers | {name: metrics[name] for name in SETTING} | {"dataset": trained["dataset"]}
