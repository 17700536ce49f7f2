"""The algorithms' metrics -> one table, the papers' numbers beside those measured here; further differences of rows."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.errors import InputError
from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved
from annulus.trials.papers import Rows, as_text, beside_papers, in_pairs

PATHS = ["rows", "right", "table", "pairs"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    scale, rows = settings["scale"], Rows(paths.rows, paths.right, least=min(2, len(settings["seeds"])))
    table = beside_papers(settings["tables"], rows, scale)
    pairs = in_pairs(settings["pairs"], rows, scale)
    if not (table and pairs):
        raise InputError(f"{paths.rows}: nothing to compare has run yet; run a row and its base, each with two seeds")
    write_table(paths.table, table)
    write_table(paths.pairs, pairs)
    here = f"{settings['dataset']}, scale {scale}, {table[0]['epochs']} epochs, {table[0]['seeds']} seeds"
    print(
        f"\n{as_text(table)}\n\nlinear probe, top-1, percent; paper: CIFAR-10; here: {here}, with 95 % intervals over "
        "seeds and test images; gain: over the table's base method, in pairs by seed and test image\n"
    )
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
