"""Reads pretraining's learning curve."""

import csv
import math
from pathlib import Path

from annulus.errors import InputError
from annulus.files.regular import check_regular

NEEDS = ("seed", "epoch", "bound_nats", "ceiling_nats", "inner_share", "outer_share")


def read_curve(path: Path, seed: int) -> dict[int, dict[str, float]]:
    """Reads a seed's rows of pretraining's learning curve, by epoch.

    Raises:
        InputError: if the file is missing, or does not hold a learning curve of the seed.
    """
    try:
        check_regular(path)
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file, strict=True)]
        if lacking := [name for name in NEEDS if any(name not in row for row in rows)]:
            raise ValueError(f"it has no column {lacking[0]}")
        rows = [row for row in rows if row["seed"] == seed]
        if not rows:
            raise ValueError(f"it has no row of seed {seed}")
        curve = {int(row["epoch"]): row for row in rows}
        if len(curve) < len(rows):
            raise ValueError("it has an epoch twice")
        if not all(math.isfinite(value) for row in rows for value in row.values()):
            raise ValueError("a number is not finite")
        if not all(row["ceiling_nats"] > 0 for row in rows):
            raise ValueError("a ceiling is not above 0")
    except (OSError, LookupError, ValueError, TypeError, OverflowError, AttributeError, csv.Error) as error:
        raise InputError(
            f"{path} is missing or not a learning curve ({error}); run `dvc repro --force pretrain`"
        ) from error
    return curve
