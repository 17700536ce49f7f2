"""Annotations of a federated data set, which are incomplete, as in LVIS.

Source: Gupta et al. 2019, "LVIS: a dataset for large vocabulary instance segmentation", CVPR.
"""

from typing import NamedTuple

import numpy as np

from annulus.datasets.draws import Draws
from annulus_lab.studies.detection.scenes import KINDS_OF_OBJECTS, DrawnScene, Thing

# Frequencies of the kinds of objects: seven are often, nine seldom, nine very seldom. With 400 to 900 training pictures
# most become frequent, common and rare. Test pictures have more of the seldom ones, so that they can be measured.
OFTEN = {"train": (40, 6, 1), "val": (8, 4, 2)}
STRIDE = 7  # through the kinds, so that each third has all hues and outlines
NEGATIVES = 6  # categories of a picture that are known to be absent
SKIPPED = 8  # one picture in eight leaves out a category that it shows, another labels it in part


class Federation(NamedTuple):
    """Labelled things, categories known to be absent, and categories with unlabelled things."""

    things: tuple[Thing, ...]
    negative: tuple[int, ...]
    not_exhaustive: tuple[int, ...]


def weights(split: str) -> tuple[int, ...]:
    """Relative frequency of each of KINDS_OF_OBJECTS among the drawn objects."""
    kinds = len(KINDS_OF_OBJECTS)
    order = [STRIDE * label % kinds for label in range(kinds)]
    return tuple(OFTEN[split][(place >= 7) + (place >= 16)] for place in order)


def federated(scene: DrawnScene, number: int, key: int) -> Federation:
    """Removes annotations of a scene: one category may be unknown (nobody annotated it), or lack its last thing."""
    draws = Draws(key, np.array([number]))
    present = sorted({thing.label for thing in scene.things})
    absent = [label for label in range(len(KINDS_OF_OBJECTS)) if label not in present]
    order = np.argsort(draws.words(len(absent))[0], kind="stable")
    negative = tuple(sorted(absent[place] for place in order[:NEGATIVES]))
    choice = int(draws.integers(0, SKIPPED).item())
    things, partly = scene.things, ()
    if choice == 0 and len(present) > 1:
        things = tuple(thing for thing in things if thing.label != present[-1])
    if choice == 1:
        several = [label for label in present if sum(thing.label == label for thing in things) > 1]
        if several:
            partly = (several[0],)
            last = max(place for place, thing in enumerate(things) if thing.label == several[0])
            things = things[:last] + things[last + 1 :]
    return Federation(things, negative, partly)
