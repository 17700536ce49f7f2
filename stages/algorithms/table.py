"""Metrics of the algorithms -> one table beside the papers' numbers, and further differences of rows."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.errors import InputError
from annulus.files.results import write_table
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.shared.oracle_share import with_shares
from annulus_lab.studies.shared.papers import StudyRows, as_text, comparison_table, in_pairs, pairs_as_text

PATHS = ["rows", "right", "table", "pairs"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    scale, rows = settings["scale"], StudyRows(paths.rows, paths.right, least=min(2, len(settings["seeds"])))
    table = comparison_table(settings["tables"], rows, scale)
    if "oracle" in settings:
        table = with_shares(table, settings["tables"], rows, settings["oracle"])
    pairs = in_pairs(settings["pairs"], rows, scale)
    if not pairs and all(row["verdict"] == "base" for row in table):
        raise InputError(f"{paths.rows}: nothing to compare has run yet; run a row and its base, each with two seeds")
    write_table(paths.table, table, columns=["table", "method"])
    write_table(paths.pairs, pairs, columns=["row", "base"])
    first = [*table, *pairs][0]
    here = f"{settings['dataset']}, scale {scale}, epochs {first['epochs']}, seeds {first['seeds']}"
    print(
        f"\n{as_text(table)}\n\n{pairs_as_text(pairs)}\n\nlinear probe, top-1, percent; paper: CIFAR-10; here: {here}, "
        "with 95 % intervals over seeds and test images; gain: over the table's base method, or a pair's row, "
        "in pairs by seed and test image\n"
    )
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
