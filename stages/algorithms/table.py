"""The algorithms' metrics -> one table, the papers' numbers beside those measured here."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved
from annulus.trials.papers import as_text, beside_papers

PATHS = ["rows", "table"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    scale = settings["scale"]
    rows = beside_papers(settings["tables"], paths.rows, scale)
    write_table(paths.table, rows)
    here = f"{settings['dataset']}, scale {scale}, {rows[0]['epochs']} epochs"
    print(
        f"\n{as_text(rows)}\n\nlinear probe, top-1, percent; paper: CIFAR-10; here: {here}, mean ± standard deviation "
        f"over {rows[0]['seeds']} seeds; gain: over the table's base method, in pairs by seed\n"
    )
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
