"""Converts masks to boxes and to COCO's polygons."""

import numpy as np
from jaxtyping import Bool


def bounding_box(mask: Bool[np.ndarray, "h w"]) -> tuple[int, int, int, int]:
    """x, y, width and height of the smallest box around all pixels of a mask with at least one pixel."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return (
        int(columns[0]),
        int(rows[0]),
        int(columns[-1] - columns[0]) + 1,
        int(rows[-1] - rows[0]) + 1,
    )


def mask_rectangles(mask: Bool[np.ndarray, "h w"]) -> list[list[int]]:
    """Rectangles whose union is the mask, exactly: COCO's polygons cannot have holes, and LVIS takes polygons only.

    Neighbouring rows with the same runs of pixels make one rectangle for each run.
    """
    rectangles: list[list[int]] = []
    begun: dict[tuple[int, int], int] = {}  # runs of the row above, and the row in which each began
    for row, runs in enumerate([*_runs(mask), set()]):
        for first, last in sorted(begun.keys() - runs):
            top = begun.pop((first, last))
            rectangles.append([first, top, last, top, last, row, first, row])
        for run in runs - begun.keys():
            begun[run] = row
    return rectangles


def _runs(mask: Bool[np.ndarray, "h w"]) -> list[set[tuple[int, int]]]:
    """Runs of pixels of each row: the first column, and the column after the last."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))))
    runs: list[set[tuple[int, int]]] = [set() for _ in mask]
    (rows, firsts), (_, lasts) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    for row, first, last in zip(rows.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        runs[row].add((first, last))
    return runs
