"""Numbers of further encoders, and the rows of their table."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.evals.intervals import verdict
from annulus.files.results import Number, read_metrics
from annulus_lab.studies.detection.detected import RunsByVariant, gain, names, precision
from annulus_lab.studies.shared.outcomes import with_interval
from annulus_lab.studies.shared.study import Settings


def further_row(runs: RunsByVariant) -> dict[str, Number]:
    """Numbers of the runs of `encoder`, and gains over those of `base`, flat, with intervals as in `metrics_row`."""
    metrics: dict[str, Number] = {}
    for name in names(runs):
        metrics |= with_interval(f"encoder_{name}", precision(runs["encoder"], name))
        metrics |= {f"encoder_{seed}_{name}": run["ap"][name] for seed, run in runs["encoder"].items()}
        above = gain(runs["encoder"], runs["base"], name)
        metrics |= with_interval(f"over_base_{name}", above)
        metrics[f"over_base_{name.removesuffix('_percent')}_verdict"] = verdict(above, unit=" points")
    return metrics


def further_rows(folder: Path, tasks: Sequence[str], encoders: Sequence[Settings]) -> Iterator[dict[str, Number]]:
    """Row for each task, further encoder and number; without encoders that have not run."""
    for task in tasks:
        for one in encoders:
            if (file := folder / f"{task}.{one['encoder']}.json").exists():
                yield from _rows(task, one, read_metrics(file))


def _rows(task: str, one: Settings, metrics: Mapping[str, Any]) -> Iterator[dict[str, Number]]:
    verdicts = [name for name in metrics if name.startswith("over_base_") and name.endswith("_verdict")]
    for number in sorted(name.removeprefix("over_base_").removesuffix("_verdict") for name in verdicts):
        row: dict[str, Number] = {"task": task, "number": number, "cell": f"{task} {number}"}
        row |= {name: one[name] for name in ("encoder", "algorithm", "study", "base")}
        row |= {f"ap{part}": metrics[f"encoder_{number}{part}"] for part in ("_percent", "_interval_percent")}
        gains = ("_percent", "_interval_percent", "_verdict")
        row |= {f"over_base{part}": metrics[f"over_base_{number}{part}"] for part in gains}
        row |= {name: metrics[name] for name in ("configuration", "engine", "scale", "seeds")}
        yield row | {"dataset": one["dataset"]}
