"""DVC projects of a checkout: the main line at its root, and each study in its folder stages/STUDY.

Code and tests name a metrics file by its study: `law/moco.csv`. The root's files are `summary.csv`, `main/knn.json` and
the files of the other folders in ROOTS.
"""

from pathlib import Path

ROOTS = ("main", "benchmarks", "comparisons", "figures", "runs", "searches")  # folders of the root's metrics/


def metrics_path(name: str) -> str:
    """Path in the checkout of a metrics file: `law/moco.csv` is stages/law/metrics/moco.csv."""
    first, _, rest = name.partition("/")
    return f"metrics/{name}" if first in ROOTS or not rest else f"stages/{first}/metrics/{rest}"


def study_names(root: Path) -> list[str]:
    """Names of the studies of a checkout."""
    return sorted(path.parent.name for path in root.glob("stages/*/dvc.yaml"))


def repro(study: str, stage: str = "") -> str:
    """Shell command that runs a study or one of its stages from the root."""
    return f"cd stages/{study} && dvc repro {stage}" if stage else f"make study STUDY={study}"
