"""Table of the study: each task's average precision by variant, with gains over untrained and uniform encoders."""

from collections.abc import Iterator, Mapping
from typing import Any

from annulus.files.results import Number
from annulus_lab.studies.transfer.target_tables import MAIN, MainLine, algorithm

UNIFORM, UNTRAINED = "uniform", "untrained"
VARIANTS = (MAIN, UNIFORM, UNTRAINED)


def rows(tasks: Mapping[str, Mapping[str, Any]], trained: MainLine) -> Iterator[dict[str, Number]]:
    """Row for each task, number and variant, with its gains; `tasks`: metrics of the tasks that have run.

    `cell` is the task with the number: a column of the papers' tables.
    """
    for task, metrics in tasks.items():
        shared = {name: metrics[name] for name in ("configuration", "engine", "scale", "seeds")}
        shared["dataset"] = trained["dataset"]
        for name in sorted((key.removeprefix("main_") for key in metrics if _is_precision(key)), key=_stem):
            stem = _stem(name)
            for variant in VARIANTS:
                row: dict[str, Number] = {"task": task, "number": stem, "variant": variant}
                row |= {"algorithm": algorithm(variant, trained), "cell": f"{task} {stem}"}
                row |= {"ap_percent": metrics[f"{variant}_{name}"]}
                row |= {"ap_interval_percent": metrics[f"{variant}_{stem}_interval_percent"]}
                for base in (UNTRAINED, UNIFORM):
                    above = f"{variant}_over_{base}_{stem}"
                    row[f"over_{base}_percent"] = metrics.get(f"{above}_percent", "")
                    row[f"over_{base}_interval_percent"] = metrics.get(f"{above}_interval_percent", "")
                    row[f"over_{base}_verdict"] = metrics.get(f"{above}_verdict", "")
                yield row | shared


def _stem(name: str) -> str:
    return name.removesuffix("_percent")


def _is_precision(key: str) -> bool:
    """Returns True for a mean such as main_box_ap50_percent; False for a seed's number, an interval or a gain."""
    second = key.removeprefix("main_").split("_")[0]
    return (
        key.startswith("main_")
        and key.endswith("_percent")
        and "interval" not in key
        and not (second.isdigit() or second == "over")
    )
