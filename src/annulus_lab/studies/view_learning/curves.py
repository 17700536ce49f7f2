"""Learning curves of generators, over seeds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from annulus.errors import InputError
from annulus.evals.intervals import over_seeds
from annulus.files.regular import read_text
from annulus.files.results import Number

NUMBERS = ("shared", "classified")

Curves = Mapping[str, Sequence[Mapping[str, Number]]]  # of one generator, by seed


def read_curves(path: Path) -> Curves:
    """Reads the learning curves of one generator from its stage's file.

    Raises:
        InputError: when the file is missing, or holds something else.
    """
    try:
        curves = json.loads(read_text(path))
        over_steps({path.parent.name: curves})
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is missing or holds no learning curves ({error}); run `dvc repro`") from error
    return curves


def over_steps(generators: Mapping[str, Curves]) -> list[dict[str, Number]]:
    """Row for each point of each learning generator's curves, with half of a 95 % interval beside each mean.

    A number that the generator does not use and the interval of a single seed are empty.
    """
    rows: list[dict[str, Number]] = []
    for name, curves in generators.items():
        for points in zip(*curves.values(), strict=True):
            row: dict[str, Number] = {"series": name, "step": points[0]["step"], "seeds": len(points)}
            for number in NUMBERS:
                row |= {f"{number}_nats": "", f"{number}_interval_nats": ""}
                if points[0][f"{number}_nats"] != "":
                    mean = over_seeds([float(point[f"{number}_nats"]) for point in points])
                    half = "" if mean.half is None else mean.half
                    row |= {f"{number}_nats": mean.mean, f"{number}_interval_nats": half}
            rows.append(row)
    return rows
